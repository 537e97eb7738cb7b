//! Which physical database stands behind which logical one.
//!
//! Behind those that clients know stand as many that they do not: there a data set is put together
//! beside the one that is served, and then exchanged with it.
//!
//! Invariant: the two maps are inverse to each other; they change with the world stopped only.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::keyspace::Keyspace;

/// The logical databases: `SELECT` knows them by their number, SWAPDB exchanges two.
pub(crate) struct Databases {
    /// How many clients know.
    count: usize,
    physical: Box<[AtomicU32]>,
    logical: Box<[AtomicU32]>,
}

impl Databases {
    pub(crate) fn new(count: u32) -> Self {
        let map = || (0..2 * count).map(AtomicU32::new).collect();
        Self { count: count as usize, physical: map(), logical: map() }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// With those that clients do not know.
    pub(crate) fn count_all(&self) -> usize {
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

impl Keyspace {
    /// The logical database that is put together beside this one.
    #[must_use]
    pub fn shadow(&self, logical: usize) -> usize {
        self.database_count() + logical
    }
}

impl Keyspace {
    /// Logical databases.
    #[must_use]
    pub fn database_count(&self) -> usize {
        self.databases().count()
    }

    /// The physical database behind a logical one.
    #[inline]
    #[must_use]
    pub fn physical(&self, logical: usize) -> usize {
        self.databases().physical(logical)
    }
}
