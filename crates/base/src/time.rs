//! The clock: the only place that reads the time.
//!
//! A `Clock` is handed down from the top, so that a test can own the time. Copies of one manual
//! clock share their time.

mod counter;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rustix::time::{ClockId, clock_gettime};

use counter::Counter;

/// Milliseconds since the Unix epoch.
pub type UnixMillis = i64;

/// A source of wall-clock and monotonic time.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System {
        /// The monotonic clock when this one was made.
        origin_us: i64,
        /// By how many microseconds the wall clock is said to be off.
        jump_us: Arc<AtomicI64>,
        /// What tells short times, if anything does.
        counter: Option<Arc<Counter>>,
    },
    /// Microseconds since the epoch, moved by hand.
    Manual(Arc<AtomicI64>),
}

/// A moment of a clock, and where the processor's counter stood then: from here on short times are
/// told sooner than the clock tells them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    us: i64,
    ticks: u64,
}

impl Moment {
    /// When the moment was, as `Clock::monotonic_us` tells.
    #[inline]
    pub fn us(self) -> i64 {
        self.us
    }
}

impl Clock {
    /// The clock of the machine.
    pub fn system() -> Clock {
        Clock(Source::System { origin_us: machine_us(), jump_us: Arc::default(), counter: None })
    }

    /// As `system`, with short times told by the processor's counter: where the kernel's own clock
    /// goes by that.
    pub fn counting() -> Clock {
        let counter = Counter::watch(machine_ns).map(Arc::new);
        Clock(Source::System { origin_us: machine_us(), jump_us: Arc::default(), counter })
    }

    /// A clock that stands at `start` until it is advanced, for tests.
    pub fn manual(start: UnixMillis) -> Clock {
        Clock(Source::Manual(Arc::new(AtomicI64::new(start.saturating_mul(1000)))))
    }

    /// Moves a manual clock by `millis`. Of the machine's clock, this one and its copies see the
    /// wall clock moved, as if somebody had set it.
    pub fn advance(&self, millis: i64) {
        let (Source::Manual(micros) | Source::System { jump_us: micros, .. }) = &self.0;
        micros.fetch_add(millis.saturating_mul(1000), Ordering::Relaxed);
    }

    /// Wall-clock milliseconds since the Unix epoch.
    #[inline]
    pub fn now_ms(&self) -> UnixMillis {
        self.now_us().div_euclid(1000)
    }

    /// Wall-clock microseconds since the Unix epoch.
    #[inline]
    pub fn now_us(&self) -> i64 {
        match &self.0 {
            Source::System { jump_us, .. } => {
                micros(ClockId::Realtime).saturating_add(jump_us.load(Ordering::Relaxed))
            }
            Source::Manual(micros) => micros.load(Ordering::Relaxed),
        }
    }

    /// Microseconds since some fixed moment, never going back: for measuring durations.
    #[inline]
    pub fn monotonic_us(&self) -> i64 {
        match &self.0 {
            Source::System { origin_us, .. } => machine_us() - origin_us,
            Source::Manual(micros) => micros.load(Ordering::Relaxed),
        }
    }

    /// This moment.
    #[inline]
    pub fn moment(&self) -> Moment {
        let us = self.monotonic_us();
        match &self.0 {
            Source::System { counter: Some(counter), .. } => {
                counter.learn(machine_ns);
                // A thread that is kept from going on here is late, and never ahead of the clock.
                Moment { us, ticks: counter::ticks() }
            }
            Source::System { counter: None, .. } | Source::Manual(_) => Moment { us, ticks: 0 },
        }
    }

    /// What `monotonic_us` tells now, a moment after another.
    #[inline]
    pub fn since(&self, moment: Moment) -> i64 {
        if let Source::System { counter: Some(counter), .. } = &self.0
            && let Some(passed) = counter.micros_since(moment.ticks)
        {
            return moment.us + passed;
        }
        self.monotonic_us()
    }
}

/// Year, month and day (UTC) of a number of days since 1970, by Howard Hinnant's `civil_from_days`.
#[must_use]
pub fn civil_date(days: i64) -> (i64, usize, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as usize, day)
}

/// The monotonic clock of the machine.
#[inline]
fn machine_us() -> i64 {
    micros(ClockId::Monotonic)
}

/// A clock of the machine. Asked for each batch of requests, so without the way by `Duration`.
#[inline]
fn micros(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}

/// The same in nanoseconds.
fn machine_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::Clock;

    #[test]
    fn the_system_clock_is_after_2020_and_does_not_go_back() {
        let clock = Clock::system();
        assert!(clock.now_ms() > 1_577_836_800_000);
        let first = clock.monotonic_us();
        assert!(clock.monotonic_us() >= first);
    }

    #[test]
    fn a_change_of_the_system_clock_moves_the_wall_clock_alone() {
        let clock = Clock::system();
        let (before, copy) = (clock.monotonic_us(), clock.clone());
        clock.advance(-100 * 365 * 86_400_000);
        assert!(copy.now_ms() < 0, "most of a century before 1970");
        assert!(copy.monotonic_us() >= before);
        clock.advance(200 * 365 * 86_400_000);
        assert!(copy.now_ms() > Clock::system().now_ms());
    }

    #[test]
    fn a_counting_clock_tells_the_same_time() {
        let clock = Clock::counting();
        let moment = clock.moment();
        // Twice as long as it takes to learn how fast the counter is.
        while clock.monotonic_us() - moment.us() < 200_000 {
            let moment = clock.moment();
            for _ in 0..100 {
                let (before, told, after) =
                    (clock.monotonic_us(), clock.since(moment), clock.monotonic_us());
                // A thousandth is more than it may be off by, and the moment may have been late.
                let late = (after - moment.us()) / 1000 + 1;
                assert!(told <= after + late, "{before} {told} {after}");
                assert!(clock.since(clock.moment()) >= before - late);
            }
        }
    }

    #[test]
    fn copies_of_a_manual_clock_share_its_time() {
        let clock = Clock::manual(5);
        let copy = clock.clone();
        clock.advance(37);
        assert_eq!(copy.now_ms(), 42);
        assert_eq!(copy.now_us(), 42_000);
        assert_eq!(copy.monotonic_us(), 42_000);
        let moment = copy.moment();
        clock.advance(1);
        assert_eq!((moment.us(), copy.since(moment)), (42_000, 43_000));
    }
}
