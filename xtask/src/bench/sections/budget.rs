//! What a memory budget does under twice as much data: resident memory at its highest, how much of
//! it is keys and values, and what a SET costs that evicts.

use std::thread::sleep;
use std::time::Duration;

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::peer::{BEFORE, OURS, Running, Workers};
use super::super::pipe;
use super::{Bench, Finding};

/// The budget in bytes.
const BUDGET: u64 = 1_000_000_000;
/// Keys whose values of 16 to 4,096 bytes are twice as much.
const KEYS: u64 = 960_000;
const SIZES: &str = "--data-size-range 16-4096 --random-data --key-minimum 10000000";
const SECONDS: u64 = 6;

/// Every policy that evicts, with what its SETs take beside.
const POLICIES: [(&str, &str); 9] = [
    ("allkeys-lru", ""),
    ("allkeys-lfu", ""),
    ("allkeys-lrm", ""),
    ("allkeys-random", ""),
    ("volatile-lru", LIFETIME),
    ("volatile-lfu", LIFETIME),
    ("volatile-random", LIFETIME),
    ("volatile-ttl", LIFETIME),
    ("allkeys-apus", ""),
];
const LIFETIME: &str = "--expiry-range 10000-20000";
/// The policy in which peers are measured too.
const COMMON: &str = "allkeys-lru";

pub(super) fn memory(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let names = bench.names();
    let budget = bench.plan.scaled(BUDGET);
    let (mut most, mut held) = (Vec::new(), Vec::new());
    for (policy, more) in POLICIES {
        let mut rss = Figure::new(format!("highest RSS, {policy}"), "of the budget", names.len());
        let mut bytes = Figure::new(format!("keys and values, {policy}"), "of RSS", names.len());
        for (index, peer) in bench.peers.iter().enumerate() {
            if !matches!(peer.name, OURS | BEFORE) && policy != COMMON {
                continue;
            }
            println!("  {policy}, {}", peer.name);
            let limit = budget.to_string();
            let flags = ["--maxmemory", &limit, "--maxmemory-policy", policy];
            let core = bench.cores.server();
            let server = peer.start(&core, Workers::Exactly(1), &flags)?;
            let highest = overload(bench, finding, &server, more)?;
            rss.values[index].push(highest / budget as f64);
            bytes.values[index].push(contents(&server)? / server.resident()?);
        }
        most.push(rss);
        held.push(bytes);
    }
    for rss in &most {
        let what = format!("{}, times the budget", rss.name);
        finding.goals.push(Goal::new(what, Bound::AtMost(1.03), Some(rss.median(0))));
    }
    let common = held.iter().find(|figure| figure.name.ends_with(COMMON));
    let common = common.ok_or("the common policy is one of all")?;
    let theirs = (1..names.len()).map(|peer| common.median(peer)).fold(0.0, f64::max);
    let what = "keys and values resident at the same RSS, times the best peer";
    finding.goals.push(Goal::new(what, Bound::AtLeast(0.9), Some(common.median(0) / theirs)));
    let table = |figures| Table { names: names.clone(), figures };
    finding.tables = vec![table(most), table(held)];
    finding.method = format!(
        "`maxmemory` of {budget} bytes; {} keys with random values of 16 to 4,096 bytes, twice the \
         budget, SET once each and then for {SECONDS} s at random, 20 connections pipelined by \
         16. RSS is looked at 20 times a second. Keys and values: their mean size in a sample of \
         {SAMPLE}, times DBSIZE. Peers are measured with {COMMON}.",
        bench.plan.scaled(KEYS)
    );
    Ok(())
}

/// Sets twice as much as fits, then goes on at random; the highest RSS meanwhile.
fn overload(
    bench: &Bench<'_>,
    finding: &mut Finding,
    server: &Running,
    more: &str,
) -> Result<f64, String> {
    let generator = bench.generator(bench.cores.generator());
    let last = 9_999_999 + bench.plan.scaled(KEYS);
    let keys = format!("{SIZES} --key-maximum {last} {more}");
    let loads = [
        format!("--ratio 1:0 --key-pattern P:P -n allkeys {keys}"),
        format!("--ratio 1:0 --key-pattern R:R --test-time {} {keys}", bench.seconds(SECONDS)),
    ];
    let mut highest: f64 = 0.0;
    for words in loads {
        let words = format!("-t 1 -c 20 --pipeline 16 --hide-histogram {words}");
        let mut run = generator.start(server.port, &words)?;
        while !run.is_over()? {
            highest = highest.max(server.resident()?);
            sleep(Duration::from_millis(50));
        }
        finding.remember(&run.finish()?.command);
    }
    Ok(highest)
}

const SAMPLE: usize = 2000;

/// Bytes of keys and values, by a sample.
fn contents(server: &Running) -> Result<f64, String> {
    let keys = number(server, &["DBSIZE"])?;
    let mut sum = 0.0;
    for _ in 0..SAMPLE {
        let key = pipe::text(server.port, &["RANDOMKEY"])?;
        sum += key.len() as f64 + number(server, &["STRLEN", &key])?;
    }
    Ok(keys * sum / SAMPLE as f64)
}

fn number(server: &Running, words: &[&str]) -> Result<f64, String> {
    let line = pipe::line(&pipe::connect(server.port)?, words)?;
    let number = line.strip_prefix(':').and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| format!("{}: {line}", words.join(" ")))
}

/// How the SETs come whose cost is measured: how they are called, pipelined by how many, and how
/// many of them there are.
const MANNERS: [(&str, u32, u64); 2] =
    [("pipelined by 16", 16, 1_000_000), ("one at a time", 1, 200_000)];

pub(super) fn cost(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    /// Bytes that the budget leaves to some hundred thousand keys.
    const BUDGET: &str = "100mb";
    const UNIT: &str = "server CPU us";
    let names = ["evicting", "without a budget"].map(str::to_owned).to_vec();
    let generator = bench.generator(bench.cores.generator());
    let first_ones = bench.plan.scaled(1_000_000);
    let mut figures = Vec::new();
    for policy in [COMMON, "allkeys-lfu", "allkeys-apus"] {
        for (manner, pipeline, requests) in MANNERS {
            let requests = bench.plan.scaled(requests);
            let name = format!("SET of a new key, {policy}, {manner}");
            let mut figure = Figure::new(name, UNIT, names.len());
            bench.rounds(2, |round, index| {
                let budget = [BUDGET, "0"][index];
                let flags = ["--maxmemory", budget, "--maxmemory-policy", policy];
                let core = bench.cores.server();
                let server = bench.ours().start(&core, Workers::Exactly(1), &flags)?;
                // The first of them fill the budget, and without one as many tables.
                generator.run(server.port, &sets(10_000_000, first_ones, 16))?;
                let report = generator.run(server.port, &sets(20_000_000, requests, pipeline))?;
                let load = report.load()?;
                figure.values[index].push(load.server_us);
                let what = format!("{policy}, {manner}");
                finding.keep(round, &names[index], &what, &report, &load.warnings);
                Ok(())
            })?;
            let what = format!(
                "server CPU per SET that evicts, {policy}, {manner}, times one that does not"
            );
            finding.goals.push(Goal::new(what, Bound::AtMost(1.25), figure.ratio(1)));
            figures.push(figure);
        }
    }
    finding.tables.push(Table { names, figures });
    finding.method = format!(
        "SETs of new keys with values of 256 bytes after {first_ones} others, 20 connections, one \
         worker: with `maxmemory` {BUDGET} each of them evicts one."
    );
    Ok(())
}

/// So many SETs of new keys, from this one on.
fn sets(first: u64, count: u64, pipeline: u32) -> String {
    format!(
        "-t 1 -c 20 --pipeline {pipeline} --ratio 1:0 --key-pattern P:P -n allkeys -d 256 \
         --hide-histogram --key-minimum {first} --key-maximum {}",
        first + count - 1
    )
}
