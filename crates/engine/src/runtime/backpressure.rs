//! Backpressure: commands wait while what they would leave behind has no room.
//!
//! Invariant: a session that has waited is woken when the backpressure ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

use base::Wakers;

/// Off until it begins.
#[derive(Default)]
pub struct Backpressure {
    is_on: AtomicBool,
    waiting: Mutex<Wakers>,
}

impl Backpressure {
    /// Whether a command has to wait: one load.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Has commands wait from now on.
    pub fn begin(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Lets all go on.
    pub fn end(&self) {
        if !self.is_on() {
            return;
        }
        let mut waiting = self.waiting();
        self.is_on.store(false, Ordering::Relaxed);
        let woken = waiting.take();
        drop(waiting);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Queues a waker until the backpressure ends; `false` if there is none.
    pub fn wait(&self, waker: &Waker) -> bool {
        let mut waiting = self.waiting();
        // The backpressure ends under this mutex only, so the waker cannot come too late.
        if !self.is_on() {
            return false;
        }
        waiting.add(waker);
        true
    }

    /// Has all look again where many may be over: to be called now and then.
    pub fn sweep(&self) {
        let grown = self.waiting().take_grown();
        grown.into_iter().for_each(Waker::wake);
    }

    fn waiting(&self) -> MutexGuard<'_, Wakers> {
        self.waiting.lock().expect("no critical section here panics")
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::Backpressure;

    #[test]
    fn a_writer_waits_from_the_begin_of_backpressure_to_its_end() {
        let backpressure = Backpressure::default();
        assert!(!backpressure.wait(Waker::noop()), "there is none at first");
        backpressure.begin();
        assert!(backpressure.is_on() && backpressure.wait(Waker::noop()));
        backpressure.end();
        assert!(!backpressure.is_on() && !backpressure.wait(Waker::noop()));
    }
}
