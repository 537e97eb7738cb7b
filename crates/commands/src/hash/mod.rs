//! The hash family.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`. A field whose time is
//! over is no field for any of them, but for HLEN, which counts what is stored, as in Redis; the
//! next change of the hash removes it (`Tx::edit`), and so does the sweep of the keyspace.

mod counter;
mod expire;
mod get;
mod getex;
pub(crate) mod import;
mod random;
mod remove;
mod scan;
mod set;
mod setex;
#[cfg(test)]
mod tests;
mod ttl;

use base::time::UnixMillis;
use keyspace::{ContainerOutcome, EventClass, Refusal, Tx};
use structs::hash::{Hash, HashLimits, HashRef};
use structs::members::MemberRef;

use crate::DataCommand;
use crate::member_ttl::Timed;
use crate::member_ttl::listed::Listed;

/// All commands of the family.
pub const COMMANDS: &[&DataCommand] = &[
    &remove::HDEL,
    &get::HEXISTS,
    &expire::HEXPIRE,
    &expire::HEXPIREAT,
    &ttl::HEXPIRETIME,
    &get::HGET,
    &get::HGETALL,
    &remove::HGETDEL,
    &getex::HGETEX,
    &counter::HINCRBY,
    &counter::HINCRBYFLOAT,
    &get::HKEYS,
    &get::HLEN,
    &get::HMGET,
    &set::HMSET,
    &ttl::HPERSIST,
    &expire::HPEXPIRE,
    &expire::HPEXPIREAT,
    &ttl::HPEXPIRETIME,
    &ttl::HPTTL,
    &random::HRANDFIELD,
    &scan::HSCAN,
    &set::HSET,
    &setex::HSETEX,
    &set::HSETNX,
    &get::HSTRLEN,
    &ttl::HTTL,
    &get::HVALS,
];

impl Timed for Hash {
    const CLASS: EventClass = EventClass::Hash;
    const GIVEN: Option<&'static str> = Some("hexpire");
    const REMOVED: &'static str = "hdel";

    fn deadline(hash: HashRef<'_>, field: &[u8]) -> Option<Option<UnixMillis>> {
        hash.get(field).map(|field| field.deadline)
    }

    fn borrow(&self) -> HashRef<'_> {
        self.borrow()
    }

    fn set_deadline(&mut self, field: &[u8], deadline: Option<UnixMillis>) {
        self.set_deadline(field, deadline);
    }

    fn judge_deadline(
        &mut self,
        field: &[u8],
        judge: impl FnOnce(Option<UnixMillis>) -> Option<Option<UnixMillis>>,
    ) {
        self.judge_deadline(field, judge);
    }

    fn remove(&mut self, field: &[u8]) {
        self.remove(field);
    }

    fn deadline_words<'a>(key: &'a [u8], field: &'a [u8], at: &'a [u8]) -> Vec<&'a [u8]> {
        vec![b"HPEXPIREAT", key, at, b"FIELDS", b"1", field]
    }
}

/// Refuses a number of fields that is none.
const NOT_POSITIVE: Refusal = Refusal::error("ERR Number of fields must be a positive integer");

impl Listed for Hash {
    const WORD: &'static str = "FIELDS";
    const MISSING: Refusal =
        Refusal::error("ERR Mandatory argument FIELDS is missing or not at the right position");
    const MISMATCH: Refusal =
        Refusal::error("ERR The `numfields` parameter must match the number of arguments");
    const BAD_COUNT: Refusal = Refusal::error("ERR Parameter `numFields` should be greater than 0");
    const JOURNALED: &'static str = "HPEXPIREAT";
    const LIFTED: &'static str = "hpersist";
}

/// About what it takes to find, reply or change one field, in nanoseconds.
const FIELD_COST_NS: u64 = 100;

/// Refuses a number of fields that is too large for a worker.
fn charge(tx: &Tx, fields: usize) -> Result<(), Refusal> {
    tx.charge(fields as u64 * FIELD_COST_NS)
}

/// Beyond what a hash is called a hash table now.
fn limits(tx: &Tx) -> HashLimits {
    let settings = &tx.keyspace().settings().containers;
    HashLimits {
        entries: settings.hash_entries.get() as u64,
        value_bytes: settings.hash_value.get(),
    }
}

/// A field whose time is not over.
pub(crate) fn live<'a>(hash: HashRef<'a>, field: &[u8], now: UnixMillis) -> Option<MemberRef<'a>> {
    hash.get(field).filter(|found| is_live(found, now))
}

fn is_live(field: &MemberRef<'_>, now: UnixMillis) -> bool {
    field.deadline.is_none_or(|deadline| deadline > now)
}

/// Whether the time of any field is over.
fn has_expired(hash: HashRef<'_>, now: UnixMillis) -> bool {
    hash.earliest_deadline().is_some_and(|deadline| deadline <= now)
}

/// Counts and reports that fields were taken out of a hash, and that it went with its last one.
fn note_removed(tx: &mut Tx, key: &[u8], fields: &[&[u8]], outcome: ContainerOutcome) {
    tx.effects_mut().add_changes(fields.len() as u64);
    tx.member_event(EventClass::Hash, "hdel", key, fields.iter().copied());
    if outcome == ContainerOutcome::Removed {
        tx.event(EventClass::Generic, "del", key);
    }
}
