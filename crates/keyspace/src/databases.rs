//! Which physical database stands behind which logical one.
//!
//! Invariant: the two maps are inverse to each other; they change with the world stopped only.

use std::sync::atomic::{AtomicU32, Ordering};

/// The logical databases: `SELECT` knows them by their number, SWAPDB exchanges two.
pub(crate) struct Databases {
    physical: Box<[AtomicU32]>,
    logical: Box<[AtomicU32]>,
}

impl Databases {
    pub(crate) fn new(count: u32) -> Self {
        let map = || (0..count).map(AtomicU32::new).collect();
        Self { physical: map(), logical: map() }
    }

    pub(crate) fn count(&self) -> usize {
        self.physical.len()
    }

    /// The physical database behind a logical one.
    #[inline]
    pub(crate) fn physical(&self, logical: usize) -> usize {
        self.physical[logical].load(Ordering::Relaxed) as usize
    }

    /// The logical database before a physical one.
    pub(crate) fn logical(&self, physical: usize) -> usize {
        self.logical[physical].load(Ordering::Relaxed) as usize
    }

    /// Exchanges two logical databases.
    pub(crate) fn swap(&self, one: usize, other: usize) {
        let (first, second) = (self.physical(one), self.physical(other));
        for (logical, physical) in [(one, second), (other, first)] {
            self.physical[logical].store(physical as u32, Ordering::Relaxed);
            self.logical[physical].store(logical as u32, Ordering::Relaxed);
        }
    }
}
