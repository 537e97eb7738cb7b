//! Reading hashes: HGET, HMGET, HGETALL, HKEYS, HVALS, HLEN, HSTRLEN, HEXISTS.
//!
//! Invariant: reading changes nothing; fields whose time is over are passed over.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::hash::{Hash, HashRef};
use structs::members::MemberRef;

use super::{FIELD_COST_NS, charge, has_expired, is_live, live};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::keys::{Access, first};
use crate::long_reply::{is_long, reply_in_pieces};
use crate::text::reply_member;

pub(super) const HGET: DataCommand = Command {
    spec: Spec {
        name: "HGET",
        syntax: "key field",
        summary: "Returns the value of a field in a hash.",
        complexity: "O(1)",
        arity: exactly(3),
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..ONE
    },
    subcommands: &[],
    run: hget,
};

/// What the quick ones have in common.
const ONE: Spec = Spec {
    since: "2.0.0",
    group: Group::Hash,
    flags: Flags::READONLY.and(Flags::FAST),
    keys: &[first(Access::RO)],
    ..Spec::BASE
};

#[inline]
fn hget(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let hash = tx.view::<Hash>(&args[1])?;
    reply_value(hash.and_then(|hash| live(hash, &args[2], tx.expired_until())), reply);
    Ok(())
}

/// Replies the value of a field, a null for none.
pub(super) fn reply_value(field: Option<MemberRef<'_>>, reply: &mut Reply<'_>) {
    match field {
        Some(found) => reply_member(found.value, reply),
        None => reply.null(),
    }
}

pub(super) const HMGET: DataCommand = Command {
    spec: Spec {
        name: "HMGET",
        syntax: "key field [field ...]",
        summary: "Returns the values of all fields in a hash.",
        complexity: "O(N) where N is the number of fields being requested.",
        arity: at_least(3),
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..ONE
    },
    subcommands: &[],
    run: hmget,
};

fn hmget(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    charge(tx, args.len() - 2)?;
    reply_values(tx, tx.view::<Hash>(&args[1])?, args.skip(2), reply);
    Ok(())
}

/// Replies the values of some fields.
pub(super) fn reply_values(
    tx: &Tx,
    hash: Option<HashRef<'_>>,
    fields: Args<'_>,
    reply: &mut Reply<'_>,
) {
    reply.array(fields.len());
    for field in fields.iter() {
        reply_value(hash.and_then(|hash| live(hash, field, tx.expired_until())), reply);
    }
}

pub(super) const HGETALL: DataCommand = Command {
    spec: Spec { name: "HGETALL", summary: "Returns all fields and values in a hash.", ..ALL },
    subcommands: &[],
    run: |tx, args, reply| {
        reply_all(tx, args, reply, Reply::map, |field, reply| {
            reply_member(field.member, reply);
            reply_member(field.value, reply);
        })
    },
};

pub(super) const HKEYS: DataCommand = Command {
    spec: Spec { name: "HKEYS", summary: "Returns all fields in a hash.", ..ALL },
    subcommands: &[],
    run: |tx, args, reply| {
        reply_all(tx, args, reply, Reply::array, |field, reply| reply_member(field.member, reply))
    },
};

pub(super) const HVALS: DataCommand = Command {
    spec: Spec { name: "HVALS", summary: "Returns all values in a hash.", ..ALL },
    subcommands: &[],
    run: |tx, args, reply| {
        reply_all(tx, args, reply, Reply::array, |field, reply| reply_member(field.value, reply))
    },
};

/// What the three have in common.
const ALL: Spec = Spec {
    since: "2.0.0",
    group: Group::Hash,
    syntax: "key",
    complexity: "O(N) where N is the size of the hash.",
    arity: exactly(2),
    flags: Flags::READONLY,
    keys: &[first(Access::RO.and(Access::ACCESS))],
    tips: &["nondeterministic_output_order"],
    ..Spec::BASE
};

#[inline]
fn reply_all<'r>(
    tx: &Tx,
    args: Args<'_>,
    reply: &mut Reply<'r>,
    head: impl Fn(&mut Reply<'r>, usize),
    each: fn(MemberRef<'_>, &mut Reply<'_>),
) -> Result<(), Refusal> {
    let now = tx.expired_until();
    let Some(hash) = tx.view::<Hash>(&args[1])? else {
        head(reply, 0);
        return Ok(());
    };
    let expired = has_expired(hash, now);
    if let HashRef::Large(large) = hash
        && is_long(hash.len() * FIELD_COST_NS)
        && !expired
    {
        head(reply, hash.len() as usize);
        let large = large.clone();
        reply_in_pieces(tx, reply, hash.len(), move |places, reply| {
            large.members().range(places).for_each(|field| each(field, reply));
        });
        return Ok(());
    }
    charge(tx, hash.len() as usize)?;
    if expired {
        head(reply, hash.iter().filter(|field| is_live(field, now)).count());
        hash.iter().filter(|field| is_live(field, now)).for_each(|field| each(field, reply));
    } else {
        head(reply, hash.len() as usize);
        hash.iter().for_each(|field| each(field, reply));
    }
    Ok(())
}

pub(super) const HLEN: DataCommand = Command {
    spec: Spec {
        name: "HLEN",
        syntax: "key",
        summary: "Returns the number of fields in a hash.",
        complexity: "O(1)",
        arity: exactly(2),
        ..ONE
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let hash = tx.view::<Hash>(&args[1])?;
        reply.integer(hash.map_or(0, |hash| hash.len() as i64));
        Ok(())
    },
};

pub(super) const HSTRLEN: DataCommand = Command {
    spec: Spec {
        name: "HSTRLEN",
        since: "3.2.0",
        syntax: "key field",
        summary: "Returns the length of the value of a field.",
        complexity: "O(1)",
        arity: exactly(3),
        ..ONE
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let hash = tx.view::<Hash>(&args[1])?;
        let field = hash.and_then(|hash| live(hash, &args[2], tx.expired_until()));
        reply.integer(field.map_or(0, |field| field.value.len() as i64));
        Ok(())
    },
};

pub(super) const HEXISTS: DataCommand = Command {
    spec: Spec {
        name: "HEXISTS",
        syntax: "key field",
        summary: "Determines whether a field exists in a hash.",
        complexity: "O(1)",
        arity: exactly(3),
        ..ONE
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let hash = tx.view::<Hash>(&args[1])?;
        let exists = hash.is_some_and(|hash| live(hash, &args[2], tx.expired_until()).is_some());
        reply.integer(i64::from(exists));
        Ok(())
    },
};
