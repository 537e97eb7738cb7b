//! Statistics of the keyspace: kept per lane by its one thread, summed by whoever reads.
//!
//! Invariant: a lane's counters are written by the thread that owns the lane, so load-add-store
//! loses nothing, and no two lanes share a cache line.

use std::sync::atomic::{AtomicI64, Ordering};

/// All lanes.
pub struct Counters {
    lanes: Box<[LaneCounters]>,
}

/// What one lane counted.
#[repr(align(128))]
pub(crate) struct LaneCounters {
    events: [AtomicI64; EVENTS],
    /// By physical database; each may be negative in one lane.
    databases: Box<[DatabaseCounters]>,
}

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
        let lane = |_| LaneCounters {
            events: [const { AtomicI64::new(0) }; EVENTS],
            databases: (0..databases).map(|_| DatabaseCounters::default()).collect(),
        };
        Self { lanes: (0..lanes).map(lane).collect() }
    }

    /// How often something happened since the last reset.
    #[must_use]
    pub fn total(&self, count: Count) -> u64 {
        u64::try_from(self.sum(|lane| &lane.events[count as usize])).unwrap_or(0)
    }

    /// Starts a count again from zero. A count of another thread that races may survive.
    pub fn reset(&self, count: Count) {
        self.lanes.iter().for_each(|lane| lane.events[count as usize].store(0, Ordering::Relaxed));
    }

    pub(crate) fn lane(&self, lane: usize) -> &LaneCounters {
        &self.lanes[lane]
    }

    pub(crate) fn keys(&self, database: usize) -> usize {
        self.sum_clamped(|lane| &lane.databases[database].keys)
    }

    pub(crate) fn volatile(&self, database: usize) -> usize {
        self.sum_clamped(|lane| &lane.databases[database].volatile)
    }

    pub(crate) fn members_volatile(&self, database: usize) -> usize {
        self.sum_clamped(|lane| &lane.databases[database].members_volatile)
    }

    pub(crate) fn memory(&self, database: usize) -> usize {
        self.sum_clamped(|lane| &lane.databases[database].memory)
    }

    fn sum_clamped(&self, pick: impl Fn(&LaneCounters) -> &AtomicI64) -> usize {
        usize::try_from(self.sum(pick)).unwrap_or(0)
    }

    fn sum(&self, pick: impl Fn(&LaneCounters) -> &AtomicI64) -> i64 {
        self.lanes.iter().map(|lane| pick(lane).load(Ordering::Relaxed)).sum()
    }
}

impl LaneCounters {
    #[inline]
    pub(crate) fn count(&self, count: Count, by: i64) {
        bump(&self.events[count as usize], by);
    }

    /// The counters of a physical database, to be bumped.
    #[inline]
    pub(crate) fn database(&self, physical: usize) -> &DatabaseCounters {
        &self.databases[physical]
    }
}

#[inline]
pub(crate) fn bump(counter: &AtomicI64, by: i64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}
