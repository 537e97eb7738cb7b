//! The only door by which a write leaves a transaction.
//!
//! Called with the locks still held: what the transaction changed goes to the journal, and through
//! it to whoever follows the data.
//!
//! Invariant: the order in which two transactions that share a key pass here is the order in which
//! they ran.

use keyspace::{Lsn, Tx};
use proto::Args;

use crate::journal::{self, Journal};

/// Settles and publishes what a transaction did. Returns the LSN that its reply must wait for:
/// that of the last write it saw, its own included. Its locks are dropped with it, right after.
#[inline]
pub(crate) fn commit(journal: &Journal, tx: &mut Tx, args: Args<'_>) -> Lsn {
    tx.conclude();
    if !tx.effects().is_recorded() {
        return 0;
    }
    append(journal, tx, args);
    tx.seen()
}

#[cold]
fn append(journal: &Journal, tx: &mut Tx, args: Args<'_>) {
    let record = journal::record(tx.effects(), tx.database(), args);
    if !record.is_empty() {
        let lsn = journal.append(&record);
        tx.stamp(lsn);
    }
}
