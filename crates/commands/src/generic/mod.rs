//! The generic family: commands on keys of any type, and on databases as a whole.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`.

mod database;
mod delete;
mod expire;
mod keys;
pub(crate) mod memory;
mod object;
mod query;
mod rename;
pub(crate) mod scan;
mod sort;
#[cfg(test)]
mod tests;
pub(crate) mod ttl;

use keyspace::{PartitionIndex, Refusal, Tx};
use proto::Args;

use crate::DataCommand;

pub use sort::pattern_option;

/// All commands of the family.
pub const COMMANDS: &[&DataCommand] = &[
    &delete::DEL,
    &delete::UNLINK,
    &query::EXISTS,
    &query::TYPE,
    &query::TOUCH,
    &object::OBJECT,
    &rename::COPY,
    &rename::MOVE,
    &rename::RENAME,
    &rename::RENAMENX,
    &expire::EXPIRE,
    &expire::PEXPIRE,
    &expire::EXPIREAT,
    &expire::PEXPIREAT,
    &ttl::EXPIRETIME,
    &ttl::PEXPIRETIME,
    &ttl::TTL,
    &ttl::PTTL,
    &ttl::PERSIST,
    &keys::KEYS,
    &keys::RANDOMKEY,
    &scan::SCAN,
    &scan::RM,
    &sort::SORT,
    &sort::SORT_RO,
    &database::DBSIZE,
    &database::FLUSHALL,
    &database::FLUSHDB,
    &database::SWAPDB,
];

/// About what it takes to find one key among many, in nanoseconds.
pub(crate) const KEY_COST_NS: u64 = 150;

/// About what it takes to pass over one key of a partition, in nanoseconds.
pub(crate) const VISIT_COST_NS: u64 = 100;

/// Refuses a list of keys that is too long for a worker.
pub fn charge_keys(tx: &Tx, keys: Args<'_>) -> Result<(), Refusal> {
    tx.charge(keys.len() as u64 * KEY_COST_NS)
}

/// Visits a partition; a busy one is waited for where nobody waits for the thread.
fn enter(tx: &mut Tx, partition: PartitionIndex) -> Result<(), Refusal> {
    tx.visit(partition)
}

/// The tip lines of commands whose parts a proxy may send to several shards and sum up.
pub const SHARDED_SUM: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];
