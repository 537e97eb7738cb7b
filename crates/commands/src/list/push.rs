//! Adding and replacing elements: LPUSH, RPUSH, LPUSHX, RPUSHX, LINSERT, LSET.
//!
//! Invariant: the elements of one command are there together or not at all.

use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};
use structs::list::{List, Side};
use structs::members::Text;

use super::{HANDLED_NS, charge_search, limits, needle, notify_pushed, peek_len, push_into};
use crate::DataCommand;
use crate::arguments::{integer, is};
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::{NO_SUCH_KEY, OUT_OF_RANGE, SYNTAX};
use crate::keys::{Access, first};

/// What the four that push have in common.
const PUSH: Spec = Spec {
    group: Group::List,
    syntax: "key element [element ...]",
    complexity: "O(1) for each element added, so O(N) to add N elements when the command is called \
                 with multiple arguments.",
    arity: at_least(3),
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    keys: &[first(Access::RW.and(Access::INSERT))],
    ..Spec::BASE
};

pub(super) const LPUSH: DataCommand = Command {
    spec: Spec {
        name: "LPUSH",
        since: "1.0.0",
        summary: "Prepends one or more elements to a list. Creates the key if it doesn't exist.",
        history: &[("2.4.0", "Accepts multiple `element` arguments.")],
        ..PUSH
    },
    subcommands: &[],
    run: |tx, args, reply| push(tx, args, Side::Left, reply),
};

pub(super) const RPUSH: DataCommand = Command {
    spec: Spec {
        name: "RPUSH",
        since: "1.0.0",
        summary: "Appends one or more elements to a list. Creates the key if it doesn't exist.",
        history: &[("2.4.0", "Accepts multiple `element` arguments.")],
        ..PUSH
    },
    subcommands: &[],
    run: |tx, args, reply| push(tx, args, Side::Right, reply),
};

pub(super) const LPUSHX: DataCommand = Command {
    spec: Spec {
        name: "LPUSHX",
        since: "2.2.0",
        summary: "Prepends one or more elements to a list only when the list exists.",
        history: &[("4.0.0", "Accepts multiple `element` arguments.")],
        ..PUSH
    },
    subcommands: &[],
    run: |tx, args, reply| push_to_existing(tx, args, Side::Left, reply),
};

pub(super) const RPUSHX: DataCommand = Command {
    spec: Spec {
        name: "RPUSHX",
        since: "2.2.0",
        summary: "Appends an element to a list only when the list exists.",
        history: &[("4.0.0", "Accepts multiple `element` arguments.")],
        ..PUSH
    },
    subcommands: &[],
    run: |tx, args, reply| push_to_existing(tx, args, Side::Right, reply),
};

fn push_to_existing(
    tx: &mut Tx,
    args: Args<'_>,
    side: Side,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    if peek_len(tx, &args[1])?.is_some() {
        return push(tx, args, side, reply);
    }
    reply.integer(0);
    Ok(())
}

fn push(tx: &mut Tx, args: Args<'_>, side: Side, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, elements) = (&args[1], args.skip(2));
    tx.charge(elements.len() as u64 * HANDLED_NS)?;
    let limits = limits(tx);
    let (len, _) = tx.edit::<List, _>(key, |list| {
        push_into(list, side, elements.iter().map(Text::Bytes), &limits);
        list.borrow().len()
    })?;
    notify_pushed(tx, key, side);
    tx.effects_mut().add_changes(elements.len() as u64);
    reply.integer(len as i64);
    Ok(())
}

pub(super) const LINSERT: DataCommand = Command {
    spec: Spec {
        name: "LINSERT",
        since: "2.2.0",
        group: Group::List,
        syntax: "key <BEFORE | AFTER> pivot element",
        summary: "Inserts an element before or after another element in a list.",
        complexity: "O(N) where N is the number of elements to traverse before seeing the value \
                     pivot. This means that inserting somewhere on the left end on the list (head) \
                     can be considered O(1) and inserting somewhere on the right end (tail) is \
                     O(N).",
        arity: exactly(5),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[first(Access::RW.and(Access::INSERT))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: linsert,
};

fn linsert(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, pivot, element) = (&args[1], needle(&args[3]), &args[4]);
    let behind = match &args[2] {
        word if is(word, "BEFORE") => 0,
        word if is(word, "AFTER") => 1,
        _ => return Err(SYNTAX),
    };
    charge_search(tx, key, args[3].len())?;
    let limits = limits(tx);
    // `None` where there is no such element: 0 of a list that is not there, else -1.
    let (len, _) = tx.edit::<List, _>(key, |list| {
        if list.borrow().is_empty() {
            return Err(0);
        }
        let pivot = list.borrow().iter().position(|text| text == pivot).ok_or(-1)?;
        list.expect(1, element.len(), &limits);
        list.insert(pivot as u64 + behind, Text::Bytes(element));
        Ok(list.borrow().len() as i64)
    })?;
    if len.is_ok() {
        tx.event(EventClass::List, "linsert", key);
        tx.effects_mut().add_changes(1);
    }
    reply.integer(len.unwrap_or_else(|missing| missing));
    Ok(())
}

pub(super) const LSET: DataCommand = Command {
    spec: Spec {
        name: "LSET",
        since: "1.0.0",
        group: Group::List,
        syntax: "key index element",
        summary: "Sets the value of an element in a list by its index.",
        complexity: "O(N) where N is the length of the list. Setting either the first or the last \
                     element of the list is O(1).",
        arity: exactly(4),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[first(Access::RW.and(Access::UPDATE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: lset,
};

fn lset(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, element) = (&args[1], &args[3]);
    let len = peek_len(tx, key)?.ok_or(NO_SUCH_KEY)?;
    let index = index_within(integer(args, 2)?, len).ok_or(OUT_OF_RANGE)?;
    let limits = limits(tx);
    tx.edit::<List, _>(key, |list| {
        list.expect(1, element.len(), &limits);
        list.set(index, Text::Bytes(element));
        list.shrink(&limits);
    })?;
    tx.event(EventClass::List, "lset", key);
    tx.effects_mut().add_changes(1);
    reply.ok();
    Ok(())
}

/// What an index means that counts from the end where it is negative.
pub(super) fn index_within(index: i64, len: u64) -> Option<u64> {
    let index = match u64::try_from(index) {
        Ok(index) => index,
        Err(_) => len.checked_sub(index.unsigned_abs())?,
    };
    (index < len).then_some(index)
}
