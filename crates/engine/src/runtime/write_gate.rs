//! A gate in front of commands that write: closed while what they leave behind has no room.
//!
//! Invariant: a session that found it closed is woken when it opens.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

use base::Wakers;

/// Open until it is closed.
#[derive(Default)]
pub struct WriteGate {
    is_closed: AtomicBool,
    waiting: Mutex<Wakers>,
}

impl WriteGate {
    /// Whether a write that wants to pass has to wait: one load.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Lets nobody pass from now on.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Lets everybody pass.
    pub fn open(&self) {
        if !self.is_closed() {
            return;
        }
        let mut waiting = self.waiting();
        self.is_closed.store(false, Ordering::Relaxed);
        let woken = waiting.take();
        drop(waiting);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Queues a waker until the gate opens; `false` if it is open.
    pub fn wait(&self, waker: &Waker) -> bool {
        let mut waiting = self.waiting();
        // The gate opens under this mutex only, so the waker cannot come too late.
        if !self.is_closed() {
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

    use super::WriteGate;

    #[test]
    fn a_writer_waits_while_the_gate_is_closed_and_passes_once_it_is_open() {
        let gate = WriteGate::default();
        assert!(!gate.wait(Waker::noop()), "it is open at first");
        gate.close();
        assert!(gate.is_closed() && gate.wait(Waker::noop()));
        gate.open();
        assert!(!gate.is_closed() && !gate.wait(Waker::noop()));
    }
}
