//! What INFO tells of the append-only file.
//!
//! Invariant: the writer's thread writes, others read.

use std::sync::atomic::{AtomicU64, Ordering};

/// Sizes and counts.
#[derive(Default)]
pub struct AofStats {
    /// Bytes of all files that the manifest names but history.
    total: AtomicU64,
    /// What they were when the last base was put in its place; at the start, what the base has.
    base: AtomicU64,
    syncs: AtomicU64,
    delayed: AtomicU64,
}

impl AofStats {
    /// Bytes of all files, and what they were after the last rewrite; after a start, those of the
    /// base.
    pub fn sizes(&self) -> (u64, u64) {
        (self.total.load(Ordering::Relaxed), self.base.load(Ordering::Relaxed))
    }

    /// How often the disk was made to keep what was written.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// How many syncs took long.
    pub fn delayed(&self) -> u64 {
        self.delayed.load(Ordering::Relaxed)
    }

    /// Counts syncs that took long anew (`CONFIG RESETSTAT`).
    pub fn reset_delayed(&self) {
        self.delayed.store(0, Ordering::Relaxed);
    }

    pub(super) fn set_sizes(&self, total: u64, base: u64) {
        self.total.store(total, Ordering::Relaxed);
        self.base.store(base, Ordering::Relaxed);
    }

    pub(super) fn grow(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn note_sync(&self, took_long: bool) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.delayed.fetch_add(u64::from(took_long), Ordering::Relaxed);
    }
}
