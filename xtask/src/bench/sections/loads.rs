//! CPU time per request and throughput of GET and SET, pipelined and not.

use super::super::figure::{Figure, Table};
use super::super::generator::{Generator, Load};
use super::super::goal::{Bound, Goal};
use super::super::peer::{REDIS_70, REDIS_82, VALKEY_91};
use super::{Bench, Finding};

/// One kind of load: its name, its ratio of SET and GET, its pipeline.
pub(super) struct Workload {
    pub(super) name: &'static str,
    ratio: &'static str,
    pub(super) pipeline: u32,
}

pub(super) const WORKLOADS: &[Workload] = &[
    Workload { name: "GET", ratio: "0:1", pipeline: 1 },
    Workload { name: "SET", ratio: "1:0", pipeline: 1 },
    Workload { name: "GET, pipelined by 30", ratio: "0:1", pipeline: 30 },
    Workload { name: "SET, pipelined by 30", ratio: "1:0", pipeline: 30 },
];

const SECONDS: u64 = 3;

const METHOD: &str = "\
100,000 keys that all exist, values of 256 bytes, 50 connections; ours with one worker. CPU time is
that of all threads of the server from the kernel's scheduler, divided by the replies. A server that
is waited for does more in one turn, so its CPU time per request depends a little on whether it or
the generator is the limit; the warnings say where it was the generator.";

impl Workload {
    /// The generator's words but for threads and connections.
    pub(super) fn words(&self, seconds: u64) -> String {
        format!(
            "--ratio {} --pipeline {} --test-time {seconds} --hide-histogram {}",
            self.ratio,
            self.pipeline,
            keys()
        )
    }
}

/// The words of keys and values. Without seeds of their own all connections ask for the same keys
/// at the same time, which then lie in the caches, however many they are.
pub(super) fn keys() -> String {
    "-d 256 --key-minimum 1 --key-maximum 100000 --distinct-client-seed".to_owned()
}

/// Figures of CPU time, then figures of throughput, for so many servers.
pub(super) struct Figures {
    costs: Vec<Figure>,
    rates: Vec<Figure>,
}

impl Figures {
    pub(super) fn new(servers: usize) -> Self {
        let figures = |unit| {
            let all = WORKLOADS.iter();
            all.map(|workload| Figure::new(workload.name, unit, servers)).collect()
        };
        Self { costs: figures("server CPU us"), rates: figures("requests/s") }
    }

    pub(super) fn push(&mut self, workload: usize, server: usize, load: &Load) {
        self.costs[workload].values[server].push(load.server_us);
        self.rates[workload].values[server].push(load.per_second);
    }

    pub(super) fn tables(self, names: &[String]) -> Vec<Table> {
        let table = |figures| Table { names: names.to_vec(), figures };
        vec![table(self.costs), table(self.rates)]
    }
}

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let names = bench.names();
    let servers = bench.start_all()?;
    let generator = bench.generator(bench.cores.generator());
    for server in &servers {
        finding.remember(&generator.fill(server.port, &keys())?);
    }
    let mut figures = Figures::new(servers.len());
    bench.rounds(servers.len(), |round, index| {
        for (number, workload) in WORKLOADS.iter().enumerate() {
            let words = format!("-t 1 -c 50 {}", workload.words(bench.seconds(SECONDS)));
            let (port, name) = (servers[index].port, &names[index]);
            let load = run(&generator, port, &words, (round, name, workload.name), finding)?;
            figures.push(number, index, &load);
        }
        Ok(())
    })?;
    finding.tables = figures.tables(&names);
    finding.goals = goals(&finding.tables[0]);
    METHOD.clone_into(&mut finding.method);
    Ok(())
}

/// One run against the server on a port; the place says its round, its server and its load.
pub(super) fn run(
    generator: &Generator,
    port: u16,
    words: &str,
    (round, name, workload): (usize, &str, &str),
    finding: &mut Finding,
) -> Result<Load, String> {
    let report = generator.run(port, words)?;
    let load = report.load()?;
    finding.keep(round, name, workload, &report, &load.warnings);
    Ok(load)
}

fn goals(costs: &Table) -> Vec<Goal> {
    let mut goals = Vec::new();
    for workload in WORKLOADS {
        let bounds = match workload.pipeline {
            1 => [(REDIS_70, 0.90), (REDIS_82, 0.90), (VALKEY_91, 0.90)],
            _ => [(REDIS_70, 0.45), (REDIS_82, 0.60), (VALKEY_91, 0.60)],
        };
        goals.extend(bounds.map(|(peer, bound)| {
            let what = format!("server CPU per {}, times that of {peer}", workload.name);
            Goal::new(what, Bound::AtMost(bound), costs.ratio(workload.name, peer))
        }));
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::super::super::figure::{Figure, Table};
    use super::{Goal, goals};

    #[test]
    fn goals_are_ratios_to_each_peer() {
        let names = ["Apus", "Redis 7.0", "Redis 8.2", "Valkey 9.1"].map(str::to_owned).to_vec();
        let values = vec![vec![0.45], vec![1.0], vec![0.5], vec![0.9]];
        let figure = Figure { name: "GET, pipelined by 30".to_owned(), unit: "us", values };
        let goals = goals(&Table { names, figures: vec![figure] });
        assert_eq!(goals.len(), 12);
        let met: Vec<_> = goals.iter().filter_map(Goal::is_met).collect();
        assert_eq!(met, [true, false, true], "the other loads were not measured");
    }
}
