//! MEMORY: what takes the memory, and advice. USAGE of a key is a data command: see
//! `commands::generic`.
//!
//! Invariant: the command only reads, and what it says of bytes comes from `MemoryStats`.

mod doctor;
pub(super) mod stats;

use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use keyspace::{Refusal, arena};
use proto::{Args, Reply};

pub(crate) use stats::MemoryStats;
use stats::ratio;

use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::control::help::{self, container};
use engine::limits::log_buffers;
use engine::reclaim::purge;

pub(super) const MEMORY: ControlCommand = Command {
    spec: Spec {
        name: "MEMORY",
        since: "4.0.0",
        group: Group::Server,
        summary: "A container for memory diagnostics commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..Spec::BASE
    },
    subcommands: &[DOCTOR, MALLOC_STATS, PURGE, HELP, STATS],
    run: container,
};

const OF_SHARD: Spec = Spec {
    since: "4.0.0",
    group: Group::Server,
    arity: exactly(2),
    flags: Flags::NONE,
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    ..Spec::BASE
};

const DOCTOR: ControlCommand = Command {
    spec: Spec {
        name: "DOCTOR",
        summary: "Outputs a memory problems report.",
        complexity: "O(1)",
        flags: OF_SHARD.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..OF_SHARD
    },
    subcommands: &[],
    run: doctor,
};

fn doctor(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    reply.verbatim(b"txt", doctor::report(&MemoryStats::of(context.server)).as_bytes());
    Ok(ControlOutcome::Done)
}

const MALLOC_STATS: ControlCommand = Command {
    spec: Spec {
        name: "MALLOC-STATS",
        summary: "Returns the allocator statistics.",
        complexity: "Depends on how much memory is allocated, could be slow",
        flags: OF_SHARD.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..OF_SHARD
    },
    subcommands: &[],
    run: malloc_stats,
};

fn malloc_stats(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let (stats, arena) = (MemoryStats::of(context.server), arena::statistics());
    let text = format!(
        "Entries: {} bytes used of {} bytes in slabs\nTables and partitions: {} bytes\n\
         Other memory: mimalloc\nResident: {} bytes\n",
        arena.used,
        arena.allocated,
        stats.used.saturating_sub(arena.used + stats.clients),
        stats.resident,
    );
    reply.verbatim(b"txt", text.as_bytes());
    Ok(ControlOutcome::Done)
}

const PURGE: ControlCommand = Command {
    spec: Spec {
        name: "PURGE",
        summary: "Asks the allocator to release memory.",
        complexity: "Depends on how much memory is allocated, could be slow",
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        ..OF_SHARD
    },
    subcommands: &[],
    run: purge,
};

/// The arena has given back its empty pages already; those that are nearly empty are emptied in the
/// background. What is mimalloc's the threads give back in their next pause.
fn purge(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    context.server.memory.defrag.ask();
    purge::ask_all(context.server);
    reply.ok();
    Ok(ControlOutcome::Done)
}

const STATS: ControlCommand = Command {
    spec: Spec {
        name: "STATS",
        summary: "Returns details about memory usage.",
        complexity: "O(1)",
        flags: OF_SHARD.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..OF_SHARD
    },
    subcommands: &[],
    run: stats,
};

/// What one field of MEMORY STATS holds.
enum Field {
    Bytes(usize),
    Ratio(f64),
    /// A database: what its tables take for keys and for times to live.
    Tables(usize, usize),
}

fn stats(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let fields = fields(context);
    reply.map(fields.len());
    for (name, field) in fields {
        reply.bulk(name.as_bytes());
        match field {
            Field::Bytes(number) => reply.integer(signed(number)),
            Field::Ratio(ratio) => reply.double(ratio),
            Field::Tables(main, expires) => {
                reply.map(2);
                reply.bulk(b"overhead.hashtable.main");
                reply.integer(signed(main));
                reply.bulk(b"overhead.hashtable.expires");
                reply.integer(signed(expires));
            }
        }
    }
    Ok(ControlOutcome::Done)
}

/// The fields in Redis' order. Those of parts that are not there are zero.
fn fields(context: &Context<'_>) -> Vec<(String, Field)> {
    let stats = MemoryStats::of(context.server);
    let mut fields: Vec<(String, Field)> = Vec::new();
    let mut add = |name: &str, field| fields.push((name.to_owned(), field));
    add("peak.allocated", Field::Bytes(stats.peak));
    add("total.allocated", Field::Bytes(stats.used));
    add("startup.allocated", Field::Bytes(stats.startup));
    // What is kept for slow replicas alone is theirs.
    let backlog = context.server.links.report(context.server).backlog_memory;
    let backlog = backlog.saturating_sub(log_buffers::kept_for_replicas());
    add("replication.backlog", Field::Bytes(backlog));
    add("replica.fullsync.buffer", Field::Bytes(log_buffers::held()));
    add("clients.slaves", Field::Bytes(log_buffers::kept_for_replicas()));
    add("clients.normal", Field::Bytes(stats.clients));
    let scripts = &context.server.scripts;
    add("cluster.links", Field::Bytes(0));
    add("aof.buffer", Field::Bytes(log_buffers::buffered()));
    add("lua.caches", Field::Bytes(scripts.cache.size().1));
    add("functions.caches", Field::Bytes(scripts.libraries.state().size().1));
    add("script.VMs", Field::Bytes(scripts.interpreters.memory().0));
    for (database, tables) in &stats.tables {
        add(&format!("db.{database}"), Field::Tables(*tables, 0));
    }
    add("overhead.db.hashtable.lut", Field::Bytes(stats.tables.iter().map(|it| it.1).sum()));
    add("overhead.db.hashtable.rehashing", Field::Bytes(0));
    add("overhead.total", Field::Bytes(stats.overhead));
    add("db.dict.rehashing.count", Field::Bytes(0));
    add("keys.count", Field::Bytes(stats.keys));
    add("keys.bytes-per-key", Field::Bytes(stats.bytes_per_key()));
    add("dataset.bytes", Field::Bytes(stats.dataset()));
    add("dataset.percentage", Field::Ratio(stats.dataset_percentage()));
    add("peak.percentage", Field::Ratio(stats.peak_percentage()));
    add("allocator.allocated", Field::Bytes(stats.used));
    add("allocator.active", Field::Bytes(stats.active));
    add("allocator.resident", Field::Bytes(stats.anonymous));
    add("allocator.muzzy", Field::Bytes(0));
    let mut compare = |name: &str, larger: usize, smaller: usize| {
        add(&format!("{name}.ratio"), Field::Ratio(ratio(larger, smaller)));
        add(&format!("{name}.bytes"), Field::Bytes(larger.saturating_sub(smaller)));
    };
    compare("allocator-fragmentation", stats.active, stats.used);
    compare("allocator-rss", stats.anonymous, stats.active);
    compare("rss-overhead", stats.resident, stats.anonymous);
    add("fragmentation", Field::Ratio(ratio(stats.resident, stats.used)));
    let fragments = stats.resident.saturating_sub(stats.used);
    add("fragmentation.bytes", Field::Bytes(fragments));
    fields
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

const HELP: ControlCommand = help::subcommand(Group::Server, "4.0.0", print_help);

fn print_help(
    _: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let lines = [
        "DOCTOR",
        "    Return memory problems reports.",
        "MALLOC-STATS",
        "    Return internal statistics report from the memory allocator.",
        "PURGE",
        "    Attempt to purge dirty pages for reclamation by the allocator.",
        "STATS",
        "    Return information about the memory usage of the server.",
        "USAGE <key> [SAMPLES <count>]",
        "    Return memory in bytes used by <key> and its value. Nested values are",
        "    sampled up to <count> times (default: 5, 0 means sample all).",
    ];
    help::help(reply, "MEMORY", &lines);
    Ok(ControlOutcome::Done)
}
