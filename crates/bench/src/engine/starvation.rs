//! How long a thread could have run and was given no core: the kernel's own account of it.
//! Invariant: nothing is claimed where the kernel keeps no account.

use std::fs;
use std::time::Duration;

/// Run time, time on the run queue, number of turns: of the thread that reads it.
const ACCOUNT: &str = "/proc/thread-self/schedstat";

/// A thread's account when its run began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Starvation {
    waited: Option<u64>,
}

impl Starvation {
    /// The account of this thread now.
    pub(super) fn begin() -> Self {
        let text = fs::read_to_string(ACCOUNT).unwrap_or_default();
        Self { waited: text.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok()) }
    }

    /// How long this thread has waited for a core since then.
    pub(super) fn since_begin(self) -> Duration {
        let waited = Self::begin().waited.zip(self.waited);
        Duration::from_nanos(waited.map_or(0, |(now, before)| now.saturating_sub(before)))
    }
}

#[cfg(test)]
mod tests {
    use super::{ACCOUNT, Starvation};

    #[test]
    fn the_kernel_keeps_an_account_that_only_grows() {
        let before = Starvation::begin();
        assert_eq!(before.waited.is_some(), std::fs::exists(ACCOUNT).unwrap_or(false));
        let first = before.since_begin();
        assert!(before.since_begin() >= first);
    }
}
