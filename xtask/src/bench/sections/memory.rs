//! Resident memory: of keys, of `DEBUG POPULATE`, of connections. A quantity is that of a fresh
//! server, measured once: memory does not vary as time does.

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::peer::{Peer, REDIS_70, Running, Workers};
use super::super::pipe;
use super::super::process::{field, read};
use super::{Bench, Finding};

const KEYS: u64 = 2_000_000;
/// The generator's prefix and eight digits.
const KEY_BYTES: u64 = 16;
const FIRST_KEY: u64 = 10_000_000;
/// Sizes of values and the most that a key may take beyond its bytes.
const VALUES: [(u64, f64); 3] = [(8, 24.0), (64, 28.0), (1024, 100.0)];

pub(super) fn keys(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let generator = bench.generator(bench.cores.generator());
    let count = bench.plan.scaled(KEYS);
    let mut figures = Vec::new();
    for (value, bound) in VALUES {
        let name = format!("overhead per key, values of {value} bytes");
        let mut figure = Figure::new(name.clone(), "B", bench.peers.len());
        for (index, peer) in bench.peers.iter().enumerate() {
            println!("  {value} bytes, {}", peer.name);
            let server = start(bench, peer, &[])?;
            let empty = server.resident()?;
            let last = FIRST_KEY + count - 1;
            let words = format!("-d {value} --key-minimum {FIRST_KEY} --key-maximum {last}");
            finding.remember(&generator.fill(server.port, &words)?);
            bench.settle();
            let grown = (server.resident()? - empty) / count as f64;
            figure.values[index].push(grown - (KEY_BYTES + value) as f64);
        }
        finding.goals.push(Goal::new(
            format!("{name}, B"),
            Bound::AtMost(bound),
            Some(figure.median(0)),
        ));
        figures.push(figure);
    }
    finding.tables.push(Table { names: bench.names(), figures });
    finding.method = format!(
        "Growth of RSS of an empty server by {count} keys of {KEY_BYTES} bytes, less the bytes of \
         keys and values, per key; {} s after the last. It depends on how full a table happens to \
         be at this very number of keys.",
        super::SETTLE.as_secs(),
    );
    Ok(())
}

pub(super) fn populate(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let count = bench.plan.scaled(1_000_000).to_string();
    let words = ["DEBUG", "POPULATE", &count, "key", "1024"];
    let name = "RSS after DEBUG POPULATE";
    let mut figure = Figure::new(name, "MB", bench.peers.len());
    for (index, peer) in bench.peers.iter().enumerate() {
        let server = start(bench, peer, &["--enable-debug-command", "yes"])?;
        pipe::order(server.port, &words)?;
        bench.settle();
        figure.values[index].push(server.resident()? / 1e6);
    }
    let table = Table { names: bench.names(), figures: vec![figure] };
    finding.goals.push(Goal::new(
        format!("RSS after DEBUG POPULATE, times that of {REDIS_70}"),
        Bound::AtMost(0.82),
        table.ratio(name, REDIS_70),
    ));
    finding.tables.push(table);
    finding.method = format!("The whole RSS after `{}`.", words.join(" "));
    finding.remember(&format!("redis-cli -p PORT {}", words.join(" ")));
    Ok(())
}

const CONNECTIONS: u64 = 10_000;
/// File descriptors of this process that are no connections.
const OTHER_FILES: u64 = 100;

pub(super) fn connections(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let limits = read("/proc/self/limits")?;
    let limit = field(&limits, "Max open files").ok_or("no limit of open files")?;
    let limit = limit.parse().unwrap_or(u64::MAX);
    let count = bench.plan.scaled(CONNECTIONS).min(limit.saturating_sub(OTHER_FILES));
    let name = "RSS added by connections";
    let mut figure = Figure::new(name, "MB", bench.peers.len());
    for (index, peer) in bench.peers.iter().enumerate() {
        let server = start(bench, peer, &[])?;
        let before = server.resident()?;
        let mut streams = Vec::new();
        for _ in 0..count {
            let stream = pipe::connect(server.port)?;
            match pipe::line(&stream, &["PING"])?.as_str() {
                "+PONG" => streams.push(stream),
                other => return Err(format!("PING: {other}")),
            }
        }
        bench.settle();
        figure.values[index].push((server.resident()? - before) / 1e6);
        drop(streams);
    }
    // Fewer than 10,000 say nothing about the goal.
    let added = (count == CONNECTIONS).then(|| figure.median(0));
    let what = format!("RSS added by {CONNECTIONS} connections, MB");
    finding.goals.push(Goal::new(what, Bound::AtMost(10.0), added));
    finding.tables.push(Table { names: bench.names(), figures: vec![figure] });
    finding.method =
        format!("Growth of RSS of an empty server by {count} connections, each after one PING.");
    Ok(())
}

fn start(bench: &Bench<'_>, peer: &Peer, more: &[&str]) -> Result<Running, String> {
    peer.start(&bench.cores.server(), Workers::Exactly(1), more)
}
