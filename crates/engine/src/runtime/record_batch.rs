//! Whether the records of a thread may wait for those that its sessions append behind them.
//!
//! Invariant: whatever waits is counted, so that whoever ends the batch knows that there is some.

use std::cell::Cell;

/// The records that a thread appends between two rests.
#[derive(Default)]
pub struct RecordBatch {
    /// Whether the thread is in a session's turn.
    is_open: Cell<bool>,
    /// How many records it ever left waiting.
    joined: Cell<u64>,
}

impl RecordBatch {
    /// Whether what the thread appends may wait.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.is_open.get()
    }

    /// A session's turn begins on the thread.
    #[inline]
    pub fn open(&self) {
        self.is_open.set(true);
    }

    /// It is over.
    #[inline]
    pub fn close(&self) {
        self.is_open.set(false);
    }

    /// How many records of the thread ever waited.
    #[inline]
    pub fn joined(&self) -> u64 {
        self.joined.get()
    }

    /// A record of the thread waits.
    #[inline]
    pub fn join(&self) {
        self.joined.set(self.joined.get() + 1);
    }
}
