//! Which clients watch which key, between WATCH and EXEC.
//!
//! A watch is one flag per client, entered at each of its keys in their partitions, under their
//! locks. A transaction that changes such a key breaks the watch in its own commit, before the lock
//! is free.
//!
//! Invariants: a watch that is whole while its keys' locks are held is of keys that nobody changed
//! since they were entered; to enter a watch or take it off takes no more steps than the logarithm
//! of how many watch the key.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use crate::keyspace::Keyspace;
use crate::waiting::{NamedKey, fit};

/// What a client watches with: whole until one of its keys changes.
pub struct Watch {
    broken: AtomicBool,
    /// Whether changes break it, too, that WATCH does not heed.
    heeds_all: bool,
    /// Wakes the session that waits for something that it would not wait for if the watch broke.
    waiter: Mutex<Option<Waker>>,
    _interest: ChangeInterest,
}

/// An interest in which keys change: as long as one lives, transactions note what they modify.
pub struct ChangeInterest {
    change_interests: &'static AtomicU32,
}

/// The watched keys of a partition, by logical database and name; the watches of a key by address.
#[derive(Default)]
pub(crate) struct WatchedKeys(HashMap<NamedKey, Vec<KeyWatch>>);

/// A watch at one of its keys.
struct KeyWatch {
    watch: Arc<Watch>,
    /// Whether the key's time was over by then: that it goes is no change.
    was_over: bool,
}

impl Watch {
    /// A watch that nothing has broken yet.
    #[must_use]
    pub fn new(keyspace: &'static Keyspace) -> Arc<Self> {
        Self::begin(keyspace, false)
    }

    /// The same, and whatever becomes of its keys breaks it: WATCH does not heed how far the
    /// groups of a stream have read, and what is lost with the key is that, too.
    #[must_use]
    pub fn of_all(keyspace: &'static Keyspace) -> Arc<Self> {
        Self::begin(keyspace, true)
    }

    fn begin(keyspace: &'static Keyspace, heeds_all: bool) -> Arc<Self> {
        let (broken, waiter) = (AtomicBool::new(false), Mutex::default());
        let _interest = keyspace.register_change_interest();
        Arc::new(Self { broken, heeds_all, waiter, _interest })
    }

    /// Whether a watched key changed.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// The same; if none did, the waker is called when one does.
    pub fn poll_broken(&self, waker: &Waker) -> bool {
        if !self.is_broken() {
            *self.waiter() = Some(waker.clone());
        }
        // One that broke in between may have found nobody.
        self.is_broken()
    }

    fn break_up(&self) {
        if self.broken.swap(true, Ordering::AcqRel) {
            return;
        }
        let waiter = self.waiter().take();
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    fn waiter(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waiter.lock().expect("no critical section here panics")
    }
}

impl ChangeInterest {
    /// Counts one more.
    pub(crate) fn begin(change_interests: &'static AtomicU32) -> Self {
        change_interests.fetch_add(1, Ordering::Relaxed);
        Self { change_interests }
    }
}

impl Drop for ChangeInterest {
    fn drop(&mut self) {
        self.change_interests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl WatchedKeys {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Enters a watch at a key, once; whether nobody watched the key before.
    pub(crate) fn add(
        &mut self,
        database: usize,
        key: &[u8],
        watch: &Arc<Watch>,
        was_over: bool,
    ) -> bool {
        let watches = self.0.entry((database, key.into())).or_default();
        let is_new = watches.is_empty();
        if let Err(place) = place_of(watches, watch) {
            watches.insert(place, KeyWatch { watch: Arc::clone(watch), was_over });
        }
        is_new
    }

    /// Takes a watch off a key; whether nobody watches the key any more.
    pub(crate) fn remove(&mut self, database: usize, key: &[u8], watch: &Arc<Watch>) -> bool {
        let name = (database, key.into());
        let Some(watches) = self.0.get_mut(&name) else { return false };
        if let Ok(place) = place_of(watches, watch) {
            watches.remove(place);
        }
        let is_last = watches.is_empty();
        if is_last {
            self.0.remove(&name);
            fit(&mut self.0);
        }
        is_last
    }

    /// Breaks the watches of a key; where it is absent, as it may have been before, those of
    /// clients that found it there.
    pub(crate) fn break_up(&self, database: usize, key: &[u8], is_absent: impl Fn() -> bool) {
        let watches = self.0.get(&(database, Box::from(key)));
        for KeyWatch { watch, was_over } in watches.into_iter().flatten() {
            if !was_over || !is_absent() {
                watch.break_up();
            }
        }
    }

    /// Breaks those watches of a key that heed all that becomes of it.
    pub(crate) fn break_up_heeding_all(&self, database: usize, key: &[u8]) {
        let watches = self.0.get(&(database, Box::from(key)));
        let heeding = watches.into_iter().flatten().filter(|entered| entered.watch.heeds_all);
        heeding.for_each(|entered| entered.watch.break_up());
    }

    /// Whether a key's time was over when this watch was entered.
    pub(crate) fn was_over(&self, database: usize, key: &[u8], watch: &Arc<Watch>) -> bool {
        let watches = self.0.get(&(database, Box::from(key)));
        let place = |watches: &Vec<KeyWatch>| place_of(watches, watch).ok();
        watches.is_some_and(|watches| place(watches).is_some_and(|at| watches[at].was_over))
    }

    /// The watched keys of a database.
    pub(crate) fn keys(&self, database: usize) -> impl Iterator<Item = &[u8]> {
        self.0.keys().filter(move |(of, _)| *of == database).map(|(_, key)| &**key)
    }
}

/// Where a watch is among those of a key, or belongs.
fn place_of(watches: &[KeyWatch], watch: &Arc<Watch>) -> Result<usize, usize> {
    watches.binary_search_by_key(&Arc::as_ptr(watch), |entered| Arc::as_ptr(&entered.watch))
}
