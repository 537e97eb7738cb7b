//! Looking under the hood of a key: OBJECT.
//!
//! Invariant: asking leaves no trace, neither an access nor a hit or a miss.

use keyspace::{EntryRef, Refusal, Tx};
use proto::{Args, Reply};

use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::unknown_subcommand;
use crate::keys::{Access, KeySpec, at};
use crate::text::reply_help;
use crate::{DataCommand, HandlerFn};

const NO_FREQUENCY: Refusal = Refusal::error(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
     when switching between policies at runtime LRU and LFU data will take some time to adjust.",
);
const NO_IDLE_TIME: Refusal = Refusal::error(
    "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
     switching between policies at runtime LRU and LFU data will take some time to adjust.",
);

pub(super) const OBJECT: DataCommand = Command {
    spec: Spec {
        name: "OBJECT",
        since: "2.2.3",
        group: Group::Generic,
        summary: "A container for object introspection commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..Spec::BASE
    },
    subcommands: &[
        introspection(
            "ENCODING",
            "2.2.3",
            "Returns the internal encoding of a Redis object.",
            encoding,
        ),
        introspection(
            "FREQ",
            "4.0.0",
            "Returns the logarithmic access frequency counter of a Redis object.",
            freq,
        ),
        HELP,
        introspection(
            "IDLETIME",
            "2.2.3",
            "Returns the time since the last access to a Redis object.",
            idletime,
        ),
        introspection(
            "REFCOUNT",
            "2.2.3",
            "Returns the reference count of a value of a key.",
            refcount,
        ),
    ],
    run: |_, args, _| Err(unknown_subcommand("OBJECT", &args[1])),
};

const KEY: &[KeySpec] = &[at(2, Access::RO)];

/// What the subcommands that look at one key have in common.
const fn introspection(
    name: &'static str,
    since: &'static str,
    summary: &'static str,
    run: HandlerFn,
) -> DataCommand {
    let spec = Spec {
        name,
        since,
        group: Group::Generic,
        syntax: "key",
        summary,
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::READONLY,
        keys: KEY,
        tips: &["nondeterministic_output"],
        ..Spec::BASE
    };
    Command { spec, subcommands: &[], run }
}

fn encoding(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    match tx.lookup_no_notify(&args[2])? {
        Some(entry) => reply.bulk(entry.encoding_name().as_bytes()),
        None => reply.null(),
    }
    Ok(())
}

fn freq(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    number(tx, args, reply, |entry| tx.frequency(entry).ok_or(NO_FREQUENCY))
}

fn idletime(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    number(tx, args, reply, |entry| tx.idle_seconds(entry).ok_or(NO_IDLE_TIME))
}

/// No value belongs to two keys: a tree that several share is still a value of each.
fn refcount(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    number(tx, args, reply, |_| Ok(1))
}

/// Replies what `measure` says of the key, or nothing where there is none.
fn number(
    tx: &Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    measure: impl FnOnce(EntryRef<'_>) -> Result<u32, Refusal>,
) -> Result<(), Refusal> {
    match tx.lookup_no_notify(&args[2])? {
        Some(entry) => reply.integer(i64::from(measure(entry)?)),
        None => reply.null(),
    }
    Ok(())
}

const HELP: DataCommand = Command {
    spec: Spec {
        name: "HELP",
        since: "6.2.0",
        group: Group::Generic,
        summary: "Returns helpful text about the different subcommands.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::LOADING.and(Flags::STALE).and(Flags::CHANGES_NOTHING),
        ..Spec::BASE
    },
    subcommands: &[],
    run: help,
};

fn help(_: &mut Tx, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let lines = [
        "ENCODING <key>",
        "    Return the kind of internal representation used in order to store the value",
        "    associated with a <key>.",
        "FREQ <key>",
        "    Return the access frequency index of the <key>. The returned integer is",
        "    proportional to the logarithm of the recent access frequency of the key.",
        "IDLETIME <key>",
        "    Return the idle time of the <key>, that is the approximated number of",
        "    seconds elapsed since the last access to the key.",
        "REFCOUNT <key>",
        "    Return the number of references of the value associated with the specified",
        "    <key>.",
    ];
    reply_help("OBJECT", &lines, reply);
    Ok(())
}
