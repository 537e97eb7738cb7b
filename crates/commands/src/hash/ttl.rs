//! How long fields have to live: HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME; and HPERSIST, which lifts
//! it.
//!
//! Invariant: -2 says that there is no field, -1 that it never expires; a part of a second counts
//! as a whole one, as in Redis, where keys' times are rounded to the nearest.

use base::time::UnixMillis;
use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::hash::Hash;

use super::NOT_POSITIVE;
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::keys::{Access, first};
use crate::member_ttl::listed::{answer, persist, seconds};

pub(super) const HTTL: DataCommand = Command {
    spec: Spec {
        name: "HTTL",
        summary: "Returns the TTL in seconds of a hash field.",
        tips: &["nondeterministic_output"],
        ..QUESTION
    },
    subcommands: &[],
    run: |tx, args, reply| ask(tx, args, reply, |deadline, now| seconds(deadline - now)),
};

pub(super) const HPTTL: DataCommand = Command {
    spec: Spec {
        name: "HPTTL",
        summary: "Returns the TTL in milliseconds of a hash field.",
        tips: &["nondeterministic_output"],
        ..QUESTION
    },
    subcommands: &[],
    run: |tx, args, reply| ask(tx, args, reply, |deadline, now| deadline - now),
};

pub(super) const HEXPIRETIME: DataCommand = Command {
    spec: Spec {
        name: "HEXPIRETIME",
        summary: "Returns the expiration time of a hash field as a Unix timestamp, in seconds.",
        ..QUESTION
    },
    subcommands: &[],
    run: |tx, args, reply| ask(tx, args, reply, |deadline, _| seconds(deadline)),
};

pub(super) const HPEXPIRETIME: DataCommand = Command {
    spec: Spec {
        name: "HPEXPIRETIME",
        summary: "Returns the expiration time of a hash field as a Unix timestamp, in msec.",
        ..QUESTION
    },
    subcommands: &[],
    run: |tx, args, reply| ask(tx, args, reply, |deadline, _| deadline),
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

fn ask(
    tx: &Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    express: fn(UnixMillis, UnixMillis) -> i64,
) -> Result<(), Refusal> {
    answer::<Hash>(tx, args, reply, NOT_POSITIVE, express)
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
    run: |tx, args, reply| persist::<Hash>(tx, args, reply, NOT_POSITIVE),
};
