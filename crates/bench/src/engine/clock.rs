//! The time of a run. Invariant: all threads of a run count from the same moment.

use std::time::{Duration, Instant};

/// Counts nanoseconds from the first request on.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunClock {
    start: Instant,
}

impl RunClock {
    /// A run that begins now.
    pub(super) fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Nanoseconds since the start: enough for five centuries.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// A duration in the clock's unit.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
