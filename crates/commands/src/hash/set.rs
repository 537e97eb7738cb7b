//! Putting values: HSET, HMSET, HSETNX.
//!
//! Invariant: a field that gets a value anew has no deadline.

use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};
use structs::hash::Hash;
use structs::members::{Lifetime, Text};

use super::{charge, limits, live};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::wrong_arity;
use crate::keys::{Access, first};

pub(super) const HSET: DataCommand = Command {
    spec: Spec {
        name: "HSET",
        summary: "Creates or modifies the value of a field in a hash.",
        complexity: "O(1) for each field/value pair added, so O(N) to add N field/value pairs when \
            the command is called with multiple field/value pairs.",
        history: &[("4.0.0", "Accepts multiple `field` and `value` arguments.")],
        ..MANY
    },
    subcommands: &[],
    run: |tx, args, reply| {
        let added = set_all(tx, args, "hset")?;
        reply.integer(added as i64);
        Ok(())
    },
};

pub(super) const HMSET: DataCommand = Command {
    spec: Spec {
        name: "HMSET",
        summary: "Sets the values of multiple fields.",
        complexity: "O(N) where N is the number of fields being set.",
        deprecated: Some(("4.0.0", "`HSET` with multiple field-value pairs")),
        ..MANY
    },
    subcommands: &[],
    run: |tx, args, reply| {
        set_all(tx, args, "hmset")?;
        reply.ok();
        Ok(())
    },
};

/// What both have in common.
const MANY: Spec = Spec {
    since: "2.0.0",
    group: Group::Hash,
    syntax: "key field value [field value ...]",
    arity: at_least(4),
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    keys: &[first(Access::RW.and(Access::UPDATE))],
    ..Spec::BASE
};

#[inline]
fn set_all(tx: &mut Tx, args: Args<'_>, command: &str) -> Result<usize, Refusal> {
    let (key, pairs) = (&args[1], args.skip(2));
    if !pairs.len().is_multiple_of(2) {
        return Err(wrong_arity(command));
    }
    charge(tx, pairs.len() / 2)?;
    let added = put_pairs(tx, key, pairs, Lifetime::Endless)?;
    tx.member_event(EventClass::Hash, "hset", key, pairs.iter().step_by(2));
    Ok(added)
}

/// Puts fields with their values, each as one change; how many of them are new.
#[inline]
pub(super) fn put_pairs(
    tx: &mut Tx,
    key: &[u8],
    pairs: Args<'_>,
    lifetime: Lifetime,
) -> Result<usize, Refusal> {
    let limits = limits(tx);
    let (added, _) = tx.edit(key, |hash: &mut Hash| {
        hash.expect(pairs.len() as u64 / 2, &limits);
        let pairs = each_pair(pairs);
        pairs.filter(|(field, value)| hash.set(*field, *value, lifetime, &limits)).count()
    })?;
    tx.effects_mut().add_changes(pairs.len() as u64 / 2);
    Ok(added)
}

fn each_pair(pairs: Args<'_>) -> impl Iterator<Item = (Text<'_>, Text<'_>)> {
    let fields = pairs.iter().step_by(2).map(Text::Bytes);
    fields.zip(pairs.iter().skip(1).step_by(2).map(Text::Bytes))
}

pub(super) const HSETNX: DataCommand = Command {
    spec: Spec {
        name: "HSETNX",
        since: "2.0.0",
        group: Group::Hash,
        syntax: "key field value",
        summary: "Sets the value of a field in a hash only when the field doesn't exist.",
        complexity: "O(1)",
        arity: exactly(4),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::INSERT))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: hsetnx,
};

fn hsetnx(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let hash = tx.lookup_write_view::<Hash>(&args[1])?;
    let absent = hash.and_then(|hash| live(hash, &args[2], tx.expired_until())).is_none();
    if absent {
        put_pairs(tx, &args[1], args.skip(2), Lifetime::Endless)?;
        tx.member_event(EventClass::Hash, "hset", &args[1], [&args[2]]);
    }
    reply.integer(i64::from(absent));
    Ok(())
}
