//! Databases as a whole: DBSIZE, FLUSHDB, FLUSHALL, SWAPDB.
//!
//! Invariant: a flush detaches tables and frees them elsewhere, whether SYNC or ASYNC is asked
//! for, so the two differ in name only.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};

use crate::DataCommand;
use crate::arguments::is;
use crate::declare::{Command, Databases, Flags, Group, LockPlan, Spec, at_least, exactly};
use crate::errors::{DB_OUT_OF_RANGE, SYNTAX};

pub(super) const DBSIZE: DataCommand = Command {
    spec: Spec {
        name: "DBSIZE",
        since: "1.0.0",
        group: Group::Server,
        summary: "Returns the number of keys in the database.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: Flags::READONLY.and(Flags::FAST),
        categories: &["@keyspace"],
        tips: &["request_policy:all_shards", "response_policy:agg_sum"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: dbsize,
};

fn dbsize(tx: &mut Tx, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let count = tx.keyspace().len(tx.database());
    tx.note_journal_end();
    reply.integer(count as i64);
    Ok(())
}

pub(super) const FLUSHALL: DataCommand = Command {
    spec: Spec {
        name: "FLUSHALL",
        summary: "Removes all keys from all databases.",
        complexity: "O(N) where N is the total number of keys in all databases",
        databases: Databases::All,
        ..FLUSH
    },
    subcommands: &[],
    run: |tx, args, reply| {
        check_mode(args)?;
        tx.flush_all()?;
        tx.note_flush();
        reply.ok();
        Ok(())
    },
};

pub(super) const FLUSHDB: DataCommand = Command {
    spec: Spec {
        name: "FLUSHDB",
        summary: "Remove all keys from the current database.",
        complexity: "O(N) where N is the number of keys in the selected database",
        ..FLUSH
    },
    subcommands: &[],
    run: |tx, args, reply| {
        check_mode(args)?;
        tx.flush_database()?;
        reply.ok();
        Ok(())
    },
};

/// What both have in common.
const FLUSH: Spec = Spec {
    since: "1.0.0",
    group: Group::Server,
    syntax: "[ASYNC | SYNC]",
    arity: at_least(1),
    flags: Flags::WRITE,
    plan: LockPlan::World,
    categories: &["@keyspace", "@dangerous"],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    history: &[
        ("4.0.0", "Added the `ASYNC` flushing mode modifier."),
        ("6.2.0", "Added the `SYNC` flushing mode modifier."),
    ],
    ..Spec::BASE
};

fn check_mode(args: Args<'_>) -> Result<(), Refusal> {
    let known = match args.len() {
        1 => true,
        2 => is(&args[1], "ASYNC") || is(&args[1], "SYNC"),
        _ => false,
    };
    if known { Ok(()) } else { Err(SYNTAX) }
}

pub(super) const SWAPDB: DataCommand = Command {
    spec: Spec {
        name: "SWAPDB",
        since: "4.0.0",
        group: Group::Server,
        syntax: "index1 index2",
        summary: "Swaps two Redis databases.",
        complexity: "O(N) where N is the count of clients watching or blocking on keys from both \
            databases.",
        arity: exactly(3),
        flags: Flags::WRITE.and(Flags::FAST),
        plan: LockPlan::World,
        categories: &["@keyspace", "@dangerous"],
        databases: Databases::At(&[1, 2]),
        ..Spec::BASE
    },
    subcommands: &[],
    run: swapdb,
};

fn swapdb(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    const CLUSTER: Refusal = Refusal::error("ERR SWAPDB is not allowed in cluster mode");
    // Other nodes would not have swapped.
    if tx.keyspace().is_by_hash_slot() && !tx.keyspace().settings().replays() {
        return Err(CLUSTER);
    }
    let index = |argument: &[u8], refusal: &'static str| {
        let index = base::number::parse_i64(argument).and_then(|index| i32::try_from(index).ok());
        index.ok_or(Refusal::error(refusal))
    };
    let one = index(&args[1], "ERR invalid first DB index")?;
    let other = index(&args[2], "ERR invalid second DB index")?;
    let count = tx.keyspace().database_count();
    let exists = |index| usize::try_from(index).ok().filter(|&index| index < count);
    let (Some(one), Some(other)) = (exists(one), exists(other)) else {
        return Err(DB_OUT_OF_RANGE);
    };
    tx.swap_databases(one, other)?;
    tx.note_incompatible();
    reply.ok();
    Ok(())
}
