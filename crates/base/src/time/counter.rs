//! Short times by the processor's counter of ticks. To read it takes less than half as long as the
//! system's clock, which goes by it too, where the kernel trusts it.
//!
//! Invariant: the counter is asked how long ago a moment was that the system's clock gave, and only
//! for a second or so. So what it is off by never adds up, whatever becomes of the counter.

use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_arch = "x86_64")]
mod ffi;

#[cfg(target_arch = "x86_64")]
pub(super) use ffi::ticks;

/// No other processor is asked.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn ticks() -> u64 {
    0
}

/// So long the counter is watched before it is gone by.
const WATCHED_NS: i64 = 100_000_000;

/// Ticks between which the system's clock is taken to have been read at one time: few microseconds,
/// which a ten-thousandth of the watch is more than.
const TOGETHER: u64 = 10_000;

/// Longer ago, and the system is asked: over a second.
const LONG_AGO: u64 = 1 << 32;

/// How fast the counter is.
#[derive(Debug)]
pub(super) struct Counter {
    /// When the watch began: nanoseconds of the system's clock, and ticks.
    began: (i64, u64),
    /// Microseconds to a tick, with 32 bits behind the point; 0 while that is not known.
    rate: AtomicU64,
}

impl Counter {
    /// Begins to watch the counter beside the system's clock; `None` where there is none.
    pub(super) fn watch(clock_ns: impl Fn() -> i64) -> Option<Self> {
        let began = read_together(clock_ns).filter(|(_, ticks)| *ticks > 0)?;
        Some(Self { began, rate: AtomicU64::new(0) })
    }

    /// Finds out how fast it is, once it was watched for long enough.
    #[inline]
    pub(super) fn learn(&self, clock_ns: impl Fn() -> i64) {
        if self.rate.load(Ordering::Relaxed) == 0 {
            self.measure(clock_ns);
        }
    }

    #[cold]
    fn measure(&self, clock_ns: impl Fn() -> i64) {
        if clock_ns() - self.began.0 < WATCHED_NS {
            return;
        }
        if let Some((now_ns, ticks)) = read_together(clock_ns) {
            let rate = rate(now_ns - self.began.0, ticks.wrapping_sub(self.began.1));
            self.rate.store(rate, Ordering::Relaxed);
        }
    }

    /// The microseconds since it had come so far; `None` if it cannot tell.
    #[inline]
    pub(super) fn micros_since(&self, then: u64) -> Option<i64> {
        micros(self.rate.load(Ordering::Relaxed), ticks().wrapping_sub(then))
    }
}

/// What so many nanoseconds and ticks make of a rate.
fn rate(passed_ns: i64, ticks: u64) -> u64 {
    let micros = (u128::from(passed_ns.unsigned_abs()) << 32) / 1000;
    micros.checked_div(u128::from(ticks)).and_then(|rate| u64::try_from(rate).ok()).unwrap_or(0)
}

/// The microseconds that so many ticks took.
#[inline]
fn micros(rate: u64, ticks: u64) -> Option<i64> {
    if rate == 0 || ticks > LONG_AGO {
        return None;
    }
    // A tick is less than a microsecond, or nobody would count by it.
    Some((ticks.saturating_mul(rate) >> 32) as i64)
}

/// The system's clock and the counter at one time; `None` if the thread is kept from reading both.
fn read_together(clock_ns: impl Fn() -> i64) -> Option<(i64, u64)> {
    const ATTEMPTS: usize = 8;
    (0..ATTEMPTS).find_map(|_| {
        let before = ticks();
        let now_ns = clock_ns();
        let after = ticks();
        (after.wrapping_sub(before) < TOGETHER).then_some((now_ns, after))
    })
}

#[cfg(test)]
mod tests {
    use super::{Counter, LONG_AGO, WATCHED_NS, micros, rate};

    #[test]
    fn ticks_become_microseconds() {
        for per_micro in [1_u64, 24, 1000, 2999, 5300] {
            let rate = rate(WATCHED_NS, per_micro * WATCHED_NS as u64 / 1000);
            for passed in [0, 1, 7, 200, 600_000] {
                let found = micros(rate, passed * per_micro).unwrap();
                assert!((found - passed as i64).abs() <= 1, "{passed} at {per_micro}: {found}");
            }
        }
    }

    #[test]
    fn what_the_counter_cannot_tell_it_does_not() {
        assert_eq!(rate(WATCHED_NS, 0), 0, "it stands still");
        assert_eq!(micros(0, 1), None, "how fast it is nobody knows");
        let rate = rate(WATCHED_NS, 300_000_000);
        assert_eq!(micros(rate, LONG_AGO + 1), None);
        assert_eq!(micros(rate, 5_u64.wrapping_sub(6)), None, "it went back");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_counter_is_relied_on_once_it_was_watched_for_long_enough() {
        let (times, now) = ([0, WATCHED_NS - 1, WATCHED_NS], std::cell::Cell::new(0));
        let clock = || times[now.get()];
        let counter = std::iter::repeat_with(|| Counter::watch(clock)).flatten().next().unwrap();
        now.set(1);
        counter.learn(clock);
        assert_eq!(counter.micros_since(super::ticks()), None);
        now.set(2);
        // The machine may be so busy that it has to be tried again.
        while counter.micros_since(super::ticks()).is_none() {
            counter.learn(clock);
        }
    }
}
