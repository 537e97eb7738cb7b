//! The clock that a waiting session is woken by, as the engine sees it.
//!
//! Invariant: an event loop owns the timers; a wait only says when it is to be looked at again.

use std::task::Context as TaskContext;
use std::time::Duration;

/// The one timer of a session.
pub trait Timer {
    /// Has the session woken when so much time is over, or before.
    fn wake_in(&mut self, cx: &mut TaskContext<'_>, left: Duration);
}

/// Whether a time of the monotonic clock has come, in microseconds; if not, the session is woken
/// when it has.
pub fn is_due(timer: &mut dyn Timer, cx: &mut TaskContext<'_>, now_us: i64, until_us: i64) -> bool {
    let left = u64::try_from(until_us.saturating_sub(now_us)).unwrap_or(0);
    if left > 0 {
        timer.wake_in(cx, Duration::from_micros(left));
    }
    left == 0
}

/// The time of the monotonic clock that is so far off, in microseconds.
pub fn after(now_us: i64, time: Duration) -> i64 {
    now_us.saturating_add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX))
}
