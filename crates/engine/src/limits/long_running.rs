//! The commands that others may have to wait for: those that run on background threads with locks.
//!
//! Invariant: a command stands here from before it has its locks on that thread until after they
//! are gone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use keyspace::{Keyspace, PartitionIndex, PartitionSet};

/// The commands on heavy-work threads that hold locks, or keep the world from stopping.
#[derive(Default)]
pub(crate) struct LongRunning {
    count: AtomicUsize,
    holds: Mutex<Vec<Arc<Held>>>,
}

/// What one of them holds.
struct Held {
    /// On the monotonic clock, in microseconds.
    since_us: i64,
    /// In rising order.
    partitions: PartitionSet,
    /// Whether it has given its locks back and waits.
    is_paused: bool,
}

impl Held {
    fn holds(&self, partition: PartitionIndex) -> bool {
        self.partitions.binary_search(&partition).is_ok()
    }
}

/// A command under way; it ends when dropped, after its locks.
pub(crate) struct Hold {
    underway: &'static LongRunning,
    keyspace: &'static Keyspace,
    held: Arc<Held>,
    /// Since when it has its present locks, on the monotonic clock in microseconds.
    locked_us: i64,
}

impl Hold {
    /// A command begins that holds these partitions.
    pub(crate) fn begin(
        underway: &'static LongRunning,
        keyspace: &'static Keyspace,
        since_us: i64,
        partitions: PartitionSet,
    ) -> Self {
        let mut partitions = partitions;
        partitions.sort_unstable();
        let held = Arc::new(Held { since_us, partitions, is_paused: false });
        underway.holds().push(Arc::clone(&held));
        underway.count.fetch_add(1, Ordering::Relaxed);
        Self { underway, keyspace, held, locked_us: since_us }
    }

    /// It has given its locks back and waits for others.
    pub(crate) fn pause(&mut self) {
        self.change(PartitionSet::new(), true);
    }

    /// It has other locks now.
    pub(crate) fn resume(&mut self, partitions: PartitionSet) {
        self.change(partitions, false);
        self.locked_us = self.keyspace.clock().monotonic_us();
    }

    /// It may have taken more locks, beside those that it has; whether it did.
    pub(crate) fn extend(&mut self, partitions: &[PartitionIndex]) -> bool {
        let is_more = *self.held.partitions != *partitions;
        if is_more {
            let mut partitions = PartitionSet::from(partitions);
            partitions.sort_unstable();
            self.change(partitions, false);
        }
        is_more
    }

    /// A gate held the command, which had no lock: others have not waited for it so far.
    pub(crate) fn begin_anew(&mut self) {
        let since_us = self.keyspace.clock().monotonic_us();
        self.replace(Held { since_us, partitions: PartitionSet::new(), is_paused: true });
    }

    fn change(&mut self, partitions: PartitionSet, is_paused: bool) {
        self.note();
        self.replace(Held { since_us: self.held.since_us, partitions, is_paused });
    }

    fn replace(&mut self, held: Held) {
        let held = Arc::new(held);
        let before = std::mem::replace(&mut self.held, Arc::clone(&held));
        let mut holds = self.underway.holds();
        let place = holds.iter_mut().find(|other| Arc::ptr_eq(other, &before));
        *place.expect("it stands there until it is dropped") = held;
    }

    /// Notes how long it had the locks that it has.
    fn note(&self) {
        if !self.held.partitions.is_empty() {
            let micros = self.keyspace.clock().monotonic_us() - self.locked_us;
            self.keyspace.stall_stats().note_hold(u64::try_from(micros).unwrap_or(0));
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Self { underway, held, .. } = &*self;
        underway.holds().retain(|other| !Arc::ptr_eq(other, held));
        underway.count.fetch_sub(1, Ordering::Relaxed);
        self.note();
    }
}

impl LongRunning {
    /// Since when the first of those that `counts` has been under way.
    fn since_of(&self, counts: impl Fn(&Held) -> bool) -> Option<i64> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let holds = self.holds();
        holds.iter().filter(|held| counts(held)).map(|held| held.since_us).min()
    }

    /// Since when the first has been under way.
    pub(crate) fn since(&self) -> Option<i64> {
        self.since_of(|_| true)
    }

    /// Since when the first has been that holds one of these partitions.
    pub(crate) fn since_with(&self, partitions: &[PartitionIndex]) -> Option<i64> {
        self.since_of(|held| partitions.iter().any(|it| held.holds(*it)))
    }

    /// Whether one that may change something has been under way since before that.
    pub(crate) fn is_any_before(&self, time_us: i64) -> bool {
        self.active_since().is_some_and(|since_us| since_us < time_us)
    }

    /// Since when the first of those has been under way that have their locks.
    pub(crate) fn active_since(&self) -> Option<i64> {
        self.since_of(|held| !held.is_paused)
    }

    fn holds(&self) -> MutexGuard<'_, Vec<Arc<Held>>> {
        self.holds.lock().expect("no critical section here panics")
    }
}
