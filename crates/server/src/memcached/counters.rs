//! What memcached's `stats` counts, by the names that its clients and exporters read.
//!
//! Invariant: each lane of counters has one writer, its worker; what was counted before `stats
//! reset` is taken off when it is told, so nobody writes another's lane.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use engine::runtime::counters;
use engine::runtime::lanes::MAX_WORKERS;
use smallvec::SmallVec;

/// Declares the figures with their names, in the order in which they are told.
macro_rules! figures {
    ($($figure:ident = $name:literal,)*) => {
        /// One of the figures.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Figure {
            $(#[doc = concat!("`", $name, "`")] $figure,)*
        }

        impl Figure {
            /// All of them.
            pub(crate) const ALL: &[(Self, &str)] = &[$((Self::$figure, $name),)*];
        }
    };
}

figures! {
    CmdGet = "cmd_get",
    CmdSet = "cmd_set",
    CmdFlush = "cmd_flush",
    CmdTouch = "cmd_touch",
    CmdMeta = "cmd_meta",
    TotalItems = "total_items",
    GetHits = "get_hits",
    GetMisses = "get_misses",
    GetExpired = "get_expired",
    DeleteMisses = "delete_misses",
    DeleteHits = "delete_hits",
    IncrMisses = "incr_misses",
    IncrHits = "incr_hits",
    DecrMisses = "decr_misses",
    DecrHits = "decr_hits",
    CasMisses = "cas_misses",
    CasHits = "cas_hits",
    CasBadValue = "cas_badval",
    TouchHits = "touch_hits",
    TouchMisses = "touch_misses",
    StoreTooLarge = "store_too_large",
    StoreNoMemory = "store_no_memory",
    AuthCommands = "auth_cmds",
    AuthErrors = "auth_errors",
    EvictedUnfetched = "evicted_unfetched",
    EvictedNonzero = "evicted_nonzero",
    LogWatcherSkipped = "log_watcher_skipped",
    LogWatcherSent = "log_watcher_sent",
}

const COUNT: usize = Figure::ALL.len();

/// What one request counts, before it is certain that it counts.
#[derive(Default)]
pub(crate) struct Tally(SmallVec<[Figure; 4]>);

impl Tally {
    /// Counts one.
    #[inline]
    pub(crate) fn add(&mut self, figure: Figure) {
        self.0.push(figure);
    }

    /// Whether nothing was counted.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts one where it counts at all.
    #[inline]
    pub(crate) fn add_if(&mut self, counts: bool, figure: Figure) {
        if counts {
            self.add(figure);
        }
    }
}

/// The figures of all workers.
pub(crate) struct Figures {
    lanes: Box<[Lane]>,
    /// What was counted when they were last reset.
    before: Mutex<[u64; COUNT]>,
}

#[derive(Default)]
#[repr(align(128))]
struct Lane([AtomicU64; COUNT]);

impl Default for Figures {
    fn default() -> Self {
        let lanes = (0..MAX_WORKERS).map(|_| Lane::default()).collect();
        Self { lanes, before: Mutex::new([0; COUNT]) }
    }
}

impl Figures {
    /// Books what a request of a worker counted.
    #[inline]
    pub(crate) fn book(&self, lane: usize, tally: &Tally) {
        for figure in &tally.0 {
            counters::add(&self.lanes[lane].0[*figure as usize], 1);
        }
    }

    /// Books one.
    pub(crate) fn count(&self, lane: usize, figure: Figure) {
        counters::add(&self.lanes[lane].0[figure as usize], 1);
    }

    /// The figures since they were last reset, each with its name.
    pub(crate) fn told(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let before = *self.before();
        let sums = self.sums();
        Figure::ALL.iter().map(move |(figure, name)| {
            let index = *figure as usize;
            (*name, sums[index].wrapping_sub(before[index]))
        })
    }

    /// The one of this name.
    pub(crate) fn of(&self, name: &str) -> u64 {
        self.told().find(|(figure, _)| *figure == name).map_or(0, |(_, count)| count)
    }

    /// Begins again at zero.
    pub(crate) fn reset(&self) {
        *self.before() = self.sums();
    }

    fn sums(&self) -> [u64; COUNT] {
        let mut sums = [0; COUNT];
        for lane in &self.lanes {
            for (sum, counter) in sums.iter_mut().zip(&lane.0) {
                *sum += counter.load(Ordering::Relaxed);
            }
        }
        sums
    }

    fn before(&self) -> MutexGuard<'_, [u64; COUNT]> {
        self.before.lock().expect("no critical section here panics")
    }
}

#[cfg(test)]
mod tests {
    use super::{Figure, Figures, Tally};

    #[test]
    fn figures_are_summed_and_reset() {
        let figures = Figures::default();
        let told = || figures.told().find(|(name, _)| *name == "get_hits").map(|(_, count)| count);
        let mut tally = Tally::default();
        (0..9).for_each(|_| tally.add(Figure::GetHits));
        figures.book(0, &tally);
        figures.count(3, Figure::GetHits);
        assert_eq!(told(), Some(10));
        figures.reset();
        assert_eq!(told(), Some(0));
        figures.count(3, Figure::GetHits);
        assert_eq!(told(), Some(1));
    }

    #[test]
    fn numbers_are_places() {
        for (index, (figure, _)) in Figure::ALL.iter().enumerate() {
            assert_eq!(*figure as usize, index);
        }
    }
}
