//! Counters that one thread writes and all may read.
//!
//! Invariant: each counter has one writer at a time, so load-add-store loses nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a worker counts.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct WorkerCounters {
    pub(crate) commands: AtomicU64,
    pub(crate) net_in: AtomicU64,
    pub(crate) net_out: AtomicU64,
    /// Sessions, counted by the acceptor on hand-over and by the worker at the end.
    pub(crate) sessions: AtomicU64,
    /// Microseconds spent in commands.
    pub(crate) busy_us: AtomicU64,
}

impl WorkerCounters {
    /// Starts what is summed up again from zero; a count that races may survive.
    pub(crate) fn reset(&self) {
        for counter in [&self.commands, &self.net_in, &self.net_out, &self.busy_us] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn add_net_in(&self, bytes: u64) {
        add(&self.net_in, bytes);
    }

    pub(crate) fn add_net_out(&self, bytes: u64) {
        add(&self.net_out, bytes);
    }
}

/// Adds to a counter of which the caller is the one writer.
#[inline]
pub(crate) fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}
