//! One sorted set of a million members: what a change, a rank and a range cost.

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::pipe;
use super::super::redis_benchmark::Classic;
use super::{Bench, Finding};

const MEMBERS: u64 = 1_000_000;

/// Each command, and how often it is sent in a round. Members and scores are twelve digits, as
/// `redis-benchmark` writes random numbers.
const COMMANDS: &[(&str, &str, u64)] = &[
    ("ZADD", "zadd zset __rand_int__ m:__rand_int__", 200_000),
    ("ZRANK", "zrank zset m:__rand_int__", 300_000),
    ("ZRANGE by rank", "zrange zset 500000 500009", 200_000),
    ("ZRANGE by score", "zrange zset __rand_int__ +inf BYSCORE LIMIT 0 10", 200_000),
];

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let names = bench.names();
    let servers = bench.start_all()?;
    let classic = Classic::on(bench.cores.generator())?;
    let members = bench.plan.scaled(MEMBERS);
    for server in &servers {
        pipe::feed(server.port, fill(members))?;
    }
    let new = |(name, ..): &(&str, &str, u64)| Figure::new(*name, "server CPU us", names.len());
    let mut figures: Vec<Figure> = COMMANDS.iter().map(new).collect();
    bench.rounds(servers.len(), |_, index| {
        for ((_, command, requests), figure) in COMMANDS.iter().zip(&mut figures) {
            let (requests, words) =
                (bench.plan.scaled(*requests), format!("-r {members} {command}"));
            figure.values[index].push(classic.cost(&servers[index], requests, &words)?);
            finding.remember(&classic.command(requests, &words));
        }
        Ok(())
    })?;
    let table = Table { names, figures };
    let goal = |figure: &Figure| {
        let what = format!("server CPU per {} of a million, times the best peer", figure.name);
        Goal::new(what, Bound::AtMost(0.5), table.best(figure))
    };
    finding.goals = table.figures.iter().map(goal).collect();
    finding.tables.push(table);
    finding.method = format!(
        "One sorted set of {members} members, 50 connections, 16 requests at once; ZADD gives \
         members other scores, all drawn from {members} numbers. Ours with one worker."
    );
    Ok(())
}

/// The members in an order far from that of their scores.
fn fill(members: u64) -> impl Iterator<Item = Vec<String>> {
    const EACH: u64 = 50;
    (0..members.div_ceil(EACH)).map(move |part| {
        let mut words = vec!["ZADD".to_owned(), "zset".to_owned()];
        for number in part * EACH..members.min((part + 1) * EACH) {
            let score = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % members;
            words.extend([score.to_string(), format!("m:{number:012}")]);
        }
        words
    })
}
