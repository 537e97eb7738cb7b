//! How long transactions were kept from data: by the holders of partition locks, and by the world's
//! stops.
//!
//! Invariant: a thread that reports reads the clock anyway, or is on a slow path; on the path of an
//! ordinary command `is_remarkable` is all there is, and it says no.

use std::sync::atomic::{AtomicU64, Ordering};

/// The records since the start or the last reset, in microseconds.
#[derive(Default)]
pub struct StallStats {
    longest_hold: AtomicU64,
    /// Holds at or above each of `HOLD_LIMITS_US`.
    long_holds: [AtomicU64; HOLD_LIMITS_US.len()],
    stops: AtomicU64,
    last_stop: AtomicU64,
    longest_stop: AtomicU64,
}

/// From how many microseconds on a hold is counted as long.
pub const HOLD_LIMITS_US: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// A copy of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallSnapshot {
    /// The longest time that one transaction held partitions.
    pub longest_hold_us: u64,
    /// How many held theirs at least as long as each of `HOLD_LIMITS_US`.
    pub long_holds: [u64; HOLD_LIMITS_US.len()],
    /// How often the world was stopped.
    pub stops: u64,
    /// How long the last stop took.
    pub last_stop_us: u64,
    /// How long the longest took.
    pub longest_stop_us: u64,
}

impl StallStats {
    /// Whether a hold of so many microseconds would change anything here.
    #[inline]
    #[must_use]
    pub fn is_remarkable(&self, micros: u64) -> bool {
        micros > self.longest_hold.load(Ordering::Relaxed) || micros >= HOLD_LIMITS_US[0]
    }

    /// Notes how long a transaction held its partitions.
    pub fn note_hold(&self, micros: u64) {
        self.longest_hold.fetch_max(micros, Ordering::Relaxed);
        let reached = HOLD_LIMITS_US.iter().take_while(|&&limit| micros >= limit).count();
        for count in &self.long_holds[..reached] {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn note_stop(&self, micros: u64) {
        self.stops.fetch_add(1, Ordering::Relaxed);
        self.last_stop.store(micros, Ordering::Relaxed);
        self.longest_stop.fetch_max(micros, Ordering::Relaxed);
    }

    /// The records of this moment.
    #[must_use]
    pub fn snapshot(&self) -> StallSnapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StallSnapshot {
            longest_hold_us: get(&self.longest_hold),
            long_holds: self.long_holds.each_ref().map(get),
            stops: get(&self.stops),
            last_stop_us: get(&self.last_stop),
            longest_stop_us: get(&self.longest_stop),
        }
    }

    /// Starts all records again from zero; one of a race with this may survive.
    pub fn reset(&self) {
        let Self { longest_hold, long_holds, stops, last_stop, longest_stop } = self;
        for counter in [longest_hold, stops, last_stop, longest_stop].into_iter().chain(long_holds)
        {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::StallStats;

    #[test]
    fn holds_are_counted_from_a_millisecond_on() {
        let stall_stats = StallStats::default();
        assert!(stall_stats.is_remarkable(1) && !stall_stats.is_remarkable(0));
        for micros in [500, 999, 1_000, 25_000, 20_000, 3_000_000] {
            stall_stats.note_hold(micros);
        }
        let snapshot = stall_stats.snapshot();
        assert_eq!((snapshot.longest_hold_us, snapshot.long_holds), (3_000_000, [4, 3, 1, 1]));
        assert!(stall_stats.is_remarkable(1_000), "a long one counts even when it is no record");
        stall_stats.reset();
        assert_eq!(stall_stats.snapshot(), StallStats::default().snapshot());
    }

    #[test]
    fn the_last_stop_and_the_longest_are_kept() {
        let stall_stats = StallStats::default();
        [30, 70, 50].into_iter().for_each(|micros| stall_stats.note_stop(micros));
        let snapshot = stall_stats.snapshot();
        assert_eq!((snapshot.stops, snapshot.last_stop_us, snapshot.longest_stop_us), (3, 50, 70));
    }
}
