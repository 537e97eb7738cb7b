//! The only door by which a write leaves a transaction.
//!
//! Called with the locks still held: what the transaction changed goes to those who follow the data
//! (the journal, and through it disk and replicas), then the locks are dropped.
//!
//! Invariant: the order in which two transactions that share a key pass here is the order in which
//! they ran.

use keyspace::Tx;
use proto::Args;

use crate::server::Server;

/// Settles and publishes what a transaction did, and ends it.
#[inline]
pub(crate) fn commit(server: &Server, mut tx: Tx, args: Args<'_>) {
    tx.conclude();
    drop(tx);
}
