//! Whether the records of a thread may wait for those that its sessions append behind them.
//!
//! Invariant: whatever waits is counted, so that the end of the batch knows that there is some.

use std::cell::Cell;

/// The records that a thread appends between two flushes.
#[derive(Default)]
pub struct RecordBatch {
    /// Whether the thread is in a session's turn.
    is_open: Cell<bool>,
    /// How many records it ever left waiting.
    pending: Cell<u64>,
}

impl RecordBatch {
    /// Whether what the thread appends may wait.
    #[inline]
    pub fn is_batching(&self) -> bool {
        self.is_open.get()
    }

    /// A session's turn begins on the thread.
    #[inline]
    pub fn open(&self) {
        self.is_open.set(true);
    }

    /// The turn is over.
    #[inline]
    pub fn close(&self) {
        self.is_open.set(false);
    }

    /// How many records of the thread ever waited.
    #[inline]
    pub fn pending(&self) -> u64 {
        self.pending.get()
    }

    /// A record of the thread waits.
    #[inline]
    pub fn note_pending(&self) {
        self.pending.set(self.pending.get() + 1);
    }
}
