//! The array family, of Redis 8.8. No server of the tests has it, so the commands' pages on
//! redis.io are what it follows; where they are silent, the clients' own tests and the pages of
//! others that have arrays.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`; no number of a client
//! makes a command walk over indexes that have no element, but for ARGETRANGE, which is bounded.

mod aggregate;
mod cursor;
mod get;
mod grep;
mod info;
mod remove;
mod scan;
mod set;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use base::number::parse_u64;
use keyspace::{ContainerOutcome, EventClass, Refusal, Tx};
use proto::Reply;
use structs::array::INDEX_MAX;

use crate::DataCommand;
use crate::errors::{NOT_AN_INTEGER, NOT_POSITIVE};

/// All commands of the family.
pub const COMMANDS: &[&DataCommand] = &[
    &get::ARCOUNT,
    &remove::ARDEL,
    &remove::ARDELRANGE,
    &get::ARGET,
    &get::ARGETRANGE,
    &grep::ARGREP,
    &info::ARINFO,
    &cursor::ARINSERT,
    &cursor::ARLASTITEMS,
    &get::ARLEN,
    &get::ARMGET,
    &set::ARMSET,
    &cursor::ARNEXT,
    &aggregate::AROP,
    &cursor::ARRING,
    &scan::ARSCAN,
    &cursor::ARSEEK,
    &set::ARSET,
];

/// Finding, replacing or removing an element by its index, in nanoseconds.
const FOUND_NS: u64 = 300;

/// Passing an element, or replying one, in nanoseconds.
const PASSED_NS: u64 = 50;

const INVALID_INDEX: Refusal = Refusal::error("ERR invalid array index");

/// An argument as an index that an element may have.
fn index(argument: &[u8]) -> Result<u64, Refusal> {
    parse_u64(argument).filter(|index| *index <= INDEX_MAX).ok_or(INVALID_INDEX)
}

/// A range of indexes, and whether it was given from its end to its start.
struct IndexRange {
    range: RangeInclusive<u64>,
    is_reversed: bool,
}

impl IndexRange {
    fn new(start: u64, end: u64) -> Self {
        Self { range: start.min(end)..=start.max(end), is_reversed: start > end }
    }

    /// Two arguments as a range.
    fn read(start: &[u8], end: &[u8]) -> Result<Self, Refusal> {
        Ok(Self::new(index(start)?, index(end)?))
    }
}

/// An argument as a number of elements; whatever the number, no more are taken than there are.
fn limit(argument: &[u8], least: u64) -> Result<u64, Refusal> {
    match parse_u64(argument) {
        Some(number) if number >= least => Ok(number),
        Some(_) => Err(NOT_POSITIVE),
        None if base::number::parse_i64(argument).is_some() => Err(NOT_POSITIVE),
        None => Err(NOT_AN_INTEGER),
    }
}

/// Replies an index or a length, which may be more than an integer of the protocol can be.
fn reply_index(index: u64, reply: &mut Reply<'_>) {
    match i64::try_from(index) {
        Ok(index) => reply.integer(index),
        Err(_) => reply.big_number(&index.to_string()),
    }
}

/// Tells of elements that a command put or moved, as so many changes.
fn notify_changed(tx: &mut Tx, key: &[u8], event: &'static str, changes: u64) {
    tx.event(EventClass::Array, event, key);
    tx.effects_mut().add_changes(changes);
}

/// Tells of elements that were removed, if there were any, and replies their number.
fn notify_removed(
    tx: &mut Tx,
    key: &[u8],
    event: &'static str,
    (removed, outcome): (u64, ContainerOutcome),
    reply: &mut Reply<'_>,
) {
    if removed > 0 {
        notify_changed(tx, key, event, removed);
    }
    if outcome == ContainerOutcome::Removed {
        tx.event(EventClass::Generic, "del", key);
    }
    reply_index(removed, reply);
}
