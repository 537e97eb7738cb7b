//! Whether this server follows a primary: then the primary alone says what expires and what is
//! evicted, and what clients change here is told to nobody.
//!
//! Invariant: it changes with the world stopped only, so a transaction has one answer.

use std::sync::atomic::{AtomicBool, Ordering};

/// The switch.
#[derive(Default)]
pub struct ReplicaRole(AtomicBool);

impl ReplicaRole {
    /// Whether this is a replica: one load.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, is_replica: bool) {
        self.0.store(is_replica, Ordering::Relaxed);
    }
}
