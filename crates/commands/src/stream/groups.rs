//! XGROUP: making, moving and removing groups and their consumers.
//!
//! Invariant: a subcommand that refuses leaves no stream behind that it made.

use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};
use structs::stream::{ConsumerGroup, Counter, EntryId, Stream};

use super::ids;
use super::{PENDING_NS, edit, edit_group, edit_group_quietly, no_group_of, wrong_subcommand};
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::unknown_subcommand;
use crate::keys::{Access, at};
use crate::text::reply_help;
use crate::{DataCommand, HandlerFn};

const NO_STREAM: Refusal = Refusal::error(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to \
     use the MKSTREAM option to create an empty stream automatically.",
);
const GROUP_EXISTS: Refusal = Refusal::error("BUSYGROUP Consumer Group name already exists");
const WRONG_ENTRIES_READ: Refusal =
    Refusal::error("ERR value for ENTRIESREAD must be positive or -1");

pub(super) const XGROUP: DataCommand = Command {
    spec: Spec {
        name: "XGROUP",
        since: "5.0.0",
        group: Group::Stream,
        summary: "A container for consumer groups commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..Spec::BASE
    },
    subcommands: &[CREATE, CREATECONSUMER, DELCONSUMER, DESTROY, HELP, SETID],
    run: |_, args, _| Err(unknown_subcommand("XGROUP", &args[1])),
};

/// What the subcommands have in common.
const SUBCOMMAND: Spec = Spec {
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(1)",
    flags: Flags::WRITE,
    ..Spec::BASE
};

const fn subcommand(spec: Spec, run: HandlerFn) -> DataCommand {
    Command { spec, subcommands: &[], run }
}

const CREATE: DataCommand = subcommand(
    Spec {
        name: "CREATE",
        syntax: "key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]",
        summary: "Creates a consumer group.",
        arity: at_least(5),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[at(2, Access::RW.and(Access::INSERT))],
        history: &[("7.0.0", "Added the `entries_read` named argument.")],
        ..SUBCOMMAND
    },
    create,
);

const SETID: DataCommand = subcommand(
    Spec {
        name: "SETID",
        syntax: "key group <id | $> [ENTRIESREAD entries-read]",
        summary: "Sets the last-delivered ID of a consumer group.",
        arity: at_least(5),
        keys: &[at(2, Access::RW.and(Access::UPDATE))],
        history: &[("7.0.0", "Added the optional `entries_read` argument.")],
        ..SUBCOMMAND
    },
    setid,
);

const DESTROY: DataCommand = subcommand(
    Spec {
        name: "DESTROY",
        syntax: "key group",
        summary: "Destroys a consumer group.",
        complexity: "O(N) where N is the number of entries in the group's pending entries list \
                     (PEL).",
        arity: exactly(4),
        keys: &[at(2, Access::RW.and(Access::DELETE))],
        ..SUBCOMMAND
    },
    destroy,
);

const CREATECONSUMER: DataCommand = subcommand(
    Spec {
        name: "CREATECONSUMER",
        since: "6.2.0",
        syntax: "key group consumer",
        summary: "Creates a consumer in a consumer group.",
        arity: exactly(5),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[at(2, Access::RW.and(Access::INSERT))],
        ..SUBCOMMAND
    },
    createconsumer,
);

const DELCONSUMER: DataCommand = subcommand(
    Spec {
        name: "DELCONSUMER",
        syntax: "key group consumer",
        summary: "Deletes a consumer from a consumer group.",
        arity: exactly(5),
        keys: &[at(2, Access::RW.and(Access::DELETE))],
        ..SUBCOMMAND
    },
    delconsumer,
);

/// What may follow the ID of CREATE and SETID.
#[derive(Default)]
struct Words {
    makes_stream: bool,
    /// Whether ENTRIESREAD is among them.
    counts: bool,
    entries_read: Option<Counter>,
}

impl Words {
    fn read(args: Args<'_>, may_make: bool) -> Result<Self, Refusal> {
        let mut words = Self::default();
        let mut options = Options::from(args, 5);
        while let Some(word) = options.word() {
            if may_make && is(word, "MKSTREAM") {
                words.makes_stream = true;
            } else if is(word, "ENTRIESREAD") && options.position() < args.len() {
                words.counts = true;
                words.entries_read = match options.integer()? {
                    -1 => None,
                    read => Some(
                        u64::try_from(read).map(Counter::new).map_err(|_| WRONG_ENTRIES_READ)?,
                    ),
                };
            } else {
                return Err(wrong_subcommand("XGROUP", &args[1]));
            }
        }
        Ok(words)
    }

    /// Says the command without ENTRIESREAD where the journal is told as Redis 6.2 reads it.
    fn journal(&self, tx: &mut Tx, args: Args<'_>) {
        if self.counts && !tx.tells_redis_7() {
            let mut words: Vec<&[u8]> = args.iter().take(5).collect();
            words.extend(self.makes_stream.then_some(&b"MKSTREAM"[..]));
            tx.effects_mut().instead(&words);
        }
    }
}

fn create(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, name) = (&args[2], &args[3]);
    let words = Words::read(args, true)?;
    let stream = tx.peek_view::<Stream>(key)?;
    if stream.is_none() && !words.makes_stream {
        return Err(NO_STREAM);
    }
    // Room for each option once.
    if args.len() > 8 {
        return Err(wrong_subcommand("XGROUP", &args[1]));
    }
    let last_id = match &args[4] {
        b"$" => stream.map_or(EntryId::MIN, Stream::last_id),
        id => ids::exact(id)?,
    };
    if stream.is_some_and(|stream| stream.group(name).is_some()) {
        return Err(GROUP_EXISTS);
    }
    let (added, is_there) =
        (stream.map_or(Counter::default(), Stream::entries_added), stream.is_some());
    let group = ConsumerGroup::new(last_id, words.entries_read.map(|read| read.min(added)));
    let create = |tx: &mut Tx| edit(tx, key, |stream| stream.create_group(name, group));
    if is_there {
        tx.without_modified_keys(create)?
    } else {
        create(tx)?
    };
    words.journal(tx, args);
    tx.event(EventClass::Stream, "xgroup-create", key);
    tx.effects_mut().add_changes(1);
    reply.ok();
    Ok(())
}

/// Refuses unless there is the stream, and the group in it.
fn find_group<'a>(tx: &'a Tx, args: Args<'_>) -> Result<(&'a Stream, &'a ConsumerGroup), Refusal> {
    let stream = tx.peek_view::<Stream>(&args[2])?.ok_or(NO_STREAM)?;
    let group = stream.group(&args[3]).ok_or_else(|| no_group_of(&args[2], &args[3]))?;
    Ok((stream, group))
}

fn setid(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, name) = (&args[2], &args[3]);
    let words = Words::read(args, false)?;
    let (stream, _) = find_group(tx, args)?;
    let last_id = match &args[4] {
        b"$" => stream.last_id(),
        id => ids::or_edge(id)?,
    };
    let added = stream.entries_added();
    edit_group(tx, key, name, |group| {
        group.last_id = last_id;
        group.entries_read = words.entries_read.map(|read| read.min(added));
    })?;
    words.journal(tx, args);
    tx.event(EventClass::Stream, "xgroup-setid", key);
    tx.effects_mut().add_changes(1);
    reply.ok();
    Ok(())
}

fn destroy(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, name) = (&args[2], &args[3]);
    let stream = tx.peek_view::<Stream>(key)?.ok_or(NO_STREAM)?;
    let Some(group) = stream.group(name) else {
        reply.integer(0);
        return Ok(());
    };
    tx.charge(group.pending_count())?;
    tx.without_modified_keys(|tx| edit(tx, key, |stream| stream.destroy_group(name)))?;
    tx.event(EventClass::Stream, "xgroup-destroy", key);
    tx.effects_mut().add_changes(1);
    reply.integer(1);
    Ok(())
}

fn createconsumer(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, name, now) = (&args[2], &args[3], tx.now());
    let (_, group) = find_group(tx, args)?;
    let is_new = group.consumer(&args[4]).is_none();
    if is_new {
        edit_group_quietly(tx, key, name, |group| group.create_consumer(&args[4], now))?;
        tx.event(EventClass::Stream, "xgroup-createconsumer", key);
        tx.effects_mut().add_changes(1);
    }
    reply.integer(i64::from(is_new));
    Ok(())
}

fn delconsumer(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, name) = (&args[2], &args[3]);
    let (_, group) = find_group(tx, args)?;
    let Some(consumer) = group.consumer(&args[4]) else {
        reply.integer(0);
        return Ok(());
    };
    tx.charge(consumer.pending_count().saturating_mul(PENDING_NS))?;
    // A client that waits as that consumer makes it anew when it is served.
    let delete = |group: &mut ConsumerGroup| group.delete_consumer(&args[4]);
    let pending = edit_group_quietly(tx, key, name, delete)?;
    tx.event(EventClass::Stream, "xgroup-delconsumer", key);
    tx.effects_mut().add_changes(1);
    reply.integer(pending.unwrap_or(0) as i64);
    Ok(())
}

const HELP: DataCommand = subcommand(
    Spec {
        name: "HELP",
        summary: "Returns helpful text about the different subcommands.",
        arity: exactly(2),
        flags: Flags::LOADING.and(Flags::STALE).and(Flags::CHANGES_NOTHING),
        ..SUBCOMMAND
    },
    help,
);

fn help(_: &mut Tx, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let lines = [
        "CREATE <key> <groupname> <id|$> [option]",
        "    Create a new consumer group. Options are:",
        "    * MKSTREAM",
        "      Create the empty stream if it does not exist.",
        "    * ENTRIESREAD entries_read",
        "      Set the group's entries_read counter (internal use).",
        "CREATECONSUMER <key> <groupname> <consumer>",
        "    Create a new consumer in the specified group.",
        "DELCONSUMER <key> <groupname> <consumer>",
        "    Remove the specified consumer.",
        "DESTROY <key> <groupname>",
        "    Remove the specified group.",
        "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
        "    Set the current group ID and entries_read counter.",
    ];
    reply_help("XGROUP", &lines, reply);
    Ok(())
}
