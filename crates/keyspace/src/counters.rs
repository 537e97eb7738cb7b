//! Statistics of the keyspace: kept per lane by its one thread, summed by the reader.
//!
//! Invariant: a lane's counters are written by the thread that owns the lane, so load-add-store
//! loses nothing, and no two lanes share a cache line. Counters of lanes that never ran anything,
//! and of databases that a lane never changed, take no memory, and no time where they are summed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::sizes::{LaneSizes, Sizes};

/// All lanes.
pub struct Counters {
    lanes: Box<[OnceLock<Box<LaneCounters>>]>,
    /// A bit for each lane that ever counted.
    used_lanes: Box<[AtomicU64]>,
    /// For each group of databases whether any lane counts for one of them.
    used_groups: Box<[AtomicBool]>,
}

/// What one lane counted.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct LaneCounters {
    events: [AtomicI64; EVENTS],
    /// By physical database; each may be negative in one lane.
    first: Group,
    others: OnceLock<Groups>,
    /// Those behind the middle: of databases that are put together beside the others, if any ever
    /// was.
    beside: OnceLock<Groups>,
}

type Groups = Box<[OnceLock<Box<Group>>]>;

/// Databases whose counters come together.
const GROUP: usize = 16;

type Group = [DatabaseCounters; GROUP];

/// What one lane counted for one database.
#[derive(Default)]
pub(crate) struct DatabaseCounters {
    pub(crate) keys: AtomicI64,
    /// Keys with a deadline.
    pub(crate) volatile: AtomicI64,
    /// Keys with members that have deadlines.
    pub(crate) members_volatile: AtomicI64,
    /// Bytes in entries and tables.
    pub(crate) memory: AtomicI64,
    /// Keys by type and size.
    pub(crate) sizes: LaneSizes,
}

/// Things that are counted one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Lookups by reading commands that found their key.
    Hits,
    /// Lookups by reading commands that did not.
    Misses,
    /// Keys removed because their time was over.
    Expired,
    /// Those of them that were strings which no memcached client had read.
    ExpiredUnread,
    /// Keys removed because memory was short.
    Evicted,
    /// Members removed because their time was over.
    ExpiredMembers,
    /// Changes to the data set (`rdb_changes_since_last_save` counts these).
    Changes,
    /// Turns of the expiry cycle that ran out of time.
    ExpiryTimeouts,
    /// Entries that compaction moved.
    Moved,
    /// Entries that compaction looked at and left where they lay.
    Kept,
}

const EVENTS: usize = 10;

impl Counters {
    pub(crate) fn new(lanes: usize, databases: usize) -> Self {
        let words = lanes.div_ceil(u64::BITS as usize);
        let groups = databases.div_ceil(GROUP);
        Self {
            lanes: (0..lanes).map(|_| OnceLock::new()).collect(),
            used_lanes: (0..words).map(|_| AtomicU64::new(0)).collect(),
            used_groups: (0..groups).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// How often something happened since the last reset.
    #[must_use]
    pub fn total(&self, count: Count) -> u64 {
        let events = self.used_lanes().map(|lane| &lane.events[count as usize]);
        let total: i64 = events.map(|count| count.load(Ordering::Relaxed)).sum();
        u64::try_from(total).unwrap_or(0)
    }

    /// Starts a count again from zero. A count of another thread that races may survive.
    pub fn reset(&self, count: Count) {
        self.used_lanes().for_each(|lane| lane.events[count as usize].store(0, Ordering::Relaxed));
    }

    #[inline]
    pub(crate) fn lane(&self, lane: usize) -> &LaneCounters {
        self.lanes[lane].get_or_init(|| self.first_of(lane))
    }

    #[cold]
    fn first_of(&self, lane: usize) -> Box<LaneCounters> {
        let (word, bit) = (lane / u64::BITS as usize, lane % u64::BITS as usize);
        self.used_lanes[word].fetch_or(1 << bit, Ordering::Relaxed);
        Box::default()
    }

    /// The counters of all lanes that ever counted.
    fn used_lanes(&self) -> impl Iterator<Item = &LaneCounters> {
        self.used_lanes
            .iter()
            .zip(self.lanes.chunks(u64::BITS as usize))
            .flat_map(|(used, lanes)| {
                let mut left = used.load(Ordering::Relaxed);
                std::iter::from_fn(move || {
                    let lane = lanes.get(left.trailing_zeros() as usize)?;
                    left &= left - 1;
                    Some(lane)
                })
            })
            .filter_map(|lane| Some(&**lane.get()?))
    }

    /// What a lane counts for a physical database, to be bumped by its thread.
    #[inline]
    pub(crate) fn database<'a>(
        &'a self,
        lane: &'a LaneCounters,
        physical: usize,
    ) -> &'a DatabaseCounters {
        match lane.first.get(physical) {
            Some(counters) => counters,
            None => self.other(lane, physical),
        }
    }

    fn other<'a>(&'a self, lane: &'a LaneCounters, physical: usize) -> &'a DatabaseCounters {
        let group = physical / GROUP;
        let (groups, place) = self.place(lane, group);
        let groups = groups.get_or_init(|| (0..self.middle()).map(|_| OnceLock::new()).collect());
        &groups[place].get_or_init(|| {
            self.used_groups[group].store(true, Ordering::Release);
            Box::default()
        })[physical % GROUP]
    }

    /// Where a lane has a group.
    fn place<'a>(&self, lane: &'a LaneCounters, group: usize) -> (&'a OnceLock<Groups>, usize) {
        match group.checked_sub(self.middle()) {
            None => (&lane.others, group),
            Some(place) => (&lane.beside, place),
        }
    }

    fn middle(&self) -> usize {
        self.used_groups.len().div_ceil(2)
    }

    pub(crate) fn keys(&self, database: usize) -> usize {
        self.sum_clamped(database, |counters| &counters.keys)
    }

    pub(crate) fn volatile(&self, database: usize) -> usize {
        self.sum_clamped(database, |counters| &counters.volatile)
    }

    pub(crate) fn members_volatile(&self, database: usize) -> usize {
        self.sum_clamped(database, |counters| &counters.members_volatile)
    }

    pub(crate) fn memory(&self, database: usize) -> usize {
        self.sum_clamped(database, |counters| &counters.memory)
    }

    pub(crate) fn sizes(&self, physical: usize) -> Sizes {
        Sizes::sum(self.of_database(physical).map(|counters| &counters.sizes))
    }

    fn sum_clamped(&self, physical: usize, pick: fn(&DatabaseCounters) -> &AtomicI64) -> usize {
        let counters = self.of_database(physical);
        let sum: i64 = counters.map(|it| pick(it).load(Ordering::Relaxed)).sum();
        usize::try_from(sum).unwrap_or(0)
    }

    /// What each lane counted for a database, where there is anything.
    fn of_database(&self, physical: usize) -> impl Iterator<Item = &DatabaseCounters> {
        let group = physical / GROUP;
        let is_used = group == 0 || self.used_groups[group].load(Ordering::Acquire);
        self.used_lanes().filter(move |_| is_used).filter_map(move |lane| match group {
            0 => Some(&lane.first[physical]),
            _ => {
                let (groups, place) = self.place(lane, group);
                Some(&groups.get()?[place].get()?[physical % GROUP])
            }
        })
    }
}

impl LaneCounters {
    #[inline]
    pub(crate) fn count(&self, count: Count, by: i64) {
        bump(&self.events[count as usize], by);
    }
}

#[inline]
pub(crate) fn bump(counter: &AtomicI64, by: i64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}
