//! XINFO: what streams, groups and consumers are made of.
//!
//! Invariant: looking changes nothing. The fields, and their order, are those of Redis.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::stream::{self, Consumer, EntryId, PendingEntry, Stream, StreamEntry};

use super::ids::reply_id;
use super::{ENTRY_NS, no_group_of, reply_entry, wrong_subcommand};
use crate::arguments::{integer, is};
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::{NO_SUCH_KEY, unknown_subcommand};
use crate::keys::{Access, KeySpec, at};
use crate::text::reply_help;
use crate::{DataCommand, HandlerFn};

/// How many entries `FULL` shows unless it is told.
const DEFAULT_COUNT: usize = 10;

pub(super) const XINFO: DataCommand = Command {
    spec: Spec {
        name: "XINFO",
        since: "5.0.0",
        group: Group::Stream,
        summary: "A container for stream introspection commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..Spec::BASE
    },
    subcommands: &[CONSUMERS, GROUPS, HELP, STREAM],
    run: |_, args, _| Err(unknown_subcommand("XINFO", &args[1])),
};

const KEY: &[KeySpec] = &[at(2, Access::RO.and(Access::ACCESS))];

/// What the subcommands have in common.
const SUBCOMMAND: Spec = Spec {
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(1)",
    flags: Flags::READONLY,
    keys: KEY,
    ..Spec::BASE
};

const fn subcommand(spec: Spec, run: HandlerFn) -> DataCommand {
    Command { spec, subcommands: &[], run }
}

const CONSUMERS: DataCommand = subcommand(
    Spec {
        name: "CONSUMERS",
        syntax: "key group",
        summary: "Returns a list of the consumers in a consumer group.",
        arity: exactly(4),
        tips: &["nondeterministic_output"],
        history: &[("7.2.0", "Added the `inactive` field, and changed the meaning of `idle`.")],
        ..SUBCOMMAND
    },
    consumers,
);

const GROUPS: DataCommand = subcommand(
    Spec {
        name: "GROUPS",
        syntax: "key",
        summary: "Returns a list of the consumer groups of a stream.",
        arity: exactly(3),
        history: &[("7.0.0", "Added the `entries-read` and `lag` fields")],
        ..SUBCOMMAND
    },
    groups,
);

const STREAM: DataCommand = subcommand(
    Spec {
        name: "STREAM",
        syntax: "key [FULL [COUNT count]]",
        summary: "Returns information about a stream.",
        arity: at_least(3),
        history: &[
            ("6.0.0", "Added the `FULL` modifier."),
            (
                "7.0.0",
                "Added the `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, \
                 `entries-read` and `lag` fields",
            ),
            ("7.2.0", "Added the `active-time` field, and changed the meaning of `seen-time`."),
        ],
        ..SUBCOMMAND
    },
    describe,
);

const HELP: DataCommand = subcommand(
    Spec {
        name: "HELP",
        summary: "Returns helpful text about the different subcommands.",
        arity: exactly(2),
        flags: Flags::LOADING.and(Flags::STALE).and(Flags::CHANGES_NOTHING),
        keys: &[],
        ..SUBCOMMAND
    },
    help,
);

fn consumers(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let stream = tx.view::<Stream>(&args[2])?.ok_or(NO_SUCH_KEY)?;
    let group = stream.group(&args[3]).ok_or_else(|| no_group_of(&args[2], &args[3]))?;
    tx.charge(group.consumers().len() as u64 * ENTRY_NS)?;
    reply.array(group.consumers().len());
    for (name, consumer) in group.consumers() {
        let since = |time: i64| tx.now().saturating_sub(time).max(0);
        reply.map(4);
        field("name", reply).bulk(name);
        field("pending", reply).integer(consumer.pending_count() as i64);
        field("idle", reply).integer(since(consumer.seen_at));
        field("inactive", reply).integer(consumer.active_at.map_or(-1, since));
    }
    Ok(())
}

fn groups(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let stream = tx.view::<Stream>(&args[2])?.ok_or(NO_SUCH_KEY)?;
    tx.charge(stream.groups().len() as u64 * ENTRY_NS)?;
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply.map(6);
        field("name", reply).bulk(name);
        field("consumers", reply).integer(group.consumers().len() as i64);
        field("pending", reply).integer(group.pending_count() as i64);
        reply_position(stream, group, reply);
    }
    Ok(())
}

/// How far a group has read: three fields.
fn reply_position(stream: &Stream, group: &stream::ConsumerGroup, reply: &mut Reply<'_>) {
    reply_id(group.last_id, &mut field("last-delivered-id", reply));
    let numbers = [
        ("entries-read", group.entries_read.map(|read| read.get() as i64)),
        ("lag", stream.lag_of(group)),
    ];
    for (name, number) in numbers {
        let mut value = field(name, reply);
        match number {
            Some(number) => value.integer(number),
            None => value.null(),
        }
    }
}

fn describe(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let stream = tx.view::<Stream>(&args[2])?.ok_or(NO_SUCH_KEY)?;
    let full = full_count(args)?;
    let nodes = stream.node_count() as i64;
    let rest = match full {
        Some(_) => 2,
        None => 3,
    };
    let sent = if stream.idempotence().is_some() { 6 } else { 0 };
    if let Some(count) = full {
        let pending = stream.groups().map(|(_, group)| {
            2 * group.pending_count().min(count as u64) + group.consumers().len() as u64
        });
        let cost = stream.len().min(count as u64) + pending.sum::<u64>();
        tx.charge(cost.saturating_mul(ENTRY_NS))?;
    }
    reply.map(7 + sent + rest);
    field("length", reply).integer(stream.len() as i64);
    field("radix-tree-keys", reply).integer(nodes);
    // There is no radix tree: one whose keys have all but their ends in common has a node more.
    field("radix-tree-nodes", reply).integer(nodes + 1);
    reply_id(stream.last_id(), &mut field("last-generated-id", reply));
    reply_id(stream.max_deleted_id(), &mut field("max-deleted-entry-id", reply));
    field("entries-added", reply).integer(stream.entries_added().get() as i64);
    reply_id(stream.first_id(), &mut field("recorded-first-entry-id", reply));
    reply_sent(stream, reply);
    match full {
        Some(count) => reply_full(stream, count, reply),
        None => {
            field("groups", reply).integer(stream.groups().len() as i64);
            let (least, most) = (EntryId::MIN, EntryId::MAX);
            reply_edge("first-entry", stream.range(least, most).next(), reply);
            reply_edge("last-entry", stream.range_back(least, most).next(), reply);
        }
    }
    Ok(())
}

/// How many entries `FULL` is to show, if it is asked for; 0 is all.
fn full_count(args: Args<'_>) -> Result<Option<usize>, Refusal> {
    let count = match args.len() {
        3 => return Ok(None),
        4 if is(&args[3], "FULL") => DEFAULT_COUNT,
        6 if is(&args[3], "FULL") && is(&args[4], "COUNT") => {
            usize::try_from(integer(args, 5)?).unwrap_or(DEFAULT_COUNT)
        }
        _ => return Err(wrong_subcommand("XINFO", &args[1])),
    };
    Ok(Some(if count == 0 { usize::MAX } else { count }))
}

/// What is remembered of producers (Redis 8.6), where one has sent anything.
fn reply_sent(stream: &Stream, reply: &mut Reply<'_>) {
    let Some(sent) = stream.idempotence() else { return };
    let fields = [
        ("idmp-duration", sent.limits().duration),
        ("idmp-maxsize", sent.limits().size as u64),
        ("pids-tracked", sent.producer_count()),
        ("iids-tracked", sent.tracked_count()),
        ("iids-added", sent.added_count().get()),
        ("iids-duplicates", sent.duplicate_count().get()),
    ];
    fields.iter().for_each(|(name, number)| field(name, reply).integer(*number as i64));
}

fn reply_edge(name: &str, item: Option<StreamEntry<'_>>, reply: &mut Reply<'_>) {
    let mut value = field(name, reply);
    match item {
        Some(item) => reply_entry(&item, &mut value),
        None => value.null(),
    }
}

fn reply_full(stream: &Stream, count: usize, reply: &mut Reply<'_>) {
    let mark = field("entries", reply).defer();
    let mut found = 0;
    for item in stream.range(EntryId::MIN, EntryId::MAX).take(count) {
        reply_entry(&item, reply);
        found += 1;
    }
    reply.finish_array(mark, found);
    field("groups", reply).array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply.map(8);
        field("name", reply).bulk(name);
        reply_position(stream, group, reply);
        field("pel-count", reply).integer(group.pending_count() as i64);
        field("nacked-count", reply).integer(group.given_back_count() as i64);
        let pending = group.pending_from(EntryId::MIN).take(count);
        let shown = count.min(usize::try_from(group.pending_count()).unwrap_or(usize::MAX));
        field("pending", reply).array(shown);
        for known in pending {
            reply.array(4);
            reply_id(known.id, reply);
            reply.bulk(group.owner_of(&known));
            reply_times(&known, reply);
        }
        field("consumers", reply).array(group.consumers().len());
        for (name, consumer) in group.consumers() {
            reply_consumer(group, name, consumer, count, reply);
        }
    }
}

fn reply_consumer(
    group: &stream::ConsumerGroup,
    name: &[u8],
    consumer: &Consumer,
    count: usize,
    reply: &mut Reply<'_>,
) {
    reply.map(5);
    field("name", reply).bulk(name);
    field("seen-time", reply).integer(consumer.seen_at);
    field("active-time", reply).integer(consumer.active_at.unwrap_or(-1));
    field("pel-count", reply).integer(consumer.pending_count() as i64);
    let shown = count.min(usize::try_from(consumer.pending_count()).unwrap_or(usize::MAX));
    field("pending", reply).array(shown);
    let owned = consumer.owned_from(EntryId::MIN).take(count);
    for known in owned.filter_map(|id| group.pending(id)) {
        reply.array(3);
        reply_id(known.id, reply);
        reply_times(&known, reply);
    }
}

fn reply_times(pending: &PendingEntry, reply: &mut Reply<'_>) {
    reply.integer(pending.delivered_at);
    reply.integer(pending.deliveries.get() as i64);
}

/// Begins a field; its value follows.
fn field<'r>(name: &str, reply: &'r mut Reply<'_>) -> Reply<'r> {
    reply.bulk(name.as_bytes());
    reply.reborrow()
}

fn help(_: &mut Tx, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let lines = [
        "CONSUMERS <key> <groupname>",
        "    Show consumers of <groupname>.",
        "GROUPS <key>",
        "    Show the stream consumer groups.",
        "STREAM <key> [FULL [COUNT <count>]",
        "    Show information about the stream.",
    ];
    reply_help("XINFO", &lines, reply);
    Ok(())
}
