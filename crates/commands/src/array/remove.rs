//! Taking elements out: ARDEL, ARDELRANGE. Invariant: the cursor stays, and the last element takes
//! the key with it.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::array::Array;

use super::{FOUND_NS, IndexRange, PASSED_NS, index, notify_removed};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::wrong_arity;
use crate::keys::{Access, first};

/// What both have in common.
const REMOVE: Spec = Spec {
    since: "8.8.0",
    group: Group::Array,
    flags: Flags::WRITE,
    keys: &[first(Access::RW.and(Access::DELETE))],
    ..Spec::BASE
};

pub(super) const ARDEL: DataCommand = Command {
    spec: Spec {
        name: "ARDEL",
        syntax: "key index [index ...]",
        summary: "Deletes elements at the specified indices in an array.",
        complexity: "O(N) where N is the number of indices to delete",
        arity: at_least(3),
        flags: Flags::WRITE.and(Flags::FAST),
        ..REMOVE
    },
    subcommands: &[],
    run: ardel,
};

fn ardel(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, indexes) = (&args[1], args.skip(2));
    let indexes = indexes.iter().map(index).collect::<Result<Vec<_>, _>>()?;
    tx.charge(indexes.len() as u64 * FOUND_NS)?;
    let removed = tx.edit::<Array, _>(key, |array| {
        indexes.into_iter().filter(|index| array.remove(*index)).count() as u64
    })?;
    notify_removed(tx, key, "ardel", removed, reply);
    Ok(())
}

pub(super) const ARDELRANGE: DataCommand = Command {
    spec: Spec {
        name: "ARDELRANGE",
        syntax: "key start end [start end ...]",
        summary: "Deletes elements in one or more ranges.",
        complexity: "Proportional to the number of existing elements / slices touched, not to the \
                     numeric span of the requested ranges",
        arity: at_least(4),
        ..REMOVE
    },
    subcommands: &[],
    run: ardelrange,
};

fn ardelrange(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    if args.len() % 2 == 1 {
        return Err(wrong_arity("ardelrange"));
    }
    let key = &args[1];
    let places = (2..args.len()).step_by(2);
    let ranges = places.map(|place| IndexRange::read(&args[place], &args[place + 1]));
    let ranges = ranges.collect::<Result<Vec<_>, _>>()?;
    let array = tx.peek_view::<Array>(key)?;
    let held =
        |indexes: &IndexRange| array.map_or(0, |array| array.count_in(indexes.range.clone()));
    let held: u64 = ranges.iter().map(held).sum();
    tx.charge(ranges.len() as u64 * RANGE_NS + held * PASSED_NS)?;
    let removed = tx.edit::<Array, _>(key, |array| {
        ranges.into_iter().map(|indexes| array.remove_range(indexes.range)).sum()
    })?;
    notify_removed(tx, key, "ardelrange", removed, reply);
    Ok(())
}

/// Cutting a range out, but for its elements, in nanoseconds.
const RANGE_NS: u64 = 4 * FOUND_NS;
