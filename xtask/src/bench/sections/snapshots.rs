//! What a snapshot costs while it is taken: memory, latency of others, the pause it begins with.
//! Redis 7.0 forks for it; what its two processes share counts once.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::peer::{Peer, REDIS_70, Running, Workers};
use super::super::pipe;
use super::super::process::{field, read};
use super::{Bench, Finding};

const KEYS: u64 = 2_000_000;
const KEY_BYTES: &str = "--random-data -d 1024 --key-minimum 10000000";
/// Long enough for any of them to save two gigabytes.
const SECONDS: u64 = 12;

/// The words that name the keys.
pub(super) fn keys(bench: &Bench<'_>) -> String {
    format!("{KEY_BYTES} --key-maximum {}", 9_999_999 + bench.plan.scaled(KEYS))
}

/// Ours and Redis 7.0.
fn two<'a>(bench: &'a Bench<'_>) -> Result<[&'a Peer; 2], String> {
    Ok([bench.ours(), bench.peer(REDIS_70)?])
}

fn names(peers: [&Peer; 2]) -> Vec<String> {
    peers.map(|peer| peer.name.to_owned()).to_vec()
}

pub(super) fn memory(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let peers = two(bench)?;
    let generator = bench.generator(bench.cores.all());
    let keys = keys(bench);
    let words = format!(
        "-t 1 -c 50 --pipeline 4 --distinct-client-seed --ratio 1:0 --test-time {} \
         --hide-histogram {keys}",
        bench.seconds(SECONDS)
    );
    let mut figures = vec![
        Figure::new("memory that a snapshot adds", "%", 2),
        Figure::new("SETs meanwhile", "requests/s", 2),
    ];
    bench.rounds(2, |round, index| {
        let server = peers[index].start(&bench.cores.all(), Workers::Default, &[])?;
        finding.remember(&generator.fill(server.port, &keys)?);
        let run = generator.start(server.port, &words)?;
        sleep(Duration::from_secs(1));
        let before = proportional(server.pid())?;
        pipe::line(&pipe::connect(server.port)?, &["BGSAVE"])?;
        let mut most = before;
        while server.info("persistence", "rdb_bgsave_in_progress")? == "1" {
            most = most.max(proportional(server.pid())?);
            sleep(Duration::from_millis(50));
        }
        saved(&server)?;
        let report = run.finish()?;
        figures[0].values[index].push((most / before - 1.0) * 100.0);
        figures[1].values[index].push(report.rate()?);
        finding.keep(round, peers[index].name, "SET", &report, &[]);
        Ok(())
    })?;
    let what = "memory that BGSAVE adds at full load of SETs, %";
    finding.goals.push(Goal::new(what, Bound::AtMost(10.0), Some(figures[0].median(0))));
    finding.tables.push(Table { names: names(peers), figures });
    finding.method = format!(
        "{} keys of 8 bytes with random values of 1 KB; 50 connections SET them as fast as they \
         can while BGSAVE runs. Memory is the proportional set size of the server and its \
         children, at its highest during the snapshot against just before. Server and generator \
         may use all cores.",
        bench.plan.scaled(KEYS)
    );
    Ok(())
}

/// The latest snapshot must have come to a good end.
fn saved(server: &Running) -> Result<(), String> {
    match server.info("persistence", "rdb_last_bgsave_status")?.as_str() {
        "ok" => Ok(()),
        other => Err(format!("BGSAVE ended with {other}")),
    }
}

/// Bytes of a process and its children; pages they share count once.
pub(super) fn proportional(pid: u32) -> Result<f64, String> {
    let children = read(&format!("/proc/{pid}/task/{pid}/children"))?;
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    let mut sum = 0.0;
    for process in std::iter::once(pid).chain(children) {
        // A child may end while it is looked at.
        let Ok(text) = fs::read_to_string(format!("/proc/{process}/smaps_rollup")) else {
            continue;
        };
        let kilobytes: f64 = field(&text, "Pss:").and_then(|word| word.parse().ok()).unwrap_or(0.0);
        sum += kilobytes * 1024.0;
    }
    Ok(sum)
}

pub(super) fn latency(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let peers = two(bench)?;
    let generator = bench.generator(bench.cores.generator());
    let core = bench.cores.server();
    let keys = keys(bench);
    let mut servers = Vec::new();
    for peer in peers {
        let server = peer.start(&core, Workers::Exactly(1), &[])?;
        finding.remember(&generator.fill(server.port, &keys)?);
        servers.push(server);
    }
    let common = format!("-t 1 -c 50 --distinct-client-seed --ratio 1:1 --hide-histogram {keys}");
    let quiet = format!("{common} --test-time {}", bench.seconds(3));
    let most = generator.run(servers[1].port, &quiet)?.rate()?;
    let rate = (most / 2.0).round();
    let words = format!("{common} --open-loop {rate:.0} --test-time {}", bench.seconds(8));
    let mut figures = vec![
        Figure::new("rate kept, of what was sent", "", 2),
        Figure::new("p99.9 of GET", "ms", 2),
        Figure::new("p99.9 of GET without a snapshot", "ms", 2),
    ];
    bench.rounds(2, |round, index| {
        let server = &servers[index];
        let alone = generator.run(server.port, &words)?;
        figures[2].values[index].push(alone.percentile_of_gets("p99.90")?);
        let report = while_saving(server, || generator.run(server.port, &words))?;
        figures[0].values[index].push(report.rate()? / rate);
        figures[1].values[index].push(report.percentile_of_gets("p99.90")?);
        finding.keep(round, peers[index].name, "GET and SET", &report, &[]);
        Ok(())
    })?;
    let table = Table { names: names(peers), figures };
    let what = "rate kept during BGSAVE at half the maximum, all on one core";
    let kept = Some(table.figures[0].median(0));
    finding.goals.push(Goal::new(what, Bound::AtLeast(0.98), kept));
    let what = "p99.9 of GET during BGSAVE on one core, times Redis 7.0";
    let tail = table.ratio(&table.figures[1].name, REDIS_70);
    finding.goals.push(Goal::new(what, Bound::Below(1.0), tail));
    finding.tables.push(table);
    finding.method = format!(
        "{} keys with random values of 1 KB, GET and SET in turn on 50 connections, {rate} per \
         second sent by the clock: half of what {REDIS_70} did in a closed loop just before. The \
         server and all its threads and children have one core; snapshots follow each other \
         without a rest. A latency counts from when its request was due.",
        bench.plan.scaled(KEYS)
    );
    Ok(())
}

/// Measures while the server takes one snapshot after the other.
fn while_saving<T>(
    server: &Running,
    measure: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let saving = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                pipe::line(&pipe::connect(server.port)?, &["BGSAVE"])?;
                server.reaches("persistence", "rdb_bgsave_in_progress", "0")?;
                saved(server)?;
            }
            Ok::<(), String>(())
        });
        let measured = measure();
        over.store(true, Ordering::Relaxed);
        saving.join().expect("it returns its errors")?;
        measured
    })
}

pub(super) fn cuts(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    const KEYS: u64 = 10_000_000;
    let peers = two(bench)?;
    let generator = bench.generator(bench.cores.all());
    let count = bench.plan.scaled(KEYS).to_string();
    let mut servers = Vec::new();
    for peer in peers {
        let flags = ["--enable-debug-command", "yes"];
        let server = peer.start(&bench.cores.all(), Workers::Default, &flags)?;
        pipe::order(server.port, &["DEBUG", "POPULATE", &count])?;
        servers.push(server);
    }
    let words = format!(
        "-t 1 -c 50 --ratio 1:1 -d 64 --key-maximum 100000 --hide-histogram --test-time {}",
        bench.seconds(4)
    );
    let mut figure = Figure::new("pause that begins a snapshot", "ms", 2);
    bench.rounds(2, |round, index| {
        let server = &servers[index];
        let run = generator.start(server.port, &words)?;
        sleep(Duration::from_secs(1));
        pipe::line(&pipe::connect(server.port)?, &["BGSAVE"])?;
        server.reaches("persistence", "rdb_bgsave_in_progress", "0")?;
        saved(server)?;
        let report = run.finish()?;
        figure.values[index].push(server.number("stats", "latest_fork_usec")? / 1000.0);
        finding.keep(round, peers[index].name, "GET and SET", &report, &[]);
        Ok(())
    })?;
    let longest = figure.values[0].iter().copied().fold(0.0, f64::max);
    let what = format!("longest pause that begins a snapshot of {count} keys, ms");
    finding.goals.push(Goal::new(what, Bound::AtMost(1.0), Some(longest)));
    finding.tables.push(Table { names: names(peers), figures: vec![figure] });
    finding.method = format!(
        "`latest_fork_usec` of INFO after a BGSAVE of {count} keys beside GET and SET from 50 \
         connections; ours counts from the moment when the world is told to stop until it goes on."
    );
    Ok(())
}
