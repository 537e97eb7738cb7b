//! Whose turn it is to change the data as a primary says: one applies a stream or takes data in at
//! a time, in the order in which they were begun.
//!
//! Invariant: a turn begins when all that were taken before it have ended.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard};

/// All turns that have not ended.
#[derive(Default)]
pub(crate) struct StreamTurns {
    line: Mutex<TurnLine>,
    ended: Condvar,
}

#[derive(Default)]
struct TurnLine {
    next: u64,
    waiting: BTreeSet<u64>,
}

/// A turn, from its place in line to its end.
pub(crate) struct StreamTurn {
    turns: &'static StreamTurns,
    number: u64,
}

impl StreamTurns {
    /// The last place in line.
    pub(crate) fn take(&'static self) -> StreamTurn {
        let mut line = self.lock();
        let number = line.next;
        line.next += 1;
        line.waiting.insert(number);
        StreamTurn { turns: self, number }
    }

    fn lock(&self) -> MutexGuard<'_, TurnLine> {
        self.line.lock().expect("no critical section here panics")
    }
}

impl StreamTurn {
    /// Waits until it is first.
    pub(crate) fn wait(&self) {
        let is_behind = |line: &mut TurnLine| line.waiting.first() != Some(&self.number);
        let waited = self.turns.ended.wait_while(self.turns.lock(), is_behind);
        drop(waited.expect("no critical section here panics"));
    }
}

impl Drop for StreamTurn {
    fn drop(&mut self) {
        self.turns.lock().waiting.remove(&self.number);
        self.turns.ended.notify_all();
    }
}
