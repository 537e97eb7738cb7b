//! How long a transaction may keep a worker: work beyond that begins again on a heavy-work thread.
//!
//! Invariant: what costs more than the budget is refused before the first change, and never on a
//! heavy-work thread.

use super::Tx;
use crate::Refusal;

impl Tx {
    /// Refuses work that would keep a worker from its other clients; harmless on a heavy-work
    /// thread. To be called before the first change, with the cost seen under the lock.
    pub fn charge(&self, nanoseconds: u64) -> Result<(), Refusal> {
        let fits = self.options.heavy || nanoseconds <= crate::WORKER_BUDGET_NS;
        if fits { Ok(()) } else { Err(Refusal::Heavy) }
    }

    /// Runs `work` as if on a heavy-work thread: what it costs is not refused.
    pub fn without_budget<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let heavy = std::mem::replace(&mut self.options.heavy, true);
        let result = work(self);
        self.options.heavy = heavy;
        result
    }

    /// The waiters that it makes ready are served within the budget of its worker from now on.
    pub fn serve_within_budget(&mut self) {
        self.options.serves_within_budget = true;
    }

    /// Whether the service of a waiter has to fit the budget of a worker. What cannot be undone is
    /// served where it stands.
    #[must_use]
    pub fn serves_within_budget(&self) -> bool {
        self.options.serves_within_budget && !self.options.heavy && self.is_undoable()
    }
}
