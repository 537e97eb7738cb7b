//! How long keys have to live: TTL, PTTL, EXPIRETIME, PEXPIRETIME; and PERSIST, which lifts it.
//! TTL and PTTL tell it of a member, too, as in KeyDB.
//!
//! Invariant: -2 says that there is no such key or member, -1 that it never expires.

use base::time::UnixMillis;
use keyspace::{EntryRef, Refusal, Tx};
use proto::{Args, Reply};

use crate::DataCommand;
use crate::change;
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::wrong_arity;
use crate::keys::{Access, first};
use crate::member_ttl::ttl::{self, Answer};

pub(super) const TTL: DataCommand = Command {
    spec: Spec {
        name: "TTL",
        since: "1.0.0",
        summary: "Returns the expiration time in seconds of a key.",
        ..REMAINDER
    },
    subcommands: &[],
    run: |tx, args, reply| {
        remainder(tx, args, reply, "ttl", |deadline, now| seconds(left(deadline, now)))
    },
};

pub(super) const PTTL: DataCommand = Command {
    spec: Spec {
        name: "PTTL",
        since: "2.6.0",
        summary: "Returns the expiration time in milliseconds of a key.",
        ..REMAINDER
    },
    subcommands: &[],
    run: |tx, args, reply| remainder(tx, args, reply, "pttl", left),
};

pub(super) const EXPIRETIME: DataCommand = Command {
    spec: Spec {
        name: "EXPIRETIME",
        since: "7.0.0",
        summary: "Returns the expiration time of a key as a Unix timestamp.",
        ..QUESTION
    },
    subcommands: &[],
    run: |tx, args, reply| answer(tx, args, reply, |deadline, _| seconds(deadline)),
};

pub(super) const PEXPIRETIME: DataCommand = Command {
    spec: Spec {
        name: "PEXPIRETIME",
        since: "7.0.0",
        summary: "Returns the expiration time of a key as a Unix milliseconds timestamp.",
        ..QUESTION
    },
    subcommands: &[],
    run: |tx, args, reply| answer(tx, args, reply, |deadline, _| deadline),
};

/// What the four questions have in common.
const QUESTION: Spec = Spec {
    group: Group::Generic,
    syntax: "key",
    complexity: "O(1)",
    arity: exactly(2),
    flags: Flags::READONLY.and(Flags::FAST),
    keys: &[first(Access::RO.and(Access::ACCESS))],
    ..Spec::BASE
};

/// What TTL and PTTL have in common.
const REMAINDER: Spec = Spec {
    syntax: "key [member]",
    arity: at_least(2),
    tips: &["nondeterministic_output"],
    history: &[("2.8.0", "Added the -2 reply.")],
    ..QUESTION
};

/// Puts a deadline in figures, with the time that it is now.
type TtlFormat = fn(UnixMillis, UnixMillis) -> i64;

/// Replies what is left of a key's time, or of a member's.
fn remainder(
    tx: &Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    command: &str,
    format: TtlFormat,
) -> Result<(), Refusal> {
    match args.len() {
        2 => answer(tx, args, reply, format),
        3 => {
            reply.integer(match ttl::ask(tx, &args[1], &args[2])? {
                Answer::NoSuchKey | Answer::NoSuchMember => -2,
                Answer::Endless => -1,
                Answer::Deadline(deadline) => format(deadline, tx.now()),
            });
            Ok(())
        }
        _ => Err(wrong_arity(command)),
    }
}

/// Replies the deadline of a key.
fn answer(
    tx: &Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    format: TtlFormat,
) -> Result<(), Refusal> {
    reply.integer(match tx.lookup_no_touch(&args[1])?.map(EntryRef::deadline) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) => format(deadline, tx.now()),
    });
    Ok(())
}

/// A key that is there though its time is over has none left.
fn left(deadline: UnixMillis, now: UnixMillis) -> i64 {
    (deadline - now).max(0)
}

/// The nearest number of seconds.
pub(crate) fn seconds(millis: i64) -> i64 {
    millis / 1000 + i64::from(millis % 1000 >= 500)
}

pub(super) const PERSIST: DataCommand = Command {
    spec: Spec {
        name: "PERSIST",
        since: "2.2.0",
        group: Group::Generic,
        syntax: "key",
        summary: "Removes the expiration time of a key.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::UPDATE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: persist,
};

fn persist(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let expires = change::persist(tx, &args[1])?;
    reply.integer(i64::from(expires));
    Ok(())
}
