//! For how long something was so: all in all, and this time.
//!
//! Invariant: of threads that note the same change at once, one counts it.

use std::sync::atomic::{AtomicI64, Ordering};

/// A state that comes and goes.
#[derive(Default)]
pub struct Stopwatch {
    /// Since when, on the monotonic clock in microseconds; 0 if it is not so.
    since: AtomicI64,
    /// For how long it was, spells that are over.
    total_us: AtomicI64,
}

impl Stopwatch {
    /// Notes whether it is so.
    pub(crate) fn record(&self, is_so: bool, now_us: i64) {
        let since = self.since.load(Ordering::Relaxed);
        if is_so == (since != 0) {
            return;
        }
        let new = if is_so { now_us.max(1) } else { 0 };
        let swapped = self.since.compare_exchange(since, new, Ordering::Relaxed, Ordering::Relaxed);
        if swapped.is_ok() && !is_so {
            self.total_us.fetch_add((now_us - since).max(0), Ordering::Relaxed);
        }
    }

    /// For how many milliseconds it was: in all, and this time.
    pub fn ms(&self, now_us: i64) -> (i64, i64) {
        let present = match self.since.load(Ordering::Relaxed) {
            0 => 0,
            since => (now_us - since).max(0),
        };
        ((self.total_us.load(Ordering::Relaxed) + present) / 1000, present / 1000)
    }

    /// Begins again to count.
    pub fn reset(&self) {
        self.total_us.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Stopwatch;

    #[test]
    fn the_time_of_a_spell_is_counted_once() {
        let stopwatch = Stopwatch::default();
        stopwatch.record(true, 1_000_000);
        stopwatch.record(true, 2_000_000);
        assert_eq!(stopwatch.ms(3_000_000), (2000, 2000));
        stopwatch.record(false, 5_000_000);
        stopwatch.record(false, 9_000_000);
        assert_eq!(stopwatch.ms(9_000_000), (4000, 0));
    }
}
