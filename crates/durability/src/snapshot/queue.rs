//! What transactions leave for a snapshot: entries as they were, before they change.
//!
//! Invariant: the queue accepts whatever comes, since that comes under locks; when it holds too
//! much, a gate keeps writing commands from beginning, and opens again when half of it is gone.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::time::Clock;
use engine::runtime::backpressure::Backpressure;
use keyspace::{EntryBox, EntryRef, WalkSink};

/// Bytes from which on writing commands wait: so many, less beside a limit of the memory that this
/// would be much of, and enough for writers not to wait for every hold of a lock.
const FULL: usize = 16 << 20;
const FULL_PART: u64 = 64;
const FULL_LEAST: usize = 1 << 20;

/// What `on_since` holds while there is no backpressure.
const OFF: i64 = -1;

/// Entries that wait to be encoded, each with its physical database.
pub(super) struct EntryQueue {
    entries: Mutex<VecDeque<(usize, EntryBox)>>,
    bytes: AtomicUsize,
    /// From how many bytes on writing commands wait.
    full: usize,
    /// The most bytes that it held.
    peak: AtomicUsize,
    backpressure: &'static Backpressure,
    clock: Clock,
    /// When the backpressure began, on the monotonic clock in microseconds.
    on_since: AtomicI64,
}

/// The queue as transactions see it.
pub(super) struct Intake(pub(super) Arc<EntryQueue>);

impl WalkSink for Intake {
    fn save(&self, database: usize, entry: EntryRef<'_>) {
        self.0.push(database, copy(entry));
    }
}

/// The entry as it is now; a large value is shared.
pub(super) fn copy(entry: EntryRef<'_>) -> EntryBox {
    entry.pre_image()
}

/// From how many bytes on writing commands wait beside such a limit of the memory; 0 is none.
fn full_beside(limit: u64) -> usize {
    match limit {
        0 => FULL,
        limit => usize::try_from(limit / FULL_PART).unwrap_or(FULL).clamp(FULL_LEAST, FULL),
    }
}

impl EntryQueue {
    /// An empty one, where so many bytes of memory may be in use; 0 is no limit.
    pub(super) fn new(backpressure: &'static Backpressure, clock: Clock, limit: u64) -> Self {
        Self {
            entries: Mutex::default(),
            bytes: AtomicUsize::new(0),
            full: full_beside(limit),
            peak: AtomicUsize::new(0),
            backpressure,
            clock,
            on_since: AtomicI64::new(OFF),
        }
    }

    fn push(&self, database: usize, entry: EntryBox) {
        let size = entry.borrow().memory();
        let mut entries = self.entries();
        entries.push_back((database, entry));
        // Counted under the mutex, so that the thread that empties the queue cannot miss it.
        let bytes = self.bytes.load(Ordering::Relaxed) + size;
        self.bytes.store(bytes, Ordering::Relaxed);
        self.peak.fetch_max(bytes, Ordering::Relaxed);
        if bytes >= self.full && !self.backpressure.is_on() {
            self.on_since.store(self.clock.monotonic_us(), Ordering::Relaxed);
            self.backpressure.begin();
        }
    }

    /// Takes the entry that has waited longest.
    pub(super) fn pop(&self) -> Option<(usize, EntryBox)> {
        // Mostly there is nothing, and the mutex belongs to the writers.
        if self.bytes.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut entries = self.entries();
        let taken = entries.pop_front()?;
        let bytes = self.bytes.load(Ordering::Relaxed) - taken.1.borrow().memory();
        self.bytes.store(bytes, Ordering::Relaxed);
        if bytes < self.full / 2 {
            self.open();
        }
        Some(taken)
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        let mut entries = self.entries();
        let forgotten = std::mem::take(&mut *entries);
        self.bytes.store(0, Ordering::Relaxed);
        self.open();
        drop(entries);
        drop(forgotten);
    }

    /// Since when writers wait, on the monotonic clock in microseconds.
    pub(super) fn on_since(&self) -> Option<i64> {
        let since = self.on_since.load(Ordering::Relaxed);
        (since != OFF).then_some(since)
    }

    /// The most bytes that it held.
    pub(super) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    fn open(&self) {
        if self.on_since.swap(OFF, Ordering::Relaxed) != OFF {
            self.backpressure.end();
        }
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<(usize, EntryBox)>> {
        self.entries.lock().expect("no critical section here panics")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::time::Clock;
    use engine::runtime::backpressure::Backpressure;
    use keyspace::{EntryBox, NewText, WalkSink};

    use super::{EntryQueue, FULL, FULL_LEAST, FULL_PART, Intake, full_beside};

    #[test]
    fn writers_wait_while_it_holds_too_much() {
        let backpressure: &'static Backpressure = Box::leak(Box::default());
        let queue = Arc::new(EntryQueue::new(backpressure, Clock::system(), 0));
        let intake = Intake(Arc::clone(&queue));
        let value = [b'x'; 60_000];
        let entry = EntryBox::text(b"k", NewText::from_client(&value), None);
        let mut count = 0;
        while !backpressure.is_on() {
            intake.save(3, entry.borrow());
            count += 1;
        }
        assert!((FULL / 65_536..=FULL / 60_000 + 1).contains(&count));
        assert!(queue.on_since().is_some() && queue.peak() >= FULL);
        let mut taken = 0;
        while backpressure.is_on() {
            let (database, entry) = queue.pop().expect("it is full");
            assert_eq!((database, entry.borrow().key()), (3, &b"k"[..]));
            taken += 1;
        }
        assert!((count / 2..=count / 2 + 2).contains(&taken), "{taken} of {count}");
        assert!(queue.on_since().is_none());
        while !backpressure.is_on() {
            intake.save(3, entry.borrow());
        }
        queue.clear();
        assert!(!backpressure.is_on() && queue.pop().is_none());
    }

    #[test]
    fn beside_a_small_limit_it_is_full_sooner() {
        assert_eq!(full_beside(0), FULL);
        assert_eq!(full_beside(1), FULL_LEAST);
        assert_eq!(full_beside(FULL_PART * (3 << 20)), 3 << 20);
        assert_eq!(full_beside(u64::MAX), FULL);
    }
}
