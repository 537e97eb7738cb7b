//! Whether the records of a thread may wait for those that its sessions append behind them.
//!
//! Invariant: whatever waits is counted, so that whoever ends the batch knows that there is some.

use std::cell::Cell;

thread_local! {
    /// Whether this thread is in a session's turn.
    static IS_OPEN: Cell<bool> = const { Cell::new(false) };
    /// How many records it ever left waiting.
    static JOINED: Cell<u64> = const { Cell::new(0) };
}

/// Whether what this thread appends may wait.
#[inline]
pub fn is_open() -> bool {
    IS_OPEN.get()
}

/// A session's turn begins on this thread.
#[inline]
pub fn open() {
    IS_OPEN.set(true);
}

/// It is over.
#[inline]
pub fn close() {
    IS_OPEN.set(false);
}

/// How many records of this thread ever waited.
#[inline]
pub fn joined() -> u64 {
    JOINED.get()
}

/// A record of this thread waits.
#[inline]
pub fn join() {
    JOINED.set(JOINED.get() + 1);
}
