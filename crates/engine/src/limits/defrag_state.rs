//! How far defragmentation has got, and whether more of it is worth its time.
//!
//! Invariant: one thread at a time is at a pass: the one that has its lock.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use keyspace::arena::Marking;

use crate::runtime::stopwatch::Stopwatch;

/// After a pass that was not worth it so long must go by, or the waste grow by this part.
const REST_US: i64 = 1_000_000;
const GROWTH: usize = 32;

/// What is known of defragmentation.
#[derive(Default)]
pub struct DefragState {
    /// The pass under way. The thread that has the lock is at it.
    pub(crate) pass: Mutex<Option<DefragPass>>,
    /// Whether there is one.
    pub(crate) is_under_way: AtomicBool,
    /// A pass was asked for, whatever the waste is.
    pub(crate) is_asked: AtomicBool,
    /// Percent of the workers' time.
    pub(crate) effort: AtomicU32,
    /// When a pass was last not worth it, and how much waste there was then.
    pub(crate) vain_us: AtomicI64,
    pub(crate) vain_slack: AtomicUsize,
    /// What all workers had read from their clients at the last look.
    reads: AtomicU64,
    /// There is work for it.
    pub stopwatch: Stopwatch,
}

/// How far a pass has got.
pub(crate) enum DefragPass {
    Marking(Marking),
    /// The partition, and the place there.
    Moving(usize, (usize, u64)),
}

impl DefragState {
    /// Has a pass begin soon.
    pub fn ask(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }

    /// Percent of the workers' time that it gets at present.
    pub fn effort(&self) -> u32 {
        self.effort.load(Ordering::Relaxed)
    }

    /// Whether a pass is under way or may be worth beginning, with so much waste.
    pub(crate) fn is_promising(&self, slack: usize, now_us: i64) -> bool {
        let vain = self.vain_slack.load(Ordering::Relaxed);
        self.is_under_way.load(Ordering::Relaxed)
            || slack > vain + vain / GROWTH
            || now_us - self.vain_us.load(Ordering::Relaxed) >= REST_US
    }

    /// Whether no client has asked anything since the last look, by how often workers have read.
    pub(crate) fn is_quiet(&self, reads: u64) -> bool {
        self.reads.swap(reads, Ordering::Relaxed) == reads
    }

    /// A pass was not worth it, with so much waste.
    pub(crate) fn note_vain(&self, slack: usize, now_us: i64) {
        self.vain_slack.store(slack, Ordering::Relaxed);
        self.vain_us.store(now_us, Ordering::Relaxed);
    }

    /// The pass, if nobody else is at it.
    pub(crate) fn try_pass(&self) -> Option<MutexGuard<'_, Option<DefragPass>>> {
        match self.pass.try_lock() {
            Ok(pass) => Some(pass),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => unreachable!("no critical section here panics"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DefragState, REST_US};

    #[test]
    fn defragmentation_is_quiet_while_nothing_is_read() {
        let defrag = DefragState::default();
        let looks = [7, 7, 7, 8, 8].map(|reads| defrag.is_quiet(reads));
        assert_eq!(looks, [false, true, true, false, true]);
    }

    #[test]
    fn what_was_in_vain_is_not_tried_again_at_once() {
        let defrag = DefragState::default();
        assert!(defrag.is_promising(1, REST_US));
        defrag.note_vain(1_000_000, REST_US);
        assert!(!defrag.is_promising(1_000_000, REST_US + 1));
        assert!(defrag.is_promising(1_100_000, REST_US + 1), "there is more of it");
        assert!(defrag.is_promising(500_000, 2 * REST_US), "some time went by");
    }
}
