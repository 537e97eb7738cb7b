//! Replies that tell of a write and wait until the snapshot file has followed a FLUSHALL: a start
//! must not bring back what somebody was told is gone.
//!
//! Invariant: a waiting session is woken when the fence is lowered, or finds it lowered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

use base::Wakers;

/// Keeps replies back while the snapshot file holds what was removed.
#[derive(Default)]
pub struct SnapshotFence {
    /// Changed under the mutex.
    is_up: AtomicBool,
    waiting: Mutex<Wakers>,
}

impl SnapshotFence {
    /// Whether replies that tell of a write wait: one load.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// Queues a session until the fence is lowered; `false` if it is.
    pub fn wait(&self, waker: &Waker) -> bool {
        let mut waiting = self.waiting();
        let is_up = self.is_up();
        if is_up {
            waiting.add(waker);
        }
        is_up
    }

    /// The file is to follow.
    pub fn raise(&self) {
        let _waiting = self.waiting();
        self.is_up.store(true, Ordering::Relaxed);
    }

    /// The file has followed, or need not: the sessions of the returned wakers go on.
    #[must_use]
    pub fn lower(&self) -> Vec<Waker> {
        let mut waiting = self.waiting();
        self.is_up.store(false, Ordering::Relaxed);
        waiting.take()
    }

    /// Has all look again where many may be over: to be called now and then.
    pub(crate) fn sweep(&self) {
        let grown = self.waiting().take_grown();
        grown.into_iter().for_each(Waker::wake);
    }

    fn waiting(&self) -> MutexGuard<'_, Wakers> {
        self.waiting.lock().expect("no critical section here panics")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use super::SnapshotFence;
    use crate::runtime::counting_waker::CountingWaker;

    #[test]
    fn a_session_that_waits_is_woken_once_when_the_fence_is_lowered() {
        let (fence, session) = (SnapshotFence::default(), Arc::new(CountingWaker::default()));
        let waker = Waker::from(Arc::clone(&session));
        assert!(!fence.wait(&waker), "nothing is to follow");
        fence.raise();
        assert!(fence.is_up() && fence.wait(&waker) && fence.wait(&waker));
        fence.lower().into_iter().for_each(Waker::wake);
        assert_eq!(session.count(), 1, "however often it looked");
        assert!(!fence.is_up() && !fence.wait(&waker));
        assert!(fence.lower().is_empty());
    }
}
