//! Reading an array: ARGET, ARMGET, ARGETRANGE, ARLEN, ARCOUNT.
//!
//! Invariant: an index is checked before the key is looked at, so a wrong one is refused also
//! where there is no array.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::array::{Array, ArrayRef};
use structs::members::Text;

use super::{FOUND_NS, IndexRange, PASSED_NS, index, reply_index};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::keys::{Access, first};
use crate::text::reply_member;

/// Slots that ARGETRANGE replies at most.
const RANGE_MAX: u64 = 1_000_000;

const RANGE_TOO_WIDE: Refusal = Refusal::error("ERR range exceeds maximum of 1000000 items");

/// What those that read one array have in common.
pub(super) const READ: Spec = Spec {
    since: "8.8.0",
    group: Group::Array,
    flags: Flags::READONLY,
    keys: &[first(Access::RO.and(Access::ACCESS))],
    ..Spec::BASE
};

pub(super) const ARGET: DataCommand = Command {
    spec: Spec {
        name: "ARGET",
        syntax: "key index",
        summary: "Gets the value at an index in an array.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::READONLY.and(Flags::FAST),
        ..READ
    },
    subcommands: &[],
    run: arget,
};

fn arget(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let index = index(&args[2])?;
    let array = tx.view::<Array>(&args[1])?;
    reply_slot(array.and_then(|array| array.get(index)), reply);
    Ok(())
}

pub(super) const ARMGET: DataCommand = Command {
    spec: Spec {
        name: "ARMGET",
        syntax: "key index [index ...]",
        summary: "Gets values at multiple indices in an array.",
        complexity: "O(N) where N is the number of indices",
        arity: at_least(3),
        flags: Flags::READONLY.and(Flags::FAST),
        ..READ
    },
    subcommands: &[],
    run: armget,
};

fn armget(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let indexes = args.skip(2);
    let indexes = indexes.iter().map(index).collect::<Result<Vec<_>, _>>()?;
    let array = tx.view::<Array>(&args[1])?;
    tx.charge(indexes.len() as u64 * FOUND_NS)?;
    reply.array(indexes.len());
    for index in indexes {
        reply_slot(array.and_then(|array| array.get(index)), reply);
    }
    Ok(())
}

pub(super) const ARGETRANGE: DataCommand = Command {
    spec: Spec {
        name: "ARGETRANGE",
        syntax: "key start end",
        summary: "Gets values in a range of indices.",
        complexity: "O(N) where N is the range length",
        arity: exactly(4),
        ..READ
    },
    subcommands: &[],
    run: argetrange,
};

fn argetrange(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let IndexRange { range, is_reversed } = IndexRange::read(&args[2], &args[3])?;
    let count = range.end() - range.start() + 1;
    if count > RANGE_MAX {
        return Err(RANGE_TOO_WIDE);
    }
    let array = tx.view::<Array>(&args[1])?;
    tx.charge(count * PASSED_NS)?;
    reply.array(count as usize);
    match array {
        Some(array) if is_reversed => {
            array.slots_back(range).for_each(|slot| reply_slot(slot, reply));
        }
        Some(array) => array.slots(range).for_each(|slot| reply_slot(slot, reply)),
        None => range.for_each(|_| reply.null()),
    }
    Ok(())
}

pub(super) const ARLEN: DataCommand = Command {
    spec: Spec {
        name: "ARLEN",
        syntax: "key",
        summary: "Returns the length of an array (max index + 1).",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::READONLY.and(Flags::FAST),
        ..READ
    },
    subcommands: &[],
    run: arlen,
};

fn arlen(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    reply_index(tx.view::<Array>(&args[1])?.map_or(0, ArrayRef::len), reply);
    Ok(())
}

pub(super) const ARCOUNT: DataCommand = Command {
    spec: Spec {
        name: "ARCOUNT",
        syntax: "key",
        summary: "Returns the number of non-empty elements in an array.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::READONLY.and(Flags::FAST),
        ..READ
    },
    subcommands: &[],
    run: arcount,
};

fn arcount(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    reply_index(tx.view::<Array>(&args[1])?.map_or(0, ArrayRef::count), reply);
    Ok(())
}

/// Replies what a slot holds.
pub(super) fn reply_slot(slot: Option<Text<'_>>, reply: &mut Reply<'_>) {
    match slot {
        Some(text) => reply_member(text, reply),
        None => reply.null(),
    }
}
