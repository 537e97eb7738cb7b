//! Ours as a memcached beside memcached itself: both are started with the same command line and
//! asked in the same words.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bench::usage::Watch;

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::peer::{OURS, REDIS_70, Running, Workers, free_port, installed};
use super::super::pipe;
use super::loads::{Figures, WORKLOADS};
use super::{Bench, Finding};
use crate::shell;

const PEER: &str = "memcached 1.6";

const SECONDS: u64 = 3;
/// In the words of the generator, and before any other.
const PROTOCOL: &str = "-P memcache_text";

const ITEMS: u64 = 2_000_000;
/// The generator's prefix and eight digits.
const KEY_BYTES: u64 = 16;
const FIRST_KEY: u64 = 10_000_000;
/// Sizes of values, and the most that an item may take beyond its bytes.
const VALUES: [u64; 3] = [8, 64, 256];
const OVERHEAD_MAX: f64 = 32.0;

/// One of the two, which ends when dropped.
struct Cache {
    child: Child,
    port: u16,
}

const PATIENCE: Duration = Duration::from_secs(20);

impl Cache {
    /// Starts ours, or the peer, with one thread on the servers' core.
    fn start(bench: &Bench<'_>, is_ours: bool) -> Result<Self, String> {
        let port = free_port()?;
        let folder = shell::target().join("bench");
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let log = File::create(folder.join("memcached.log")).map_err(|error| error.to_string())?;
        let mut command = Command::new("taskset");
        command.args(["-c", &bench.cores.server()]);
        match is_ours {
            true => command.arg(&bench.ours().program).arg("memcached"),
            false => command.arg(installed("memcached")?),
        };
        let port_text = port.to_string();
        command.args(["-p", &port_text, "-l", "127.0.0.1", "-U", "0", "-u", "root"]);
        command.args(["-t", "1", "-m", "4096", "-c", "1100"]);
        command.stdout(log.try_clone().map_err(|error| error.to_string())?).stderr(log);
        let child = command.spawn().map_err(|error| format!("taskset: {error}"))?;
        let mut cache = Self { child, port };
        cache.wait()?;
        Ok(cache)
    }

    /// Waits until it says its version.
    fn wait(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("a memcached ended at once: {status}"));
            }
            match self.version() {
                Ok(line) if line.starts_with("VERSION ") => return Ok(()),
                other if Instant::now() > deadline => {
                    return Err(format!("a memcached does not answer: {other:?}"));
                }
                _ => sleep(Duration::from_millis(5)),
            }
        }
    }

    fn version(&self) -> Result<String, String> {
        let mut stream = pipe::connect(self.port)?;
        stream.write_all(b"version\r\n").map_err(|error| error.to_string())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).map_err(|error| error.to_string())?;
        Ok(line)
    }

    /// Its resident bytes.
    fn resident(&self) -> Result<f64, String> {
        let used = Watch::of(&[self.child.id()]).end().0;
        used.map(|used| used.rss as f64).ok_or_else(|| "a memcached is gone".to_owned())
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // The server keeps nothing; one that has ended already is no fault.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn names() -> Vec<String> {
    [OURS, PEER].map(str::to_owned).to_vec()
}

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    loads(bench, finding)?;
    overhead(bench, finding)?;
    garantia(bench, finding)?;
    finding.method = format!(
        "Both are started by the command line of memcached with one thread and asked in its text \
         protocol. The loads are those of the section \"loads\": 100,000 items of 256 bytes, 50 \
         connections. The overhead is the growth of RSS of an empty server by {ITEMS} items with \
         keys of {KEY_BYTES} bytes, less the bytes of keys and values. `garantia` is that preset's \
         line over a million items; {REDIS_70} was asked in its own protocol."
    );
    Ok(())
}

fn loads(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let caches = [Cache::start(bench, true)?, Cache::start(bench, false)?];
    let generator = bench.generator(bench.cores.generator());
    for cache in &caches {
        let words = format!("{PROTOCOL} {}", super::loads::keys());
        finding.remember(&generator.fill(cache.port, &words)?);
    }
    let (names, mut figures) = (names(), Figures::new(caches.len()));
    bench.rounds(caches.len(), |round, index| {
        for (number, workload) in WORKLOADS.iter().enumerate() {
            let load = workload.words(bench.seconds(SECONDS));
            let report =
                generator.run(caches[index].port, &format!("{PROTOCOL} -t 1 -c 50 {load}"))?;
            let load = report.load()?;
            finding.keep(round, &names[index], workload.name, &report, &load.warnings);
            figures.push(number, index, &load);
        }
        Ok(())
    })?;
    let tables = figures.tables(&names);
    finding.goals.extend(WORKLOADS.iter().map(|workload| {
        let bound = if workload.pipeline == 1 { 0.9 } else { 0.6 };
        let what = format!("memcached: server CPU per {}, times that of {PEER}", workload.name);
        Goal::new(what, Bound::AtMost(bound), tables[0].ratio(workload.name, PEER))
    }));
    finding.tables.extend(tables);
    Ok(())
}

fn overhead(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let generator = bench.generator(bench.cores.generator());
    let count = bench.plan.scaled(ITEMS);
    let mut figures = Vec::new();
    for value in VALUES {
        let name = format!("overhead per item, values of {value} bytes");
        let mut figure = Figure::new(name.clone(), "B", 2);
        for (index, is_ours) in [true, false].into_iter().enumerate() {
            let cache = Cache::start(bench, is_ours)?;
            let empty = cache.resident()?;
            let last = FIRST_KEY + count - 1;
            let words =
                format!("{PROTOCOL} -d {value} --key-minimum {FIRST_KEY} --key-maximum {last}");
            finding.remember(&generator.fill(cache.port, &words)?);
            bench.settle();
            let grown = (cache.resident()? - empty) / count as f64;
            figure.values[index].push(grown - (KEY_BYTES + value) as f64);
        }
        let bound = Bound::AtMost(OVERHEAD_MAX);
        finding.goals.push(Goal::new(format!("{name}, B"), bound, Some(figure.median(0))));
        figures.push(figure);
    }
    finding.tables.push(Table { names: names(), figures });
    Ok(())
}

/// The load of the preset `garantia` without its gigabytes.
fn garantia(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    const LINE: &str = "-d 100 --key-minimum 1 --key-maximum 1000000 --distinct-client-seed";
    let caches = [Cache::start(bench, true)?, Cache::start(bench, false)?];
    let redis: Running =
        bench.peer(REDIS_70)?.start(&bench.cores.server(), Workers::Default, &[])?;
    let servers = [
        (OURS, caches[0].port, PROTOCOL),
        (PEER, caches[1].port, PROTOCOL),
        (REDIS_70, redis.port, "-P redis"),
    ];
    let generator = bench.generator(bench.cores.generator());
    for (_, port, protocol) in servers {
        finding.remember(&generator.fill(port, &format!("{protocol} {LINE}"))?);
    }
    let mut cost = Figure::new("garantia", "server CPU us", servers.len());
    let mut tail = Figure::new("garantia, p99", "ms", servers.len());
    let seconds = bench.seconds(SECONDS);
    bench.rounds(servers.len(), |round, index| {
        let (name, port, protocol) = servers[index];
        let words = format!("{protocol} -t 4 -c 25 --ratio 1:1 --test-time {seconds} {LINE}");
        let report = generator.run(port, &words)?;
        let load = report.load()?;
        finding.keep(round, name, "garantia", &report, &load.warnings);
        cost.values[index].push(load.server_us);
        tail.values[index].push(report.percentile("p99.00")?);
        Ok(())
    })?;
    let names = servers.map(|(name, ..)| name.to_owned()).to_vec();
    for figure in [cost, tail] {
        let table = Table { names: names.clone(), figures: vec![figure] };
        finding.goals.extend([PEER, REDIS_70].map(|peer| {
            let name = table.figures[0].name.clone();
            let ratio = table.ratio(&name, peer);
            Goal::new(format!("{name}, times that of {peer}"), Bound::Below(1.0), ratio)
        }));
        finding.tables.push(table);
    }
    Ok(())
}
