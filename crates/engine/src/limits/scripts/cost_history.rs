//! What is known of how a script runs.
//!
//! Invariant: a history is a hint. Whatever it says, a script does the same, alone or in a lock
//! batch, with Lua or without.

use std::sync::atomic::{AtomicU32, Ordering};

/// So often a script that was not brief runs alone before it is taken for brief again, and one that
/// needed Lua has it: what a script does depends on its arguments.
const RUNS_WITHOUT: u32 = 64;

/// A script is not brief if it takes long twice in so many runs. Once means little: the thread may
/// have been interrupted, or a virtual machine's processor taken away.
const RUNS_BETWEEN: u32 = 16;

/// Something that a script does without for a while. Where threads share it, a count may be lost.
#[derive(Default)]
pub(crate) struct Cooldown {
    /// For how many runs.
    left: AtomicU32,
}

impl Cooldown {
    /// Whether the cooldown is over; asked before each run.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// Begins the cooldown.
    pub(crate) fn begin(&self) {
        self.left.store(RUNS_WITHOUT, Ordering::Relaxed);
    }
}

/// Whether a script is brief, as far as its last runs tell. Where threads share it, a count may be
/// lost.
#[derive(Default)]
pub(crate) struct CostHistory {
    /// While this lasts, the script goes alone.
    alone: Cooldown,
    /// For how many runs in company it is remembered that one took long.
    suspect: AtomicU32,
}

impl CostHistory {
    /// Whether a run may share its locks with others; asked before each.
    #[inline]
    pub(crate) fn may_share_locks(&self) -> bool {
        self.alone.is_over()
    }

    /// A run in company took long, or did not.
    #[inline]
    pub(crate) fn note_run(&self, was_long: bool) {
        let suspect = self.suspect.load(Ordering::Relaxed);
        match (was_long, suspect) {
            (false, 0) => {}
            (false, _) => self.suspect.store(suspect - 1, Ordering::Relaxed),
            (true, 0) => self.suspect.store(RUNS_BETWEEN, Ordering::Relaxed),
            (true, _) => {
                self.suspect.store(0, Ordering::Relaxed);
                self.note_undone();
            }
        }
    }

    /// A run in company had to be undone, and would be again.
    pub(crate) fn note_undone(&self) {
        self.alone.begin();
    }
}

#[cfg(test)]
mod tests {
    use super::{CostHistory, RUNS_BETWEEN, RUNS_WITHOUT};

    #[track_caller]
    fn goes_alone_for_a_while(history: &CostHistory) {
        assert!((0..RUNS_WITHOUT).all(|_| !history.may_share_locks()));
        assert!(history.may_share_locks());
    }

    #[test]
    fn a_script_that_was_undone_shares_no_locks_for_a_while() {
        let history = CostHistory::default();
        assert!(history.may_share_locks());
        history.note_undone();
        goes_alone_for_a_while(&history);
    }

    #[test]
    fn a_script_that_is_long_twice_within_a_while_shares_no_locks() {
        let history = CostHistory::default();
        for _ in 0..2 {
            history.note_run(true);
            (1..RUNS_BETWEEN).for_each(|_| history.note_run(false));
            assert!(history.may_share_locks());
            history.note_run(true);
            goes_alone_for_a_while(&history);
        }
    }

    #[test]
    fn a_script_that_is_long_now_and_then_goes_on_sharing_locks() {
        let history = CostHistory::default();
        for _ in 0..3 {
            history.note_run(true);
            (0..RUNS_BETWEEN).for_each(|_| history.note_run(false));
            assert!(history.may_share_locks());
        }
    }
}
