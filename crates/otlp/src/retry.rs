//! When an export is tried again: soon, then later and later, and not for ever.
//!
//! Invariants: a pause is never shorter than what the receiver asked for, nor than our own, so none
//! can have us ask without a pause; what is sent is kept for a bounded time.

use std::time::Duration;

/// The first pause; each further one may be twice as long.
const FIRST: Duration = Duration::from_secs(1);

/// No pause of our own is longer.
const LONGEST: Duration = Duration::from_secs(30);

/// What is sent is given up after so long.
pub const AGE_MAX: Duration = Duration::from_secs(60);

/// A receiver that asks for a longer pause is asked again after this.
pub const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// The attempts at one export.
#[derive(Debug, Default)]
pub struct Retries {
    count: u32,
}

impl Retries {
    /// The pause before the next attempt. `after` is what the receiver asked for, `chance` a number
    /// from 0 to 1, by which those that failed together do not come back together.
    pub fn pause(&mut self, after: Option<Duration>, chance: f64) -> Duration {
        let ceiling = FIRST.saturating_mul(1 << self.count.min(16)).min(LONGEST);
        self.count += 1;
        let own = ceiling.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
        own.max(after.unwrap_or_default().min(PAUSE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{PAUSE_MAX, Retries};

    #[test]
    fn pauses_double_up_to_a_limit() {
        let mut retries = Retries::default();
        let seconds: Vec<u64> = (0..8).map(|_| retries.pause(None, 1.0).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30, 30]);
        let mut retries = Retries::default();
        assert_eq!(retries.pause(None, 0.0), Duration::from_millis(500));
        assert_eq!(retries.pause(None, 0.5), Duration::from_millis(1500));
    }

    #[test]
    fn a_receiver_is_never_asked_before_it_said() {
        let mut retries = Retries::default();
        assert_eq!(retries.pause(Some(Duration::ZERO), 0.0), Duration::from_millis(500));
        for seconds in [7, 3600] {
            let after = Duration::from_secs(seconds);
            assert_eq!(retries.pause(Some(after), 0.0), after);
        }
        assert_eq!(retries.pause(Some(Duration::MAX), 0.0), PAUSE_MAX);
    }
}
