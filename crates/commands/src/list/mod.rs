//! The list family.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`; what takes elements from
//! a list and what puts them there goes through the few functions here, so that events, changes and
//! the encoding follow Redis' rules everywhere.

mod blocking;
mod lmove;
mod pop;
mod push;
mod read;
mod remove;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::atomic::Ordering;

use base::number::parse_i64;
use keyspace::{ContainerOutcome, EventClass, Refusal, Tx};
use proto::Reply;
use structs::list::{List, ListLimits, ListRef, Side};
use structs::members::{Long, Text};

use crate::DataCommand;
use crate::arguments::{is, symmetric};
use crate::errors::SYNTAX;
use crate::text::reply_member;

/// All commands of the family.
pub const COMMANDS: &[&DataCommand] = &[
    &blocking::BLMOVE,
    &blocking::BLMOVEM,
    &blocking::BLMPOP,
    &blocking::BLPOP,
    &blocking::BRPOP,
    &blocking::BRPOPLPUSH,
    &read::LINDEX,
    &push::LINSERT,
    &read::LLEN,
    &lmove::LMOVE,
    &lmove::LMOVEM,
    &pop::LMPOP,
    &pop::LPOP,
    &read::LPOS,
    &push::LPUSH,
    &push::LPUSHX,
    &read::LRANGE,
    &remove::LREM,
    &push::LSET,
    &remove::LTRIM,
    &pop::RPOP,
    &lmove::RPOPLPUSH,
    &push::RPUSH,
    &push::RPUSHX,
];

/// Looking at an element in passing, in nanoseconds.
const PASSED_NS: u64 = 15;

/// Bytes of elements that are compared in a nanosecond, from memory.
const COMPARED_PER_NS: u64 = 4;

/// Replying, adding or removing an element, in nanoseconds.
const HANDLED_NS: u64 = 50;

/// Elements on the way from one list to another; long ones are shared.
enum Owned {
    Bytes(Vec<u8>),
    Integer(i64),
    Long(Long),
}

impl Owned {
    fn new(text: Text<'_>) -> Self {
        match text {
            Text::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Text::Integer(number) => Self::Integer(number),
            Text::Long(long) => Self::Long(long.clone()),
        }
    }

    fn text(&self) -> Text<'_> {
        match self {
            Self::Bytes(bytes) => Text::Bytes(bytes),
            Self::Integer(number) => Text::Integer(*number),
            Self::Long(long) => Text::Long(long),
        }
    }
}

/// Beyond what a list is called a quicklist now.
pub(crate) fn limits(tx: &Tx) -> ListLimits {
    ListLimits::new(tx.keyspace().settings().containers.list_size.load(Ordering::Relaxed))
}

/// An argument as an end of a list.
fn side(argument: &[u8]) -> Result<Side, Refusal> {
    if is(argument, "LEFT") {
        Ok(Side::Left)
    } else if is(argument, "RIGHT") {
        Ok(Side::Right)
    } else {
        Err(SYNTAX)
    }
}

/// An argument as it is compared with elements.
fn needle(argument: &[u8]) -> Text<'_> {
    parse_i64(argument).map_or(Text::Bytes(argument), Text::Integer)
}

/// The indexes that a start and an end mean, both of which count from the end where they are
/// negative, and are themselves included.
fn clip(start: i64, end: i64, len: u64) -> Range<u64> {
    let from_end = |index: i64| match u64::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => len.checked_sub(index.unsigned_abs()),
    };
    let start = from_end(start).unwrap_or(0);
    let end = from_end(end).map_or(0, |end| end.saturating_add(1).min(len));
    if start < end { start..end } else { 0..0 }
}

/// The number of elements of a list; `None` where there is none.
fn peek_len(tx: &Tx, key: &[u8]) -> Result<Option<u64>, Refusal> {
    Ok(tx.peek_view::<List>(key)?.map(ListRef::len))
}

/// Charges a writing command for looking for an element in all of a list.
fn charge_search(tx: &Tx, key: &[u8], sought_len: usize) -> Result<(), Refusal> {
    let list = tx.peek_view::<List>(key)?;
    tx.charge(list.map_or(0, |list| search_cost_ns(list, list.len(), sought_len)))
}

/// What looking for an element of so many bytes takes in so many elements of a list, which may
/// differ from that one only at their ends.
fn search_cost_ns(list: ListRef<'_>, count: u64, sought_len: usize) -> u64 {
    let compared = count.saturating_mul(sought_len as u64).min(list.listpack_bytes() as u64);
    count * PASSED_NS + compared / COMPARED_PER_NS
}

/// The elements of a range, the outermost first as seen from an end.
fn outermost_first<'a>(
    list: ListRef<'a>,
    indexes: Range<u64>,
    side: Side,
) -> impl Iterator<Item = Text<'a>> {
    let mut items = list.range(indexes);
    std::iter::from_fn(move || match side {
        Side::Left => items.next(),
        Side::Right => items.next_back(),
    })
}

/// The indexes of the outermost elements at an end, of so many as there are.
fn outermost(len: u64, count: u64, side: Side) -> Range<u64> {
    match side {
        Side::Left => 0..count,
        Side::Right => len - count..len,
    }
}

/// Adds elements to a list that is open for editing.
fn push_into<'a>(
    list: &mut List,
    side: Side,
    texts: impl Iterator<Item = Text<'a>> + Clone,
    limits: &ListLimits,
) {
    let (count, bytes) =
        texts.clone().fold((0, 0), |(count, bytes), text| (count + 1, bytes + text.len()));
    list.expect(count, bytes, limits);
    list.push(side, texts);
}

/// Replies the outermost elements of a list that is there, and removes them.
fn pop_into_reply(
    tx: &mut Tx,
    key: &[u8],
    side: Side,
    count: u64,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let limits = limits(tx);
    let ((), outcome) = tx.edit::<List, _>(key, |list| {
        let indexes = outermost(list.borrow().len(), count, side);
        for text in outermost_first(list.borrow(), indexes.clone(), side) {
            reply_member(text, reply);
        }
        list.remove(indexes);
        list.shrink(&limits);
    })?;
    notify_popped(tx, key, side, count, outcome);
    Ok(())
}

/// Tells that elements were added.
fn notify_pushed(tx: &mut Tx, key: &[u8], side: Side) {
    let name = if side == Side::Left { "lpush" } else { "rpush" };
    tx.event(EventClass::List, name, key);
}

/// Tells that elements were taken.
fn notify_popped(tx: &mut Tx, key: &[u8], side: Side, count: u64, outcome: ContainerOutcome) {
    let name = if side == Side::Left { "lpop" } else { "rpop" };
    tx.event(EventClass::List, name, key);
    notify_gone(tx, key, outcome);
    tx.effects_mut().add_changes(count);
}

/// Tells that a list is gone, if it is.
fn notify_gone(tx: &mut Tx, key: &[u8], outcome: ContainerOutcome) {
    if outcome == ContainerOutcome::Removed {
        tx.event(EventClass::Generic, "del", key);
    }
}
