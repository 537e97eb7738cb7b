//! Encrypted connections beside Redis 7.0, the genuine server that is linked to a TLS library:
//! requests and bytes, and handshakes, whole and resumed.
//!
//! Invariant: both servers have the same certificate, and are asked by the same generator.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::peer::{self, REDIS_70, Running, Workers};
use super::loads::{self, WORKLOADS, keys};
use super::{Bench, Finding};
use crate::shell;

const SECONDS: u64 = 3;

/// Large values, where what is encrypted is the work.
const LARGE: &str = "GET of 100,000 bytes";

/// Handshakes: their name, and the generator's words.
const HANDSHAKES: [(&str, &str); 2] =
    [("a whole handshake and a GET", ""), ("a resumed handshake and a GET", "--tls-resume")];

/// A server with a port of its own for TLS; the other one is for orders.
struct Encrypted {
    _server: Running,
    port: u16,
}

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let folder = shell::target().join("bench/tls");
    let certificate = Certificate::make(&folder)?;
    let peers = [bench.ours(), bench.peer(REDIS_70)?];
    let names: Vec<String> = peers.iter().map(|peer| peer.name.to_owned()).collect();
    let core = bench.cores.server();
    let generator = bench.generator(bench.cores.generator());
    let mut servers = Vec::new();
    for peer in peers {
        let port = peer::free_port()?;
        let flags = certificate.flags(port);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let server = peer.start(&core, Workers::Exactly(1), &flags)?;
        finding.remember(&generator.fill(server.port, &keys())?);
        generator.fill(server.port, LARGE_KEYS)?;
        servers.push(Encrypted { _server: server, port });
    }
    let figure = |name: &str, unit| Figure::new(name, unit, names.len());
    let mut costs: Vec<Figure> =
        WORKLOADS.iter().map(|workload| figure(workload.name, "server CPU us")).collect();
    let mut bytes = figure(LARGE, "MB per CPU second");
    let mut handshakes = HANDSHAKES.map(|(name, _)| figure(name, "per CPU second"));
    let seconds = bench.seconds(SECONDS);
    bench.rounds(servers.len(), |round, index| {
        let (port, name) = (servers[index].port, &names[index]);
        let mut run = |load: &str, words: &str| {
            let words = format!("--tls --tls-skip-verify {words}");
            loads::run(&generator, port, &words, (round, name, load), finding)
        };
        for (cost, workload) in costs.iter_mut().zip(WORKLOADS) {
            let words = format!("-t 1 -c 50 {}", workload.words(seconds));
            cost.values[index].push(run(workload.name, &words)?.server_us);
        }
        let words = format!("-t 1 -c 50 --ratio 0:1 --test-time {seconds} {LARGE_KEYS}");
        bytes.values[index].push(LARGE_BYTES / run(LARGE, &words)?.server_us);
        for (figure, (load, more)) in handshakes.iter_mut().zip(HANDSHAKES) {
            let words = format!(
                "-t 1 -c 20 --ratio 0:1 --reconnect-interval 1 --test-time {seconds} {} {more}",
                keys()
            );
            figure.values[index].push(1e6 / run(load, &words)?.server_us);
        }
        Ok(())
    })?;
    let costs = Table { names: names.clone(), figures: costs };
    let [whole, resumed] = handshakes;
    let rates = Table { names, figures: vec![bytes, whole, resumed] };
    finding.goals = goals(&costs, &rates);
    finding.tables = vec![costs, rates];
    METHOD.clone_into(&mut finding.method);
    Ok(())
}

/// Values of this length under keys of their own.
const LARGE_BYTES: f64 = 100_000.0;
const LARGE_KEYS: &str =
    "-d 100000 --key-prefix large: --key-minimum 1 --key-maximum 1000 --distinct-client-seed";

const METHOD: &str = "\
TLS 1.3, a certificate with an RSA key of 2,048 bits, clients without one; ours with one worker and
one thread for handshakes, both on the server's core. 50 connections, values of 256 bytes; a
handshake's figure has its connection and one GET in it. CPU time is that of all threads of the
server.";

fn goals(costs: &Table, rates: &Table) -> Vec<Goal> {
    let mut goals = Vec::new();
    for workload in WORKLOADS {
        let bound = if workload.pipeline == 1 { 0.9 } else { 0.6 };
        let what = format!("server CPU per encrypted {}, times that of {REDIS_70}", workload.name);
        let ratio = costs.ratio(workload.name, REDIS_70);
        goals.push(Goal::new(what, Bound::AtMost(bound), ratio));
    }
    for (name, _) in HANDSHAKES {
        let what = format!("{name} per CPU second, times {REDIS_70}");
        goals.push(Goal::new(what, Bound::AtLeast(1.2), rates.ratio(name, REDIS_70)));
    }
    goals
}

/// A certificate that signs itself, and its key.
struct Certificate {
    certificate: PathBuf,
    key: PathBuf,
}

impl Certificate {
    fn make(folder: &Path) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let own = Self { certificate: folder.join("cert.pem"), key: folder.join("key.pem") };
        let mut command = shell::command(
            "openssl",
            &["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj"],
        );
        command.arg("/CN=localhost").arg("-keyout").arg(&own.key).arg("-out");
        command.arg(&own.certificate);
        shell::output(&mut command)?;
        Ok(own)
    }

    /// What a server is started with.
    fn flags(&self, port: u16) -> Vec<String> {
        let path = |path: &Path| path.display().to_string();
        let (certificate, key) = (path(&self.certificate), path(&self.key));
        [
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &certificate,
            "--tls-auth-clients",
            "no",
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::figure::{Figure, Table};
    use super::{Goal, HANDSHAKES, goals};

    #[test]
    fn goals_are_ratios_to_redis_that_may_be_more_or_less() {
        let names = ["Apus", "Redis 7.0"].map(str::to_owned).to_vec();
        let figure = |name: &str, ours| Figure {
            name: name.to_owned(),
            unit: "",
            values: vec![vec![ours], vec![1.0]],
        };
        let costs =
            Table { names: names.clone(), figures: vec![figure("GET, pipelined by 30", 0.7)] };
        let rates = Table { names, figures: vec![figure(HANDSHAKES[0].0, 1.3)] };
        let met: Vec<_> = goals(&costs, &rates).iter().filter_map(Goal::is_met).collect();
        assert_eq!(met, [false, true], "the rest was not measured");
    }
}
