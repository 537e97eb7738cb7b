//! Putting elements under indexes: ARSET, ARMSET.
//!
//! Invariant: all indexes are read before the first element is put.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::array::{Array, INDEX_MAX};
use structs::members::Text;

use super::{FOUND_NS, INVALID_INDEX, index, notify_changed, reply_index};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::wrong_arity;
use crate::keys::{Access, first};

/// What both have in common.
const SET: Spec = Spec {
    since: "8.8.0",
    group: Group::Array,
    arity: at_least(4),
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    keys: &[first(Access::RW.and(Access::UPDATE))],
    ..Spec::BASE
};

pub(super) const ARSET: DataCommand = Command {
    spec: Spec {
        name: "ARSET",
        syntax: "key index value [value ...]",
        summary: "Sets one or more contiguous values starting at an index in an array.",
        complexity: "O(N) where N is the number of values",
        ..SET
    },
    subcommands: &[],
    run: arset,
};

fn arset(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (first, values) = (index(&args[2])?, args.skip(3));
    let last = first.checked_add(values.len() as u64 - 1);
    last.filter(|last| *last <= INDEX_MAX).ok_or(INVALID_INDEX)?;
    put(tx, &args[1], values.len(), values.iter().zip(first..), reply)
}

pub(super) const ARMSET: DataCommand = Command {
    spec: Spec {
        name: "ARMSET",
        syntax: "key index value [index value ...]",
        summary: "Sets multiple index-value pairs in an array.",
        complexity: "O(N) where N is the number of pairs",
        ..SET
    },
    subcommands: &[],
    run: armset,
};

fn armset(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    if args.len() % 2 == 1 {
        return Err(wrong_arity("armset"));
    }
    let places = (2..args.len()).step_by(2);
    let pairs = places.map(|place| Ok((&args[place + 1], index(&args[place])?)));
    let pairs = pairs.collect::<Result<Vec<_>, Refusal>>()?;
    put(tx, &args[1], pairs.len(), pairs.into_iter(), reply)
}

/// Puts elements and replies how many of the slots were empty.
fn put<'a>(
    tx: &mut Tx,
    key: &[u8],
    count: usize,
    elements: impl Iterator<Item = (&'a [u8], u64)>,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let count = count as u64;
    tx.charge(count * FOUND_NS)?;
    let (added, _) = tx.edit::<Array, _>(key, |array| {
        elements.fold(0, |added, (value, index)| {
            added + u64::from(array.set(index, Text::Bytes(value)))
        })
    })?;
    notify_changed(tx, key, "arset", count);
    reply_index(added, reply);
    Ok(())
}
