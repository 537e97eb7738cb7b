//! Whether this server follows a primary: then the primary alone says what expires and what is
//! evicted, and what clients change here is told to nobody.
//!
//! Invariant: the role changes with the world stopped only, so a transaction has one answer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use commands::Flags;

use crate::table::flag_set::FlagSet;

/// The switch.
#[derive(Default)]
pub struct ReplicaRole {
    is_replica: AtomicBool,
    changes: AtomicU64,
    demotions: AtomicU64,
    is_stale: AtomicBool,
    /// Whether keys are removed just now that clients of this replica gave deadlines.
    pub(crate) is_expiring: AtomicBool,
}

impl ReplicaRole {
    /// Whether this is a replica: one load.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Ordering::Relaxed)
    }

    /// How often the role has changed.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// How often this became a replica, or one of another server. A client that began to wait for
    /// keys before the last time is told so, and is served nothing.
    pub(crate) fn demotions(&self) -> u64 {
        self.demotions.load(Ordering::Relaxed)
    }

    /// Whether what is here may be old, and is not to be shown: on a replica without its primary,
    /// where `replica-serve-stale-data` says so.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    /// MASTERDOWN: whether commands with these flags are refused, all of them, as what is here may
    /// be old.
    #[inline]
    pub(crate) fn refuses_stale(&self, flags: impl FnOnce() -> FlagSet) -> bool {
        self.is_stale() && !flags().all.has(Flags::STALE)
    }

    /// Says whether what is here is to be shown.
    pub fn set_stale(&self, is_stale: bool) {
        self.is_stale.store(is_stale, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, is_replica: bool) {
        self.is_replica.store(is_replica, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Says, with the world stopped, that clients which wait for keys wait in vain from here on.
    pub fn note_demotion(&self) {
        self.demotions.fetch_add(1, Ordering::Relaxed);
    }
}
