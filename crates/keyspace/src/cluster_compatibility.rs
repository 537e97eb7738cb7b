//! What is asked for that a cluster would refuse, counted on a server that is no node of one
//! (`cluster-compatibility-sample-ratio`).
//!
//! Invariant: while nothing is checked nothing is counted, and whoever notes something has found it
//! on the way.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use base::Random;

use crate::{Keyspace, Tx};

/// The count, and how many requests are checked.
#[derive(Default)]
pub struct ClusterCompatibility {
    /// So many of a hundred.
    ratio: AtomicU8,
    /// Whether it is any: one load.
    is_on: AtomicBool,
    /// Draws so far.
    draws: AtomicU64,
    incompatible: AtomicU64,
}

impl ClusterCompatibility {
    /// So many of a hundred requests are checked from now on.
    pub fn set(&self, ratio: u8) {
        self.ratio.store(ratio, Ordering::Relaxed);
        self.is_on.store(ratio > 0, Ordering::Relaxed);
    }

    /// Whether any request is checked.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Counts something that a cluster would refuse, if it is among what is checked.
    #[inline]
    pub fn note(&self) {
        if self.is_on() {
            self.draw();
        }
    }

    #[cold]
    fn draw(&self) {
        let draw = self.draws.fetch_add(1, Ordering::Relaxed);
        let ratio = self.ratio.load(Ordering::Relaxed);
        if Random::from_seed(draw).below(100) < u64::from(ratio) {
            self.incompatible.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.incompatible.load(Ordering::Relaxed)
    }

    /// Begins the count anew.
    pub fn reset(&self) {
        self.incompatible.store(0, Ordering::Relaxed);
    }
}

impl Keyspace {
    /// What is asked for that a cluster would refuse.
    #[inline]
    #[must_use]
    pub fn compatibility(&self) -> &ClusterCompatibility {
        &self.compatibility
    }
}

impl Tx {
    /// Counts what a cluster would refuse, of what clients ask for.
    #[inline]
    pub fn note_incompatible(&self) {
        if self.keyspace().compatibility().is_on() && !self.replays() {
            self.keyspace().compatibility().note();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ClusterCompatibility;

    #[test]
    fn so_many_of_a_hundred_are_counted() {
        let counted = |ratio| {
            let compatibility = ClusterCompatibility::default();
            compatibility.set(ratio);
            (0..10_000).for_each(|_| compatibility.note());
            compatibility.count()
        };
        assert_eq!((counted(0), counted(100)), (0, 10_000));
        let some = counted(25);
        assert!((2200..2800).contains(&some), "{some}");
    }
}
