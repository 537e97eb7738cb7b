//! What the stream costs the primary, and what its application costs the replica.

use super::super::super::figure::{Figure, Table};
use super::super::super::goal::{Bound, Goal};
use super::super::super::peer::{REDIS_82, Running, Workers};
use super::super::super::pipe;
use super::super::{Bench, Finding};
use super::{follow, names, start, two, until_equal};

const SECONDS: u64 = 4;

const WORDS: &str = "-t 1 -c 50 --pipeline 16 --distinct-client-seed --ratio 1:0 -d 64 \
                     --key-maximum 100000 --hide-histogram";

/// A primary with a replica, and one without.
struct Kind {
    alone: Running,
    primary: Running,
    replica: Running,
}

pub(in super::super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let peers = two(bench)?;
    let generator = bench.generator(bench.cores.generator());
    let (core, other) = (bench.cores.server(), bench.cores.generator());
    let mut kinds = Vec::new();
    for peer in peers {
        let start = |cores| start(peer, cores, Workers::Exactly(1));
        let (alone, primary, replica) = (start(&core)?, start(&core)?, start(&other)?);
        let kind = Kind { alone, primary, replica };
        follow(&kind.replica, &kind.primary)?;
        until_equal(&kind.primary, &kind.replica)?;
        kinds.push(kind);
    }
    let mut figures = figures();
    let words = format!("{WORDS} --test-time {}", bench.seconds(SECONDS));
    bench.rounds(2, |round, index| {
        let kind = &kinds[index];
        let alone = generator.run(kind.alone.port, &words)?;
        let with = generator.run(kind.primary.port, &words)?;
        until_equal(&kind.primary, &kind.replica)?;
        signal(&kind.replica, "STOP")?;
        let report = generator.run(kind.primary.port, &words);
        let watch = kind.replica.watch();
        signal(&kind.replica, "CONT")?;
        let (owed, took) = (report?, until_equal(&kind.primary, &kind.replica)?);
        let used = kind.replica.used(&watch)?;
        let applied = (used.user + used.system).as_secs_f64() * 1e6;
        let (before, after, owed) = (alone.load()?, with.load()?, owed.load()?.requests);
        let of = [
            before.server_us,
            after.server_us,
            after.server_us / before.server_us,
            applied / owed,
            owed / took.as_secs_f64(),
            before.per_second,
        ];
        for (figure, value) in figures.iter_mut().zip(of) {
            figure.values[index].push(value);
        }
        finding.keep(round, peers[index].name, "SET, no replica", &alone, &before.warnings);
        finding.keep(round, peers[index].name, "SET, a replica", &with, &after.warnings);
        Ok(())
    })?;
    let table = Table { names: names(peers), figures };
    let ratio = |figure: usize| table.ratio(&table.figures[figure].name, REDIS_82);
    let median = |figure: usize| table.figures[figure].median(0);
    finding.goals.extend([
        Goal::new(
            "primary's CPU per SET with a replica, times without",
            Bound::AtMost(1.25),
            Some(median(2)),
        ),
        Goal::new("replica's CPU per SET, times Redis 8.2", Bound::AtMost(0.6), ratio(3)),
        Goal::new(
            "rate of a replica on one core, times its primary's on one",
            Bound::AtLeast(1.0),
            Some(median(4) / median(5)),
        ),
    ]);
    finding.tables.push(table);
    finding.method = format!(
        "SET of 64 bytes, pipelined by 16, on 50 connections for {SECONDS} s; the primary on one \
         core with one worker, the replica on the generator's core. For its own figures the \
         replica is stopped until the load is over: what it then does until it has everything is \
         its rate and its CPU time."
    );
    Ok(())
}

fn figures() -> Vec<Figure> {
    vec![
        Figure::new("primary's CPU per SET without a replica", "us", 2),
        Figure::new("primary's CPU per SET with one", "us", 2),
        Figure::new("the second over the first", "", 2),
        Figure::new("replica's CPU per SET applied", "us", 2),
        Figure::new("SETs per second that a replica on one core applies", "1/s", 2),
        Figure::new("SETs per second of a primary on one core", "1/s", 2),
    ]
}

fn signal(server: &Running, name: &str) -> Result<(), String> {
    let flag = format!("-{name}");
    let mut command = crate::shell::command("kill", &[&flag, &server.pid().to_string()]);
    crate::shell::output(&mut command).map(|_| ())?;
    match name {
        "CONT" => pipe::line(&pipe::connect(server.port)?, &["PING"]).map(|_| ()),
        _ => Ok(()),
    }
}
