//! What memcached's `stats` counts, by the names that its clients and exporters read.
//!
//! Invariant: each lane of counters has one writer, its worker; what was counted before `stats
//! reset` is taken off when it is shown, so nobody writes another's lane.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use engine::runtime::counters;
use engine::runtime::lanes::MAX_WORKERS;
use smallvec::SmallVec;

/// Declares the counters with their names, in the order in which they are shown.
macro_rules! counters {
    ($($counter:ident = $name:literal,)*) => {
        /// One of the counters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Counter {
            $(#[doc = concat!("`", $name, "`")] $counter,)*
        }

        impl Counter {
            /// All of them.
            pub(crate) const ALL: &[(Self, &str)] = &[$((Self::$counter, $name),)*];
        }
    };
}

counters! {
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

const COUNT: usize = Counter::ALL.len();

/// What one request counts, before it is certain that it counts.
#[derive(Default)]
pub(crate) struct RequestCounters(SmallVec<[Counter; 4]>);

impl RequestCounters {
    /// Counts one.
    #[inline]
    pub(crate) fn add(&mut self, counter: Counter) {
        self.0.push(counter);
    }

    /// Whether nothing was counted.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts one where it counts at all.
    #[inline]
    pub(crate) fn add_if(&mut self, counts: bool, counter: Counter) {
        if counts {
            self.add(counter);
        }
    }
}

/// The counters of all workers.
pub(crate) struct Counters {
    lanes: Box<[Lane]>,
    /// What was counted when they were last reset.
    before: Mutex<[u64; COUNT]>,
}

#[derive(Default)]
#[repr(align(128))]
struct Lane([AtomicU64; COUNT]);

impl Default for Counters {
    fn default() -> Self {
        let lanes = (0..MAX_WORKERS).map(|_| Lane::default()).collect();
        Self { lanes, before: Mutex::new([0; COUNT]) }
    }
}

impl Counters {
    /// Books what a request of a worker counted.
    #[inline]
    pub(crate) fn add(&self, lane: usize, counted: &RequestCounters) {
        for counter in &counted.0 {
            counters::add(&self.lanes[lane].0[*counter as usize], 1);
        }
    }

    /// Books one.
    pub(crate) fn count(&self, lane: usize, counter: Counter) {
        counters::add(&self.lanes[lane].0[counter as usize], 1);
    }

    /// The counters since they were last reset, each with its name.
    pub(crate) fn sums_since_reset(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let before = *self.before();
        let sums = self.sums();
        Counter::ALL.iter().map(move |(counter, name)| {
            let index = *counter as usize;
            (*name, sums[index].wrapping_sub(before[index]))
        })
    }

    /// The one of this name.
    pub(crate) fn of(&self, name: &str) -> u64 {
        self.sums_since_reset().find(|(counter, _)| *counter == name).map_or(0, |(_, count)| count)
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
    use super::{Counter, Counters, RequestCounters};

    #[test]
    fn counters_are_summed_and_reset() {
        let counters = Counters::default();
        let sum = || {
            counters
                .sums_since_reset()
                .find(|(name, _)| *name == "get_hits")
                .map(|(_, count)| count)
        };
        let mut counted = RequestCounters::default();
        (0..9).for_each(|_| counted.add(Counter::GetHits));
        counters.add(0, &counted);
        counters.count(3, Counter::GetHits);
        assert_eq!(sum(), Some(10));
        counters.reset();
        assert_eq!(sum(), Some(0));
        counters.count(3, Counter::GetHits);
        assert_eq!(sum(), Some(1));
    }

    #[test]
    fn numbers_are_places() {
        for (index, (counter, _)) in Counter::ALL.iter().enumerate() {
            assert_eq!(*counter as usize, index);
        }
    }
}
