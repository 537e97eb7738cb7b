//! KEYSTATS: which keys are hot, which are big, and what the keys of each prefix take.
//!
//! The first two are kept while commands run (`engine::observe::{hot_key_sketch, big_keys}`); keys
//! are counted by prefix when that is asked for.
//!
//! Invariant: names of keys are told to users that may run this command, and never by INFO.

use commands::arguments::{Options, is};
use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use commands::errors::SYNTAX;
use engine::observe::hot_key_sketch::HotKeyMetric;
use engine::observe::key_prefixes::KeyTotals;
use keyspace::{BigKeyMetric, Refusal};
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::control::help::{self, container};
use crate::control::key_statistics;

/// So many rows are told unless the request says otherwise, and at most.
const DEFAULT_COUNT: usize = 10;
const MAX_COUNT: i64 = 1000;

/// What the subcommands share.
const BASE: Spec = Spec {
    origin: "apus",
    since: "0.1.0",
    group: Group::Server,
    flags: Flags::ADMIN.and(Flags::NOSCRIPT),
    tips: &["nondeterministic_output"],
    ..Spec::BASE
};

pub(crate) const KEYSTATS: ControlCommand = Command {
    spec: Spec {
        name: "KEYSTATS",
        summary: "A container for statistics of keys.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        flags: Flags::NONE,
        tips: &[],
        ..BASE
    },
    subcommands: &[BIG, HELP, HOT, PREFIXES, RESET],
    run: container,
};

pub(crate) const HOT: ControlCommand = Command {
    spec: Spec {
        name: "HOT",
        syntax: "[BY <REQUESTS | BYTES | TIME>] [COUNT count]",
        summary: "Returns the keys that are used most, estimated from a sample of the requests.",
        complexity: "O(W) where W is the number of workers.",
        arity: at_least(2),
        flags: BASE.flags.and(Flags::IDEMPOTENT),
        ..BASE
    },
    subcommands: &[],
    run: hot,
};

fn hot(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    const WORDS: [(&str, HotKeyMetric); 3] = [
        ("REQUESTS", HotKeyMetric::Requests),
        ("BYTES", HotKeyMetric::Bytes),
        ("TIME", HotKeyMetric::Time),
    ];
    let (by, count) = options(args, &WORDS)?;
    let server = context.server;
    let now_us = server.keyspace.clock().monotonic_us();
    let keys = server.observed.key_statistics.hot.report(by, count, now_us);
    reply.array(keys.len());
    for hot in keys {
        reply.map(4);
        head(reply, &hot.key, hot.database);
        reply.bulk(b"per-second");
        reply.double(hot.per_second);
        reply.bulk(b"share");
        reply.double(hot.share);
    }
    Ok(ControlOutcome::Done)
}

const BIG: ControlCommand = Command {
    spec: Spec {
        name: "BIG",
        syntax: "[BY <MEMORY | ELEMENTS>] [COUNT count]",
        summary: "Returns the keys that take most, of those that grew while they were tracked.",
        complexity: "O(1)",
        arity: at_least(2),
        flags: BASE.flags.and(Flags::NO_MULTI),
        ..BASE
    },
    subcommands: &[],
    run: big,
};

fn big(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    const WORDS: [(&str, BigKeyMetric); 2] =
        [("MEMORY", BigKeyMetric::Memory), ("ELEMENTS", BigKeyMetric::Elements)];
    let (by, count) = options(args, &WORDS)?;
    let server = context.server;
    Ok(ControlOutcome::offload_with_locks(move |lane, _, reply| {
        let mut keys = server.observed.key_statistics.big.collect(server.keyspace, lane, by)?;
        keys.truncate(count);
        reply.array(keys.len());
        for big in keys {
            reply.map(5);
            head(reply, &big.key, big.database);
            reply.bulk(b"type");
            reply.bulk(big.kind.as_bytes());
            reply.integer_field("bytes", big.bytes);
            reply.bulk(b"elements");
            match big.elements {
                Some(elements) => reply.integer(i64::try_from(elements).unwrap_or(i64::MAX)),
                None => reply.null(),
            }
        }
        Ok(())
    }))
}

const PREFIXES: ControlCommand = Command {
    spec: Spec {
        name: "PREFIXES",
        syntax: "[COUNT count]",
        summary: "Counts all keys and what they take by their prefixes.",
        complexity: "O(N) where N is the number of keys, on a background thread.",
        arity: at_least(2),
        flags: BASE.flags.and(Flags::NO_MULTI),
        ..BASE
    },
    subcommands: &[],
    run: prefixes,
};

fn prefixes(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let ((), count) = options(args, &[("BYTES", ())])?;
    let server = context.server;
    Ok(ControlOutcome::offload_with_locks(move |lane, _, reply| {
        let stats = key_statistics::scan_prefixes(server, lane)?;
        let now_us = server.keyspace.clock().monotonic_us();
        let requests = server.observed.key_statistics.hot.requests_by_prefix(now_us);
        let told = stats.prefixes.len().min(count);
        // What is not told by its prefix is told as the rest.
        let mut rest = stats.others;
        for (_, totals) in &stats.prefixes[told..] {
            rest.keys += totals.keys;
            rest.bytes += totals.bytes;
        }
        reply.map(3);
        reply.bulk(b"prefixes");
        reply.array(told);
        for (prefix, totals) in &stats.prefixes[..told] {
            reply.map(4);
            reply.bulk(b"prefix");
            reply.bulk(prefix);
            key_totals(reply, *totals);
            reply.bulk(b"requests-per-second");
            reply.double(requests.get(&**prefix).copied().unwrap_or(0.0));
        }
        for (name, totals) in [("without-prefix", stats.without), ("others", rest)] {
            reply.bulk(name.as_bytes());
            reply.map(2);
            key_totals(reply, totals);
        }
        Ok(())
    }))
}

const RESET: ControlCommand = Command {
    spec: Spec {
        name: "RESET",
        summary: "Forgets which keys were hot.",
        complexity: "O(W) where W is the number of workers.",
        arity: exactly(2),
        ..BASE
    },
    subcommands: &[],
    run: |context, _, reply| {
        let now_us = context.server.keyspace.clock().monotonic_us();
        context.server.observed.key_statistics.hot.reset(now_us);
        reply.ok();
        Ok(ControlOutcome::Done)
    },
};

const HELP: ControlCommand = Command {
    spec: Spec { origin: "apus", ..help::subcommand(Group::Server, "0.1.0", say_help).spec },
    subcommands: &[],
    run: say_help,
};

fn say_help(
    _: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    help::help(reply, "KEYSTATS", LINES);
    Ok(ControlOutcome::Done)
}

const LINES: &[&str] = &[
    "BIG [BY MEMORY|ELEMENTS] [COUNT count]",
    "    Return the keys that take most, of those that grew while they were tracked.",
    "HOT [BY REQUESTS|BYTES|TIME] [COUNT count]",
    "    Return the keys that are used most, estimated from a sample of the requests.",
    "PREFIXES [COUNT count]",
    "    Count all keys and what they take by their prefixes.",
    "RESET",
    "    Forget which keys were hot.",
];

const COUNT_RANGE: Refusal = Refusal::error("ERR COUNT must be between 1 and 1000");

/// What the rows are ordered by, the first of these unless a word says otherwise, and how many are
/// told.
fn options<B: Copy>(args: Args<'_>, words: &[(&str, B)]) -> Result<(B, usize), Refusal> {
    let (mut by, mut count) = (words[0].1, DEFAULT_COUNT);
    let mut options = Options::from(args, 2);
    while let Some(word) = options.word() {
        match word {
            _ if is(word, "BY") && words.len() > 1 => {
                let named = options.value()?;
                let found = words.iter().find(|(name, _)| is(named, name)).ok_or(SYNTAX)?;
                by = found.1;
            }
            _ if is(word, "COUNT") => {
                let number = options.integer()?;
                if !(1..=MAX_COUNT).contains(&number) {
                    return Err(COUNT_RANGE);
                }
                count = usize::try_from(number).expect("it is small");
            }
            _ => return Err(SYNTAX),
        }
    }
    Ok((by, count))
}

fn head(reply: &mut Reply<'_>, key: &[u8], database: usize) {
    reply.bulk(b"key");
    reply.bulk(key);
    reply.integer_field("db", database as u64);
}

fn key_totals(reply: &mut Reply<'_>, totals: KeyTotals) {
    reply.integer_field("keys", totals.keys);
    reply.integer_field("bytes", totals.bytes);
}
