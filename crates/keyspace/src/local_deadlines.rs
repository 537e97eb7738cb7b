//! Deadlines that clients of a writable replica set: its primary knows nothing of them, so what is
//! over by them goes here.
//!
//! Invariant: a key is noted at most once, and none is where this server is no replica.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A logical database and a key.
pub type LocalKey = (usize, Box<[u8]>);

/// The keys.
#[derive(Debug, Default)]
pub struct LocalDeadlines {
    is_on: AtomicBool,
    count: AtomicUsize,
    keys: Mutex<HashSet<LocalKey>>,
}

impl LocalDeadlines {
    /// Has keys noted from here on, or not; those that were are forgotten.
    pub fn restart(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
        self.keys().clear();
        self.count.store(0, Ordering::Relaxed);
    }

    /// Whether keys are noted.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// A client gave a key a deadline.
    #[cold]
    pub(crate) fn note(&self, database: usize, key: &[u8]) {
        let mut keys = self.keys();
        keys.insert((database, key.into()));
        self.count.store(keys.len(), Ordering::Relaxed);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, to be looked at.
    pub fn all(&self) -> Vec<LocalKey> {
        self.keys().iter().cloned().collect()
    }

    /// A key that was forgotten is to be looked at again.
    pub fn note_again(&self, (database, key): &LocalKey) {
        self.note(*database, key);
    }

    /// A key has gone, or has no deadline any more.
    pub fn forget(&self, key: &LocalKey) {
        let mut keys = self.keys();
        keys.remove(key);
        self.count.store(keys.len(), Ordering::Relaxed);
    }

    fn keys(&self) -> MutexGuard<'_, HashSet<LocalKey>> {
        self.keys.lock().expect("no critical section here panics")
    }
}
