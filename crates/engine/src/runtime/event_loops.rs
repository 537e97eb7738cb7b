//! The event loops of the workers, as INFO tells of them: how often they went round, and how long
//! they were at it.
//!
//! Invariant: the loops count by themselves, so that a command pays nothing for it; what a loop
//! counted that has ended is kept.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Tells how far a loop that runs has come.
pub type ReadCycles = Box<dyn Fn() -> EventLoopCycles + Send>;

/// All loops of the process.
#[derive(Default)]
pub struct EventLoops(Mutex<LoopTotals>);

#[derive(Default)]
struct LoopTotals {
    running: Vec<RunningLoop>,
    /// Of loops that have ended.
    ended: EventLoopCycles,
    /// What had happened when the statistics were reset.
    forgotten: EventLoopCycles,
}

/// A loop that runs, and what was last seen of it.
struct RunningLoop {
    lane: usize,
    turns: ReadCycles,
    heartbeat: Heartbeat,
}

/// By what a loop that stands still is told from one that has nothing to do, or much.
#[derive(Default)]
pub struct Heartbeat {
    seen: EventLoopCycles,
    since_us: i64,
    is_told: bool,
}

impl Heartbeat {
    /// Whether a loop that has come so far has stood still, awake, for a period; told once.
    pub fn stops(&mut self, turns: EventLoopCycles, now_us: i64, period: Duration) -> bool {
        if turns != self.seen {
            *self = Self { seen: turns, since_us: now_us, is_told: false };
            return false;
        }
        let stood_us = u64::try_from(now_us - self.since_us).unwrap_or(0);
        let is_asleep = turns.steps % 2 == 1;
        let stops = !is_asleep && !self.is_told && Duration::from_micros(stood_us) >= period;
        self.is_told |= stops;
        stops
    }
}

/// How often loops went round, and for how many microseconds they did not sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventLoopCycles {
    /// How often a loop looked at its sockets.
    pub cycles: u64,
    /// Microseconds in which it did not sleep.
    pub micros: u64,
    /// How often it fell asleep or woke: odd while it sleeps.
    pub steps: u64,
}

impl EventLoopCycles {
    fn plus(self, other: Self) -> Self {
        let (cycles, micros) = (self.cycles + other.cycles, self.micros + other.micros);
        Self { cycles, micros, steps: self.steps + other.steps }
    }
}

impl EventLoops {
    /// The loop of a worker begins.
    pub fn enter(&self, lane: usize, turns: ReadCycles) {
        let heartbeat = Heartbeat::default();
        self.state().running.push(RunningLoop { lane, turns, heartbeat });
    }

    /// The loop ends.
    pub fn leave(&self, lane: usize) {
        let mut state = self.state();
        let Some(at) = state.running.iter().position(|it| it.lane == lane) else { return };
        let ended = state.running.swap_remove(at);
        state.ended = state.ended.plus((ended.turns)());
    }

    /// What happened since the start, or since the statistics were reset.
    pub fn turns(&self) -> EventLoopCycles {
        let state = self.state();
        let (all, before) = (state.all(), state.forgotten);
        EventLoopCycles {
            cycles: all.cycles.saturating_sub(before.cycles),
            micros: all.micros.saturating_sub(before.micros),
            steps: all.steps.saturating_sub(before.steps),
        }
    }

    /// The worker of a loop that has stood still for a period and was not told of.
    pub fn stalled_loop(&self, now_us: i64, period: Duration) -> Option<usize> {
        let mut state = self.state();
        let mut all = state.running.iter_mut();
        let stops = |it: &mut RunningLoop| it.heartbeat.stops((it.turns)(), now_us, period);
        all.find_map(|it| stops(it).then_some(it.lane))
    }

    /// Starts again from zero.
    pub fn reset(&self) {
        let mut state = self.state();
        state.forgotten = state.all();
    }

    fn state(&self) -> MutexGuard<'_, LoopTotals> {
        self.0.lock().expect("no critical section here panics")
    }
}

impl LoopTotals {
    fn all(&self) -> EventLoopCycles {
        let running = self.running.iter().map(|it| (it.turns)());
        running.fold(self.ended, EventLoopCycles::plus)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{EventLoopCycles, Heartbeat};

    #[test]
    fn a_loop_that_stands_still_is_told_once_from_one_that_sleeps() {
        const PERIOD: Duration = Duration::from_millis(1);
        let mut heartbeat = Heartbeat::default();
        let turns = |steps, micros| EventLoopCycles { cycles: 1, micros, steps };
        for (now_us, steps, micros, stops) in [
            (0, 2, 10, false),
            (900, 2, 10, false),
            (1000, 2, 10, true),
            (5000, 2, 10, false),
            // Busy, it does not sleep.
            (6000, 2, 11, false),
            (6900, 2, 12, false),
            (7900, 2, 12, true),
            // A loop that sleeps may do so for long.
            (8000, 3, 12, false),
            (20_000, 3, 12, false),
            (20_100, 4, 12, false),
            (30_000, 4, 12, true),
        ] {
            let told = heartbeat.stops(turns(steps, micros), now_us, PERIOD);
            assert_eq!(told, stops, "at {now_us}");
        }
    }
}
