//! How long fields have to live: HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME; and HPERSIST, which lifts
//! it.
//!
//! Invariant: -2 says that there is no field, -1 that it never expires; a part of a second counts
//! as a whole one, as in Redis, where keys' times are rounded to the nearest.

use base::time::UnixMillis;
use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};
use structs::hash::Hash;

use super::charge;
use super::fields::{NOT_POSITIVE, deadline_of, parse};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::keys::{Access, first};

pub(super) const HTTL: DataCommand = Command {
    spec: Spec {
        name: "HTTL",
        summary: "Returns the TTL in seconds of a hash field.",
        tips: &["nondeterministic_output"],
        ..QUESTION
    },
    subcommands: &[],
    run: |tx, args, reply| answer(tx, args, reply, |deadline, now| seconds(deadline - now)),
};

pub(super) const HPTTL: DataCommand = Command {
    spec: Spec {
        name: "HPTTL",
        summary: "Returns the TTL in milliseconds of a hash field.",
        tips: &["nondeterministic_output"],
        ..QUESTION
    },
    subcommands: &[],
    run: |tx, args, reply| answer(tx, args, reply, |deadline, now| deadline - now),
};

pub(super) const HEXPIRETIME: DataCommand = Command {
    spec: Spec {
        name: "HEXPIRETIME",
        summary: "Returns the expiration time of a hash field as a Unix timestamp, in seconds.",
        ..QUESTION
    },
    subcommands: &[],
    run: |tx, args, reply| answer(tx, args, reply, |deadline, _| seconds(deadline)),
};

pub(super) const HPEXPIRETIME: DataCommand = Command {
    spec: Spec {
        name: "HPEXPIRETIME",
        summary: "Returns the expiration time of a hash field as a Unix timestamp, in msec.",
        ..QUESTION
    },
    subcommands: &[],
    run: |tx, args, reply| answer(tx, args, reply, |deadline, _| deadline),
};

/// What the four questions have in common.
const QUESTION: Spec = Spec {
    since: "7.4.0",
    group: Group::Hash,
    syntax: "key FIELDS numfields field [field ...]",
    complexity: "O(N) where N is the number of specified fields",
    arity: at_least(5),
    flags: Flags::READONLY.and(Flags::FAST),
    keys: &[first(Access::RO.and(Access::ACCESS))],
    ..Spec::BASE
};

const ABSENT: i64 = -2;
const ENDLESS: i64 = -1;

/// Replies the deadlines of fields, put in figures by `express` with the time that it is now.
fn answer(
    tx: &Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    express: fn(UnixMillis, UnixMillis) -> i64,
) -> Result<(), Refusal> {
    let (hash, now) = (tx.view::<Hash>(&args[1])?, tx.now());
    let fields = parse(args, 2, NOT_POSITIVE)?;
    charge(tx, fields.len())?;
    reply.array(fields.len());
    for field in fields.iter() {
        reply.integer(match hash.and_then(|hash| deadline_of(hash, field, now)) {
            None => ABSENT,
            Some(None) => ENDLESS,
            Some(Some(deadline)) => express(deadline, now),
        });
    }
    Ok(())
}

fn seconds(millis: i64) -> i64 {
    (millis + 999) / 1000
}

pub(super) const HPERSIST: DataCommand = Command {
    spec: Spec {
        name: "HPERSIST",
        since: "7.4.0",
        group: Group::Hash,
        syntax: "key FIELDS numfields field [field ...]",
        summary: "Removes the expiration time for each specified field.",
        complexity: "O(N) where N is the number of specified fields",
        arity: at_least(5),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::UPDATE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: hpersist,
};

fn hpersist(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    const LIFTED: i64 = 1;
    let (key, now) = (&args[1], tx.now());
    tx.peek_view::<Hash>(key)?;
    let fields = parse(args, 2, NOT_POSITIVE)?;
    charge(tx, fields.len())?;
    let (answers, _) = tx.edit(key, |hash: &mut Hash| {
        let lift = |field| match deadline_of(hash.borrow(), field, now) {
            None => ABSENT,
            Some(None) => ENDLESS,
            Some(Some(_)) => {
                hash.set_deadline(field, None);
                LIFTED
            }
        };
        fields.iter().map(lift).collect::<Vec<_>>()
    })?;
    let lifted = answers.iter().filter(|answer| **answer == LIFTED).count();
    if lifted > 0 {
        tx.effects_mut().add_changes(lifted as u64);
        tx.event(EventClass::Hash, "hpersist", key);
    }
    reply.array(answers.len());
    answers.into_iter().for_each(|answer| reply.integer(answer));
    Ok(())
}
