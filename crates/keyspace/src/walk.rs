//! Walks: the data set as it was at one instant, gathered while it goes on changing.
//!
//! A walk (a save, a rewrite, a full sync, a move of slots) begins at a cut, with the world
//! stopped, and then visits every partition, or some, at leisure. Each entry and each partition
//! have one mark per walk. At the cut the partitions' marks are flipped, so every entry that is
//! there differs from its partition, as one that has not been saved. What is made later is born
//! with its partition's mark. The only way to a mutable entry (`Mutation::before_change`) saves
//! first whatever differs, and a database that is flushed is handed over with its entries. So each
//! walk is given every entry of the cut exactly once, as it was then.
//!
//! A walk that is given up goes on without saving until all marks agree again: only then may its
//! bit be used by another.
//!
//! Invariant: with no walk attached all marks of a partition's entries equal the partition's.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use crate::entry::{EntryRef, EntryTable};
use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lock::acquisition::Acquisition;
use crate::lock::partition::PartitionIndex;

/// How many walks may run at once: one header bit each.
pub const WALKS: usize = 3;

/// Takes what transactions are about to change. Called under the lock of the entry's partition: a
/// sink may copy or share, never wait or fail.
pub trait WalkSink: Send + Sync {
    /// The entry as it was at the walk's cut, in its physical database.
    fn save(&self, database: usize, entry: EntryRef<'_>);
}

/// The walks that are attached.
#[derive(Default)]
pub(crate) struct Walks {
    places: RwLock<[Option<Arc<Walk>>; WALKS]>,
}

/// A walk from its cut on, shared by the threads that visit partitions; each partition
/// belongs to the thread that took its number.
pub struct Walk {
    keyspace: &'static Keyspace,
    place: usize,
    sink: Box<dyn WalkSink>,
    /// The logical database of each physical one at the cut.
    names: Box<[usize]>,
    given_up: AtomicBool,
    /// The partitions that it visits.
    partitions: Box<[PartitionIndex]>,
    next: AtomicUsize,
    visited: AtomicUsize,
    flushed: Mutex<VecDeque<Arc<FlushedTables>>>,
}

/// The tables of a database that was flushed while walks went on.
pub(crate) struct FlushedTables {
    database: usize,
    /// With the marks of their partitions at that time.
    tables: Vec<(u8, EntryTable)>,
}

impl Walks {
    /// Saves an entry for every walk whose bit is set in `missing`.
    #[cold]
    pub(crate) fn save(&self, missing: u8, database: usize, entry: EntryRef<'_>) {
        let places = self.places.read().expect("no sink panics");
        for walk in places.iter().flatten() {
            if missing & walk.bit() != 0 && walk.wants(database) {
                walk.sink.save(database, entry);
            }
        }
    }

    /// Leaves a flushed database to the walks that go on; gives it back if there is none.
    pub(crate) fn keep_flushed(
        &self,
        database: usize,
        tables: Vec<(u8, EntryTable)>,
    ) -> Option<Vec<EntryTable>> {
        let places = self.places.read().expect("no sink panics");
        let mut walks = places.iter().flatten().filter(|walk| !walk.is_given_up()).peekable();
        if walks.peek().is_none() {
            return Some(tables.into_iter().map(|(_, table)| table).collect());
        }
        let flushed = Arc::new(FlushedTables { database, tables });
        walks.for_each(|walk| walk.flushed().push_back(Arc::clone(&flushed)));
        None
    }
}

impl Walk {
    /// Begins a walk whose cut is now; the world must be held. `None` if as many as possible are
    /// under way.
    #[must_use]
    pub fn begin(world: &mut Acquisition, sink: Box<dyn WalkSink>) -> Option<Arc<Self>> {
        Self::begin_of(world, sink, (0..PARTITIONS as PartitionIndex).collect())
    }

    /// As `begin`, of these partitions alone, each named once: nothing of the others is touched.
    #[must_use]
    pub fn begin_of(
        world: &mut Acquisition,
        sink: Box<dyn WalkSink>,
        partitions: Box<[PartitionIndex]>,
    ) -> Option<Arc<Self>> {
        assert!(world.wants_world() && world.is_complete(), "a cut is made with the world stopped");
        let keyspace = world.keyspace();
        let mut places = keyspace.walks().places.write().expect("no sink panics");
        let place = places.iter().position(Option::is_none)?;
        let mut names = vec![0; keyspace.databases().count_all()];
        for logical in 0..names.len() {
            names[keyspace.physical(logical)] = logical;
        }
        let walk = Arc::new(Self {
            keyspace,
            place,
            sink,
            names: names.into(),
            given_up: AtomicBool::new(false),
            partitions,
            next: AtomicUsize::new(0),
            visited: AtomicUsize::new(0),
            flushed: Mutex::default(),
        });
        places[place] = Some(Arc::clone(&walk));
        for &index in &walk.partitions {
            world.content_mut(index).expect("the world is held").marks ^= walk.bit();
        }
        Some(walk)
    }

    /// The name that a physical database had at the cut.
    #[must_use]
    pub fn name(&self, physical: usize) -> usize {
        self.names[physical]
    }

    /// The next partition to be visited, for one thread alone.
    pub fn next_partition(&self) -> Option<PartitionIndex> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        self.partitions.get(next).copied()
    }

    /// Visits entries of a held partition from a place on, (physical database, position), at least
    /// `at_least` of them, and saves those that were not yet. Returns where to go on; with `None`
    /// the partition is done.
    pub fn visit(
        &self,
        grant: &Acquisition,
        partition: PartitionIndex,
        from: (usize, u64),
        at_least: usize,
        mut save: impl FnMut(usize, EntryRef<'_>),
    ) -> Option<(usize, u64)> {
        let content = grant.content(partition).expect("a visit holds its partition");
        let (database, position) = from;
        let visit = |entry: EntryRef<'_>| {
            if (entry.marks() ^ content.marks) & self.bit() != 0 {
                if self.wants(database) {
                    save(database, entry);
                }
                entry.set_marks(entry.marks() ^ self.bit());
            }
        };
        let table = content.table(database);
        let next = table.and_then(|table| table.walk(position, at_least, visit));
        let next = content.tables.next_of_walk(database, next);
        if next.is_none() {
            self.visited.fetch_add(1, Ordering::AcqRel);
        }
        next
    }

    /// Saves what a flush took away, one flush at a time; `false` if there is nothing. No lock is
    /// held.
    pub fn visit_flushed(&self, mut save: impl FnMut(usize, EntryRef<'_>)) -> bool {
        let Some(flushed) = self.flushed().pop_front() else { return false };
        for (marks, table) in &flushed.tables {
            let visit = |entry: EntryRef<'_>| {
                // These marks change no more: each walk comes here once.
                if (entry.marks() ^ marks) & self.bit() != 0 && self.wants(flushed.database) {
                    save(flushed.database, entry);
                }
            };
            let rest = table.walk(0, usize::MAX, visit);
            debug_assert_eq!(rest, None, "all of it fits one step");
        }
        true
    }

    /// Gives the walk up: nothing is saved from here on. All partitions are to be visited again,
    /// by one thread, once no other does.
    pub fn abort(&self) {
        self.given_up.store(true, Ordering::Release);
        let flushed = std::mem::take(&mut *self.flushed());
        drop(flushed);
    }

    /// Whether what a physical database has is to be saved: not what is put together beside the
    /// data that are served.
    fn wants(&self, physical: usize) -> bool {
        !self.is_given_up() && self.names[physical] < self.keyspace.database_count()
    }

    /// Whether the walk was given up.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Begins the round that follows giving up.
    pub fn start_over(&self) {
        debug_assert!(self.is_given_up(), "what was saved is not saved again");
        self.next.store(0, Ordering::Relaxed);
        self.visited.store(0, Ordering::Release);
    }

    /// Ends the walk once all partitions are visited: from here on others may use its bit.
    pub fn end(&self) {
        let visited = self.visited.load(Ordering::Acquire);
        assert_eq!(visited, self.partitions.len(), "a mark that differs would fool the next walk");
        let mut places = self.keyspace.walks().places.write().expect("no sink panics");
        places[self.place] = None;
    }

    fn bit(&self) -> u8 {
        1 << self.place
    }

    fn flushed(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<FlushedTables>>> {
        self.flushed.lock().expect("no critical section here panics")
    }
}
