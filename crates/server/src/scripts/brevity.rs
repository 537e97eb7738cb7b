//! What is known of how long a script takes.
//!
//! Invariant: it is a hint. Whatever it says, a script does the same, alone or in a chain.

use std::sync::atomic::{AtomicU32, Ordering};

/// So often a script that was not brief runs alone before it is taken for brief again: the machine
/// may have been busy with something else, and what a script does depends on its arguments.
const RUNS_ALONE: u32 = 64;

/// Whether a script is brief, as far as its last runs tell.
#[derive(Default)]
pub(super) struct Brevity {
    /// How many runs it has to go alone.
    alone: AtomicU32,
}

impl Brevity {
    /// Whether a run may share its locks with others; asked before each.
    #[inline]
    pub(super) fn allows_company(&self) -> bool {
        let alone = self.alone.load(Ordering::Relaxed);
        // Where threads share it, a count may be lost.
        if alone > 0 {
            self.alone.store(alone - 1, Ordering::Relaxed);
        }
        alone == 0
    }

    /// A run in company was not brief.
    pub(super) fn note_long(&self) {
        self.alone.store(RUNS_ALONE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Brevity, RUNS_ALONE};

    #[test]
    fn who_was_long_goes_alone_for_a_while() {
        let brevity = Brevity::default();
        assert!(brevity.allows_company());
        brevity.note_long();
        assert!((0..RUNS_ALONE).all(|_| !brevity.allows_company()));
        assert!(brevity.allows_company());
    }
}
