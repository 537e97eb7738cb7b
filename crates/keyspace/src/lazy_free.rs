//! What is big enough to be freed elsewhere than on a worker: a queue of it, and what frees it.
//!
//! Garbage is in use until it is freed. The task that is called when something comes frees all
//! there is; a thread that needs memory may free some of it, too. What only read phases hold any
//! more, since its key is gone, is garbage as well, and comes here when they end.
//!
//! Invariant: what was queued is freed once, wherever that happens, and counts as garbage until it
//! is. No byte counts twice.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock};

use crate::entry::{EntryBox, EntryTable};
use crate::keyspace::Keyspace;

/// From this many bytes on an entry is freed off the workers.
pub(crate) const BIG_ENTRY: usize = 256 * 1024;

/// Something to be dropped.
pub(crate) struct Garbage {
    content: GarbageContent,
    /// What the garbage takes, as far as that is known.
    bytes: usize,
    /// Keys that it was.
    keys: usize,
}

enum GarbageContent {
    /// A big value.
    Entry(EntryBox),
    /// All tables of a database that was flushed.
    Tables(Vec<EntryTable>),
    /// What a reader held that may be the last one to.
    Held(Box<dyn Send>),
}

/// The queue of what is to be freed.
#[derive(Default)]
pub struct LazyFreeQueue {
    queue: Mutex<VecDeque<Garbage>>,
    call: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Whether somebody was called, and has not yet seen the queue empty.
    is_called: AtomicBool,
    bytes: AtomicUsize,
    keys: AtomicUsize,
    /// Keys that were freed; a reset may come in between.
    freed: AtomicI64,
    /// Copies of big values that read phases have, beside their own: by phase.
    copies: Mutex<BTreeMap<u64, Vec<EntryBox>>>,
    /// Read phases that have any, now and ever.
    phases: AtomicUsize,
    phases_ever: AtomicU64,
}

/// Each copy is there twice: in its read phase, and here.
const CLONES_OF_COPY: usize = 2;

/// A read phase that has copies of big values.
pub(crate) struct CopiesHeld {
    keyspace: &'static Keyspace,
    phase: u64,
}

impl CopiesHeld {
    /// The phase is over; these are its own copies.
    pub(crate) fn release(self, own: impl Send + 'static) {
        self.keyspace.lazy_free_queue().release_copies(self.phase, own);
    }
}

impl Garbage {
    pub(crate) fn entry(entry: EntryBox) -> Self {
        let bytes = entry.borrow().memory();
        Self { content: GarbageContent::Entry(entry), bytes, keys: 1 }
    }

    pub(crate) fn held(held: Box<dyn Send>) -> Self {
        Self { content: GarbageContent::Held(held), bytes: 0, keys: 0 }
    }

    pub(crate) fn tables(tables: Vec<EntryTable>, bytes: usize) -> Self {
        let keys = tables.iter().map(EntryTable::len).sum();
        Self { content: GarbageContent::Tables(tables), bytes, keys }
    }

    /// Takes one table out, if there are several.
    fn split(&mut self) -> Option<Self> {
        let GarbageContent::Tables(tables) = &mut self.content else { return None };
        let last = if tables.len() > 1 { tables.pop()? } else { return None };
        let keys = last.len();
        let bytes = (self.bytes as u128 * keys as u128).checked_div(self.keys as u128);
        let bytes = bytes.map_or(0, |bytes| bytes as usize);
        self.bytes -= bytes;
        self.keys -= keys;
        Some(Self { content: GarbageContent::Tables(vec![last]), bytes, keys })
    }

    /// Whether some of it can be freed where at most so many bytes are.
    fn has_piece(&self, most: usize) -> bool {
        match &self.content {
            GarbageContent::Entry(_) => self.bytes <= most,
            GarbageContent::Tables(tables) => tables.len() > 1 || self.bytes <= most,
            GarbageContent::Held(_) => false,
        }
    }
}

/// What would be free if all these copies were gone, and those that their read phases have.
fn bytes_held(copies: &BTreeMap<u64, Vec<EntryBox>>) -> usize {
    let mut clones = HashMap::new();
    for copy in copies.values().flatten() {
        let Some(address) = copy.borrow().root_address() else { continue };
        clones.entry(address).or_insert((copy, 0)).1 += CLONES_OF_COPY;
    }
    clones.values().map(|(copy, clones)| copy.borrow().memory_of_clones(*clones)).sum()
}

impl LazyFreeQueue {
    /// Takes the function that is called when there is something to be freed, to do so by
    /// `free_next`; called once, before the first transaction.
    pub fn call_by(&self, call: impl Fn() + Send + Sync + 'static) {
        let first = self.call.set(Box::new(call)).is_ok();
        assert!(first, "one process has one reclaimer");
    }

    /// Queues something; with nobody to be called it is freed here.
    pub(crate) fn add(&self, garbage: Garbage) {
        let Some(call) = self.call.get() else { return drop(garbage.content) };
        self.bytes.fetch_add(garbage.bytes, Ordering::Relaxed);
        self.keys.fetch_add(garbage.keys, Ordering::Relaxed);
        let mut queue = self.queue();
        queue.push_back(garbage);
        let is_called = self.is_called.swap(true, Ordering::Relaxed);
        drop(queue);
        if !is_called {
            call();
        }
    }

    /// Frees a piece of at most so many bytes, or one table; whether there was one.
    pub fn free_some(&self, most: usize) -> bool {
        let mut queue = self.queue();
        let Some(at) = queue.iter().position(|garbage| garbage.has_piece(most)) else {
            return false;
        };
        let piece = match queue[at].split() {
            Some(piece) => piece,
            None => queue.remove(at).expect("it was found there"),
        };
        drop(queue);
        self.free(piece);
        true
    }

    /// Frees the next piece, for the thread that was called: once nothing is left a thread is
    /// called anew.
    pub fn free_next(&self) -> bool {
        let mut queue = self.queue();
        let Some(first) = queue.front_mut() else {
            self.is_called.store(false, Ordering::Relaxed);
            return false;
        };
        let piece = match first.split() {
            Some(piece) => Some(piece),
            None => queue.pop_front(),
        };
        drop(queue);
        piece.into_iter().for_each(|piece| self.free(piece));
        true
    }

    fn free(&self, piece: Garbage) {
        let Garbage { content, bytes, keys } = piece;
        match content {
            GarbageContent::Entry(entry) => drop(entry),
            GarbageContent::Tables(tables) => drop(tables),
            GarbageContent::Held(held) => drop(held),
        }
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.keys.fetch_sub(keys, Ordering::Relaxed);
        self.freed.fetch_add(keys as i64, Ordering::Relaxed);
        // A thread that shuts out others until it is freed looks at it again behind its own fence.
        fence(Ordering::SeqCst);
    }

    /// Bytes that are about to be freed: those that are queued, and those that only read phases
    /// hold.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        let held = if self.phases.load(Ordering::Acquire) > 0 { self.bytes_held() } else { 0 };
        self.bytes.load(Ordering::Relaxed) + held
    }

    #[cold]
    fn bytes_held(&self) -> usize {
        bytes_held(&self.copies())
    }

    /// Notes copies of big values that a read phase has until its end.
    pub(crate) fn hold_copies(
        keyspace: &'static Keyspace,
        copies: Vec<EntryBox>,
    ) -> Option<CopiesHeld> {
        if copies.is_empty() {
            return None;
        }
        let lazy_free_queue = keyspace.lazy_free_queue();
        let phase = lazy_free_queue.phases_ever.fetch_add(1, Ordering::Relaxed);
        lazy_free_queue.copies().insert(phase, copies);
        lazy_free_queue.phases.fetch_add(1, Ordering::Release);
        Some(CopiesHeld { keyspace, phase })
    }

    /// A read phase is over. Copies of what has no other holder are queued: until they are freed
    /// they count.
    fn release_copies(&self, phase: u64, own: impl Send + 'static) {
        let mut copies = self.copies();
        let before = bytes_held(&copies);
        let released = (copies.remove(&phase), own);
        let bytes = before.saturating_sub(bytes_held(&copies));
        self.phases.fetch_sub(1, Ordering::Release);
        if bytes > 0 {
            self.add(Garbage { content: GarbageContent::Held(Box::new(released)), bytes, keys: 0 });
            return;
        }
        // Without the lock: this read phase may be the last to hold something after all.
        drop(copies);
        drop(released);
    }

    fn copies(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<EntryBox>>> {
        self.copies.lock().expect("no critical section here panics")
    }

    /// Keys that are about to be freed, and those that were.
    #[must_use]
    pub fn keys(&self) -> (usize, u64) {
        let freed = self.freed.load(Ordering::Relaxed);
        (self.keys.load(Ordering::Relaxed), u64::try_from(freed).unwrap_or(0))
    }

    /// Counts what was freed from zero again.
    pub fn reset(&self) {
        self.freed.store(0, Ordering::Relaxed);
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Garbage>> {
        self.queue.lock().expect("no critical section here panics")
    }
}
