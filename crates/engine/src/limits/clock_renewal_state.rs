//! How far the renewal of access clocks has got.
//!
//! Invariant: a pass begins every few hours, and after each jump of the wall clock.

use std::sync::Mutex;

use base::time::UnixMillis;
use keyspace::ClockJump;

/// Between two beginnings of a pass; a clock must last for that, and for the pass.
const PERIOD_MS: i64 = 6 * 3_600_000;

/// What the wall clock passes over is a jump from here on. Shorter ones every clock has room for.
const JUMP_MS: i64 = 3_600_000;

/// How far it has got.
#[derive(Default)]
pub(crate) struct ClockRenewal(pub(crate) Mutex<ClockRenewalState>);

#[derive(Default)]
pub(crate) struct ClockRenewalState {
    /// The wall clock at the last turn, once there was one, and the monotonic one.
    pub(crate) seen: Option<(UnixMillis, i64)>,
    /// When the latest pass began.
    pub(crate) began: UnixMillis,
    /// The partition that the pass under way is at, and the place there.
    pub(crate) pass: Option<(usize, (usize, u64))>,
    /// What the pass is for, if that is a jump.
    pub(crate) clock_jump: Option<ClockJump>,
}

impl ClockRenewalState {
    /// Looks at the clock, and at the monotonic one; begins a pass where one is due.
    pub(crate) fn note_time(&mut self, now: UnixMillis, steady_ms: i64) {
        let (seen, steady_seen) = self.seen.replace((now, steady_ms)).unwrap_or_else(|| {
            self.began = now;
            (now, steady_ms)
        });
        // The jump came at some moment since the last turn.
        let passed = steady_ms - steady_seen;
        if now - seen - passed > JUMP_MS {
            // A pass that is not over is made again, for both jumps.
            let before = self.clock_jump.map_or(seen + passed, |jump| jump.before);
            self.clock_jump = Some(ClockJump { before, after: now - passed });
        } else if self.pass.is_some() || (0..PERIOD_MS).contains(&(now - self.began)) {
            return;
        }
        self.began = now;
        self.pass = Some((0, (0, 0)));
    }

    /// The pass is over.
    pub(crate) fn finish(&mut self) {
        self.pass = None;
        self.clock_jump = None;
    }
}

#[cfg(test)]
mod tests {
    use keyspace::ClockJump;

    use super::{ClockRenewalState, JUMP_MS, PERIOD_MS};

    #[test]
    fn a_pass_begins_every_few_hours_and_after_each_jump() {
        let (mut state, mut now) = (ClockRenewalState::default(), 1_000_000_000);
        let mut passes = Vec::new();
        state.note_time(now, 0);
        assert_eq!(state.pass, None, "nothing is old at the start");
        for minute in 0..=2 * PERIOD_MS / 60_000 {
            state.note_time(now + minute * 60_000, minute * 60_000);
            if state.pass.is_some() {
                passes.push(minute);
                assert_eq!(state.clock_jump, None);
                state.finish();
            }
        }
        assert_eq!(passes, [PERIOD_MS / 60_000, 2 * PERIOD_MS / 60_000]);
        now += 2 * PERIOD_MS;
        let mut steady = 2 * PERIOD_MS;
        for _ in 0..2 {
            // Half a second between turns, in which the clock jumps.
            (now, steady) = (now + JUMP_MS + 600, steady + 500);
            state.note_time(now, steady);
            assert!(state.pass.is_some());
        }
        let before = now - 2 * (JUMP_MS + 600) + 500;
        assert_eq!(state.clock_jump, Some(ClockJump { before, after: now - 500 }));
        state.finish();
        state.note_time(now - 2 * PERIOD_MS, steady + 500);
        assert!(state.pass.is_some() && state.clock_jump.is_none(), "the clock was set back");
    }
}
