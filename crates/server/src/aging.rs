//! Access clocks of keys that nobody uses are renewed before they go round, and after each jump of
//! the wall clock, so that no key looks new because it is very old.
//!
//! Invariant: one worker at a time is at it; a step holds one partition for a few microseconds and
//! changes no data.

use std::sync::Mutex;

use base::time::UnixMillis;
use keyspace::{AccessClock, ClockJump, PARTITIONS, PartitionIndex};

use crate::worker::Worker;

/// Between two beginnings of a pass; a clock must last for that, and for the pass.
const PERIOD_MS: i64 = 6 * 3_600_000;

/// What the wall clock passes over is a jump from here on. Shorter ones every clock has room for.
const JUMP_MS: i64 = 3_600_000;

/// How long one turn may take, and the entries that are looked at under one lock.
const TURN_US: i64 = 1000;
const STEP: usize = 64;

/// Steps between two looks at the time.
const STEPS_PER_TICK: usize = 16;

/// How far it has got.
#[derive(Default)]
pub(crate) struct Aging(Mutex<State>);

#[derive(Default)]
struct State {
    /// The wall clock at the last turn, once there was one, and the monotonic one.
    seen: Option<(UnixMillis, i64)>,
    /// When the latest pass began.
    began: UnixMillis,
    /// The partition that the pass under way is at, and the place there.
    pass: Option<(usize, (usize, u64))>,
    /// What the pass is for, if that is a jump.
    clock_jump: Option<ClockJump>,
}

impl State {
    /// Looks at the clock, and at the monotonic one; begins a pass where one is due.
    fn note_time(&mut self, now: UnixMillis, steady_ms: i64) {
        let (seen, steady_seen) = self.seen.replace((now, steady_ms)).unwrap_or_else(|| {
            self.began = now;
            (now, steady_ms)
        });
        // The jump came at some moment since the last turn.
        let passed = steady_ms - steady_seen;
        if now - seen - passed > JUMP_MS {
            // A pass that is not over is made again, for both jumps.
            let before = self.clock_jump.map_or(seen + passed, |clock_jump| clock_jump.before);
            self.clock_jump = Some(ClockJump { before, after: now - passed });
        } else if self.pass.is_some() || (0..PERIOD_MS).contains(&(now - self.began)) {
            return;
        }
        self.began = now;
        self.pass = Some((0, (0, 0)));
    }

    fn finish(&mut self) {
        self.pass = None;
        self.clock_jump = None;
    }
}

/// A worker's turn; whether another one should come soon.
pub(crate) fn turn(worker: &Worker) -> bool {
    let Ok(mut state) = worker.server.aging.0.try_lock() else { return false };
    state.note_time(worker.now_ms(), worker.ticked_us() / 1000);
    let deadline = worker.ticked_us() + TURN_US;
    while state.pass.is_some() {
        for _ in 0..STEPS_PER_TICK {
            if !worker.come_in() {
                return true;
            }
            step(worker, &mut state);
        }
        worker.tick();
        if worker.ticked_us() > deadline {
            return state.pass.is_some();
        }
    }
    false
}

fn step(worker: &Worker, state: &mut State) {
    let Some((partition, place)) = state.pass else { return };
    if partition == PARTITIONS {
        return state.finish();
    }
    let keyspace = worker.server.keyspace;
    let index = partition as PartitionIndex;
    if keyspace.population(index) == 0 {
        state.pass = Some((partition + 1, (0, 0)));
        return;
    }
    // A busy partition is tried again; who is in it for long lets the world wait, too.
    let Some(mut grant) = keyspace.try_acquire(index) else { return };
    let access = AccessClock::new(keyspace.settings(), worker.now_ms());
    let next = grant.age(&access, state.clock_jump, index, place, STEP);
    state.pass = Some(next.map_or((partition + 1, (0, 0)), |place| (partition, place)));
}

#[cfg(test)]
mod tests {
    use keyspace::ClockJump;

    use super::{JUMP_MS, PERIOD_MS, State};

    #[test]
    fn a_pass_begins_every_few_hours_and_after_each_jump() {
        let (mut state, mut now) = (State::default(), 1_000_000_000);
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
