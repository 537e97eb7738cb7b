//! A partition: the tables of one part of the hash space, behind its lock.
//!
//! Invariant: `PartitionContent` is reached only through `content`, whose caller holds the lock or
//! the world; that is the one place where the compiler takes our word for exclusiveness.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{LockWord, ParkingLot};
use crate::entry::EntryTable;
use crate::prefix_index::PrefixIndex;
use crate::tables::Tables;
use crate::waiting::WaitingKeys;
use crate::watch::WatchedKeys;

/// Which partition: an index below [`crate::PARTITIONS`].
pub type PartitionIndex = u16;

/// A position in the journal; a replication offset is one and a shift.
pub type Lsn = u64;

/// What a partition's lock protects.
pub(crate) struct PartitionContent {
    pub(crate) tables: Tables,
    rare: Option<Box<PartitionExtras>>,
    /// The LSN of the last write to any key of the partition: what a reply that saw it must wait
    /// for.
    pub(crate) last_write: Lsn,
    /// The snapshot marks a fresh entry is born with, one bit per walk.
    pub(crate) marks: u8,
}

/// What most partitions do without.
#[derive(Default)]
struct PartitionExtras {
    waiting: WaitingKeys,
    watched: WatchedKeys,
    prefixes: PrefixIndex,
}

/// One part of the hash space.
#[repr(align(64))]
pub(crate) struct Partition {
    pub(crate) word: LockWord,
    /// Entries in all databases; a hint for readers without the lock.
    population: AtomicU32,
    /// Of them those with a deadline, at most; a hint as well.
    volatile: AtomicU32,
    content: UnsafeCell<PartitionContent>,
}

const _: () = assert!(
    size_of::<Partition>() == 64 || cfg!(feature = "shuttle"),
    "there are 16,384 of these, one to a cache line"
);

// SAFETY: the content is only touched by the holder of the lock or of the world (`content`), and
// what it owns, entries and tables, may move between threads.
unsafe impl Sync for Partition {}
// SAFETY: as above.
unsafe impl Send for Partition {}

impl PartitionContent {
    /// The table of a physical database, if it has keys here.
    #[inline]
    pub(crate) fn table(&self, database: usize) -> Option<&EntryTable> {
        self.tables.get(database)
    }

    /// The table of a physical database that has keys here.
    #[inline]
    pub(crate) fn table_mut(&mut self, database: usize) -> &mut EntryTable {
        self.tables.get_mut(database).expect("a place is in a table")
    }

    /// The waiters for keys here, if there are any.
    #[inline]
    pub(crate) fn waiting(&self) -> Option<&WaitingKeys> {
        self.rare.as_ref().map(|rare| &rare.waiting).filter(|waiting| !waiting.is_empty())
    }

    /// The queues of clients that wait for keys here.
    pub(crate) fn waiting_mut(&mut self) -> &mut WaitingKeys {
        &mut self.rare.get_or_insert_default().waiting
    }

    /// Gives back the room for what most partitions do without, where nothing is there any more.
    pub(crate) fn release_rare(&mut self) {
        let Some(rare) = &self.rare else { return };
        if rare.waiting.is_empty() && rare.watched.is_empty() && rare.prefixes.is_empty() {
            self.rare = None;
        }
    }

    /// The index of declared prefixes, if keys here have any.
    pub(crate) fn prefixes(&self) -> Option<&PrefixIndex> {
        self.rare.as_ref().map(|rare| &rare.prefixes).filter(|prefixes| !prefixes.is_empty())
    }

    /// The index of declared prefixes.
    pub(crate) fn prefixes_mut(&mut self) -> &mut PrefixIndex {
        &mut self.rare.get_or_insert_default().prefixes
    }

    /// Which keys here are watched, if any are.
    pub(crate) fn watched(&self) -> Option<&WatchedKeys> {
        self.rare.as_ref().map(|rare| &rare.watched).filter(|watched| !watched.is_empty())
    }

    /// The watched keys here.
    pub(crate) fn watched_mut(&mut self) -> &mut WatchedKeys {
        &mut self.rare.get_or_insert_default().watched
    }
}

impl Partition {
    pub(crate) fn new() -> Self {
        Self {
            word: LockWord::new(),
            population: AtomicU32::new(0),
            volatile: AtomicU32::new(0),
            content: UnsafeCell::new(PartitionContent {
                tables: Tables::new(),
                rare: None,
                last_write: 0,
                marks: 0,
            }),
        }
    }

    /// The content, for `Acquisition` to borrow from: shared or exclusive as the acquisition is.
    #[inline]
    pub(crate) fn content(&self) -> *mut PartitionContent {
        self.content.get()
    }

    /// Looks at the content if the lock is free this instant: for hints that may be skipped. The
    /// caller is inside its turnstile, so that the world is nobody's.
    #[inline]
    pub(crate) fn try_peek(
        &self,
        lot: &ParkingLot,
        index: PartitionIndex,
        look: impl FnOnce(&PartitionContent),
    ) {
        if self.word.try_acquire() {
            // SAFETY: the lock is held until after the last use, the world is nobody's, and `look`
            // cannot keep the borrow.
            look(unsafe { &*self.content.get() });
            self.word.release(lot, index);
        }
    }

    /// Entries in all databases.
    pub(crate) fn population(&self) -> usize {
        self.population.load(Ordering::Relaxed) as usize
    }

    /// Counts entries that came or went; how many there were and are.
    pub(crate) fn add_population(&self, by: i32) -> (u32, u32) {
        let before = self.population.load(Ordering::Relaxed);
        let population = before.wrapping_add_signed(by);
        self.population.store(population, Ordering::Relaxed);
        // Of what a flush takes away nobody knows how many had a deadline.
        if self.volatile.load(Ordering::Relaxed) > population {
            self.volatile.store(population, Ordering::Relaxed);
        }
        (before, population)
    }

    /// Entries in all databases that have a deadline.
    pub(crate) fn volatile(&self) -> usize {
        self.volatile.load(Ordering::Relaxed) as usize
    }

    /// Counts deadlines that came or went; called by the holder after a change.
    pub(crate) fn add_volatile(&self, by: i32) {
        let volatile = self.volatile.load(Ordering::Relaxed).saturating_add_signed(by);
        self.volatile.store(volatile, Ordering::Relaxed);
    }
}
