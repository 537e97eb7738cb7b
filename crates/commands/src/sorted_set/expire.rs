//! Times to live of members, as Garnet has them: ZEXPIRE and its kin, ZTTL and its kin, ZPERSIST,
//! ZCOLLECT.
//!
//! Invariant: what they do is what the commands of other types with such lists do. The replies are
//! those that Garnet's own tests expect, which are those of HEXPIRE; its page says otherwise.

#[cfg(test)]
mod tests;

use base::time::UnixMillis;
use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::sorted_set::SortedSet;

use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::keys::{Access, all_from, first};
use crate::member_ttl::listed::{Listed, answer, expire, persist, seconds};
use crate::time_unit::TimeUnit;

impl Listed for SortedSet {
    const WORD: &'static str = "MEMBERS";
    const MISSING: Refusal =
        Refusal::error("ERR Mandatory argument MEMBERS is missing or not at the right position");
    const MISMATCH: Refusal =
        Refusal::error("ERR The `numMembers` parameter must match the number of arguments");
    const BAD_COUNT: Refusal =
        Refusal::error("ERR Parameter `numMembers` should be greater than 0");
    const JOURNALED: &'static str = "ZPEXPIREAT";
    const LIFTED: &'static str = "zpersist";
}

pub(super) const ZEXPIRE: DataCommand = Command {
    spec: Spec {
        name: "ZEXPIRE",
        syntax: "key seconds [NX | XX | GT | LT] MEMBERS numfields member [member ...]",
        summary: "Sets the expiration time of members of a sorted set in seconds.",
        ..GIVING
    },
    subcommands: &[],
    run: |tx, args, reply| expire::<SortedSet>(tx, args, reply, TimeUnit::Seconds, "zexpire"),
};

pub(super) const ZPEXPIRE: DataCommand = Command {
    spec: Spec {
        name: "ZPEXPIRE",
        syntax: "key milliseconds [NX | XX | GT | LT] MEMBERS numfields member [member ...]",
        summary: "Sets the expiration time of members of a sorted set in milliseconds.",
        ..GIVING
    },
    subcommands: &[],
    run: |tx, args, reply| expire::<SortedSet>(tx, args, reply, TimeUnit::Millis, "zpexpire"),
};

pub(super) const ZEXPIREAT: DataCommand = Command {
    spec: Spec {
        name: "ZEXPIREAT",
        syntax: "key unix-time-seconds [NX | XX | GT | LT] MEMBERS numfields member [member ...]",
        summary: "Sets the expiration time of members of a sorted set to a Unix timestamp.",
        ..GIVING
    },
    subcommands: &[],
    run: |tx, args, reply| expire::<SortedSet>(tx, args, reply, TimeUnit::UnixSeconds, "zexpireat"),
};

pub(super) const ZPEXPIREAT: DataCommand = Command {
    spec: Spec {
        name: "ZPEXPIREAT",
        syntax: "key unix-time-milliseconds [NX | XX | GT | LT] MEMBERS numfields member \
                 [member ...]",
        summary: "Sets the expiration time of members of a sorted set to a Unix milliseconds \
            timestamp.",
        ..GIVING
    },
    subcommands: &[],
    run: |tx, args, reply| expire::<SortedSet>(tx, args, reply, TimeUnit::UnixMillis, "zpexpireat"),
};

/// What the four that give have in common.
const GIVING: Spec = Spec {
    since: "1.0.53",
    group: Group::SortedSet,
    complexity: "O(N*log(M)) where N is the number of specified members and M that of all.",
    arity: at_least(6),
    flags: Flags::WRITE.and(Flags::FAST),
    keys: &[first(Access::RW.and(Access::UPDATE))],
    origin: "garnet",
    ..Spec::BASE
};

pub(super) const ZTTL: DataCommand = Command {
    spec: Spec {
        name: "ZTTL",
        summary: "Returns the TTL in seconds of members of a sorted set.",
        tips: &["nondeterministic_output"],
        ..QUESTION
    },
    subcommands: &[],
    run: |tx, args, reply| ask(tx, args, reply, |deadline, now| seconds(deadline - now)),
};

pub(super) const ZPTTL: DataCommand = Command {
    spec: Spec {
        name: "ZPTTL",
        summary: "Returns the TTL in milliseconds of members of a sorted set.",
        tips: &["nondeterministic_output"],
        ..QUESTION
    },
    subcommands: &[],
    run: |tx, args, reply| ask(tx, args, reply, |deadline, now| deadline - now),
};

pub(super) const ZEXPIRETIME: DataCommand = Command {
    spec: Spec {
        name: "ZEXPIRETIME",
        summary: "Returns when members of a sorted set expire, as a Unix timestamp in seconds.",
        ..QUESTION
    },
    subcommands: &[],
    run: |tx, args, reply| ask(tx, args, reply, |deadline, _| seconds(deadline)),
};

pub(super) const ZPEXPIRETIME: DataCommand = Command {
    spec: Spec {
        name: "ZPEXPIRETIME",
        summary: "Returns when members of a sorted set expire, as a Unix timestamp in \
            milliseconds.",
        ..QUESTION
    },
    subcommands: &[],
    run: |tx, args, reply| ask(tx, args, reply, |deadline, _| deadline),
};

/// What the four questions have in common.
const QUESTION: Spec = Spec {
    syntax: "key MEMBERS numfields member [member ...]",
    complexity: "O(N) where N is the number of specified members.",
    arity: at_least(5),
    flags: Flags::READONLY.and(Flags::FAST),
    keys: &[first(Access::RO.and(Access::ACCESS))],
    ..GIVING
};

fn ask(
    tx: &Tx,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    express: fn(UnixMillis, UnixMillis) -> i64,
) -> Result<(), Refusal> {
    answer::<SortedSet>(tx, args, reply, SortedSet::BAD_COUNT, express)
}

pub(super) const ZPERSIST: DataCommand = Command {
    spec: Spec {
        name: "ZPERSIST",
        syntax: "key MEMBERS numfields member [member ...]",
        summary: "Removes the expiration time of members of a sorted set.",
        arity: at_least(5),
        ..GIVING
    },
    subcommands: &[],
    run: |tx, args, reply| persist::<SortedSet>(tx, args, reply, SortedSet::BAD_COUNT),
};

pub(super) const ZCOLLECT: DataCommand = Command {
    spec: Spec {
        name: "ZCOLLECT",
        syntax: "key [key ...]",
        summary: "Removes members of sorted sets whose time is over; of all of them where the key \
            is an asterisk, which happens by itself.",
        complexity: "O(N) where N is the number of members that are removed.",
        arity: at_least(2),
        flags: Flags::WRITE,
        keys: &[all_from(1, Access::RW.and(Access::DELETE))],
        ..GIVING
    },
    subcommands: &[],
    run: |tx, args, reply| {
        for key in args.skip(1).iter() {
            tx.peek_view::<SortedSet>(key)?;
        }
        // What is over was removed before this ran, as before any command about sorted sets.
        reply.ok();
        Ok(())
    },
};
