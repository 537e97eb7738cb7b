//! The cursor: ARINSERT, ARRING, ARSEEK, ARNEXT, ARLASTITEMS.
//!
//! Invariant: the cursor is one more than the index that was appended to last, at most one more
//! than the greatest index; only these commands move it.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::array::{Array, ArrayRef, INDEX_MAX};
use structs::members::Text;

use super::get::{READ, reply_slot};
use super::{FOUND_NS, INVALID_INDEX, PASSED_NS, limit, notify_changed, reply_index};
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::SYNTAX;
use crate::keys::{Access, first};

const INSERT_OVERFLOW: Refusal = Refusal::error("ERR insert index overflow");

/// What those that write have in common.
const APPEND: Spec = Spec {
    since: "8.8.0",
    group: Group::Array,
    keys: &[first(Access::RW.and(Access::UPDATE))],
    ..Spec::BASE
};

pub(super) const ARINSERT: DataCommand = Command {
    spec: Spec {
        name: "ARINSERT",
        syntax: "key value [value ...]",
        summary: "Inserts one or more values at consecutive indices.",
        complexity: "O(N) where N is the number of values",
        arity: at_least(3),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        ..APPEND
    },
    subcommands: &[],
    run: arinsert,
};

fn arinsert(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, values) = (&args[1], args.skip(2));
    let count = values.len() as u64;
    let next = tx.peek_view::<Array>(key)?.map_or(0, ArrayRef::next);
    let end = next.checked_add(count).ok_or(INSERT_OVERFLOW)?;
    tx.charge(count * FOUND_NS)?;
    tx.edit::<Array, _>(key, |array| {
        for (value, index) in values.iter().zip(next..) {
            array.set(index, Text::Bytes(value));
        }
        array.seek(end);
    })?;
    notify_changed(tx, key, "arinsert", count);
    reply_index(end - 1, reply);
    Ok(())
}

pub(super) const ARRING: DataCommand = Command {
    spec: Spec {
        name: "ARRING",
        syntax: "key size:integer value [value ...]",
        summary: "Inserts values into a ring buffer of specified size, wrapping and truncating as \
                  needed.",
        complexity: "O(M) normally, O(N+M) on ring resize, where N is the maximum of the old and \
                     new ring size and M is the number of inserted values",
        arity: at_least(4),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        ..APPEND
    },
    subcommands: &[],
    run: arring,
};

fn arring(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, size, values) = (&args[1], limit(&args[2], 1)?, args.skip(3));
    let array = tx.peek_view::<Array>(key)?;
    let moved = array.filter(|array| array.ring() != size || array.len() > size);
    let moved = moved.map_or(0, ArrayRef::count);
    tx.charge((values.len() as u64 + moved) * FOUND_NS)?;
    let (last, _) = tx.edit::<Array, _>(key, |array| {
        array.make_ring(size);
        let mut last = 0;
        let mut next = array.borrow().next();
        for value in values.iter() {
            last = next % size;
            array.set(last, Text::Bytes(value));
            next = last + 1;
        }
        array.seek(next);
        last
    })?;
    notify_changed(tx, key, "arring", values.len() as u64);
    reply_index(last, reply);
    Ok(())
}

pub(super) const ARSEEK: DataCommand = Command {
    spec: Spec {
        name: "ARSEEK",
        syntax: "key index",
        summary: "Sets the ARINSERT / ARRING cursor to a specific index.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::WRITE.and(Flags::FAST),
        ..APPEND
    },
    subcommands: &[],
    run: arseek,
};

/// The cursor may also go to where nothing can be appended.
fn arseek(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, next) = (&args[1], base::number::parse_u64(&args[2]).ok_or(INVALID_INDEX)?);
    let exists = tx.peek_view::<Array>(key)?.is_some();
    if exists {
        tx.edit::<Array, _>(key, |array| array.seek(next))?;
        notify_changed(tx, key, "arseek", 1);
    }
    reply.integer(i64::from(exists));
    Ok(())
}

pub(super) const ARNEXT: DataCommand = Command {
    spec: Spec {
        name: "ARNEXT",
        syntax: "key",
        summary: "Returns the next index ARINSERT would use.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::READONLY.and(Flags::FAST),
        ..READ
    },
    subcommands: &[],
    run: arnext,
};

fn arnext(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    match tx.view::<Array>(&args[1])?.map_or(0, ArrayRef::next) {
        next @ ..=INDEX_MAX => reply_index(next, reply),
        _ => reply.null(),
    }
    Ok(())
}

pub(super) const ARLASTITEMS: DataCommand = Command {
    spec: Spec {
        name: "ARLASTITEMS",
        syntax: "key count [REV]",
        summary: "Returns the most recently inserted elements.",
        complexity: "O(N) where N is the count",
        arity: at_least(3),
        ..READ
    },
    subcommands: &[],
    run: arlastitems,
};

fn arlastitems(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let most = limit(&args[2], 0)?;
    let mut is_reversed = false;
    let mut options = Options::from(args, 3);
    while let Some(word) = options.word() {
        if !is(word, "REV") {
            return Err(SYNTAX);
        }
        is_reversed = true;
    }
    let Some(array) = tx.view::<Array>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    let count = most.min(array.count());
    tx.charge(count * PASSED_NS)?;
    reply.array(count as usize);
    let parts = array.newest(most).into_iter().flatten();
    if is_reversed {
        parts
            .rev()
            .flat_map(|part| array.slots_back(part))
            .for_each(|slot| reply_slot(slot, reply));
    } else {
        parts.flat_map(|part| array.slots(part)).for_each(|slot| reply_slot(slot, reply));
    }
    Ok(())
}
