//! The event loops of the workers, as INFO tells of them: how often they went round, and how long
//! they were at it.
//!
//! Invariant: the loops count by themselves, so that a command pays nothing for it; what a loop
//! counted that has ended is kept.

use std::sync::{Mutex, MutexGuard};

/// Tells how far a loop that runs has come.
pub type ReadTurns = Box<dyn Fn() -> Turns + Send>;

/// All loops of the process.
#[derive(Default)]
pub struct Loops(Mutex<LoopTotals>);

#[derive(Default)]
struct LoopTotals {
    running: Vec<(usize, ReadTurns)>,
    /// Of loops that have ended.
    ended: Turns,
    /// What had happened when the statistics were reset.
    forgotten: Turns,
}

/// How often loops went round, and for how many microseconds they did not sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// How often a loop looked at its sockets.
    pub cycles: u64,
    /// Microseconds in which it did not sleep.
    pub micros: u64,
}

impl Turns {
    fn plus(self, other: Self) -> Self {
        Self { cycles: self.cycles + other.cycles, micros: self.micros + other.micros }
    }
}

impl Loops {
    /// The loop of a worker begins.
    pub fn enter(&self, lane: usize, turns: ReadTurns) {
        self.state().running.push((lane, turns));
    }

    /// It ends.
    pub fn leave(&self, lane: usize) {
        let mut state = self.state();
        let Some(at) = state.running.iter().position(|(of, _)| *of == lane) else { return };
        let (_, turns) = state.running.swap_remove(at);
        state.ended = state.ended.plus(turns());
    }

    /// What happened since the start, or since the statistics were reset.
    pub fn turns(&self) -> Turns {
        let state = self.state();
        let (all, before) = (state.all(), state.forgotten);
        Turns {
            cycles: all.cycles.saturating_sub(before.cycles),
            micros: all.micros.saturating_sub(before.micros),
        }
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
    fn all(&self) -> Turns {
        let running = self.running.iter().map(|(_, turns)| turns());
        running.fold(self.ended, Turns::plus)
    }
}
