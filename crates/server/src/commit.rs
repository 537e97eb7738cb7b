//! The only door by which a write leaves a transaction.
//!
//! Called with the locks still held: what the transaction changed goes to those who follow the data
//! (the journal, and through it disk and replicas).
//!
//! Invariant: the order in which two transactions that share a key pass here is the order in which
//! they ran.

use keyspace::Tx;

/// Settles and publishes what a transaction did. Its locks are dropped with it, right after.
#[inline]
pub(crate) fn commit(tx: &mut Tx) {
    tx.conclude();
}
