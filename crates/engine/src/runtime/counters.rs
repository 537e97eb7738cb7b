//! Counters that one thread writes and all may read.
//!
//! Invariant: each counter has one writer at a time, so load-add-store loses nothing.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::runtime::schedstat;

/// What a worker counts.
#[derive(Default)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// Commands that were executed.
    pub commands: AtomicU64,
    /// Bytes that came from clients.
    pub net_in: AtomicU64,
    /// Bytes that were sent to clients.
    pub net_out: AtomicU64,
    /// Reads of sockets.
    pub reads: AtomicU64,
    /// Writes to sockets.
    pub writes: AtomicU64,
    /// Sessions, counted by the acceptor on hand-over and by the worker at the end.
    pub sessions: AtomicU64,
    /// Microseconds spent in commands.
    pub busy_us: AtomicU64,
    /// Looks at the sockets that sessions waited for.
    pub looks: AtomicU64,
    /// Commands that ran on other threads.
    pub elsewhere: AtomicU64,
    /// Requests that waited for locks.
    pub waits: AtomicU64,
    /// The worker's thread, by its number in the system; 0 before there is one.
    thread: AtomicI32,
    /// For how many microseconds the thread was ready to run and had no core, and one more; 0 where
    /// that is not known. The slow clock writes this.
    core_wait_us: AtomicU64,
}

impl WorkerCounters {
    /// Starts what is summed up again from zero; a count that races may survive.
    pub fn reset(&self) {
        for counter in self.sums() {
            counter.store(0, Ordering::Relaxed);
        }
        self.looks.store(0, Ordering::Relaxed);
        self.elsewhere.store(0, Ordering::Relaxed);
        self.waits.store(0, Ordering::Relaxed);
    }

    /// Everything that is summed up.
    fn sums(&self) -> [&AtomicU64; 6] {
        [&self.commands, &self.net_in, &self.net_out, &self.reads, &self.writes, &self.busy_us]
    }

    /// This thread is the worker from now on.
    pub(crate) fn note_thread(&self) {
        self.core_wait_us.store(0, Ordering::Relaxed);
        self.thread.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
    }

    /// Looks how long the worker's thread has waited for a core.
    pub(crate) fn note_core_waits(&self) {
        let thread = self.thread.load(Ordering::Relaxed);
        let waits = (thread != 0).then(|| schedstat::waits_of(thread)).flatten();
        let waited = waits.map_or(0, |waits| waits.waited_ns / 1000 + 1);
        self.core_wait_us.store(waited, Ordering::Relaxed);
    }

    /// For how many microseconds the worker's thread was ready to run and had no core, as of the
    /// last look, if the system tells.
    pub fn core_wait_us(&self) -> Option<u64> {
        self.core_wait_us.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Counts a read of so many bytes.
    pub fn add_net_in(&self, bytes: u64) {
        add(&self.net_in, bytes);
        add(&self.reads, 1);
    }

    /// Counts a write of so many bytes.
    pub fn add_net_out(&self, bytes: u64) {
        add(&self.net_out, bytes);
        add(&self.writes, 1);
    }
}

/// What all workers counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Commands that were executed.
    pub commands: u64,
    /// Bytes that came from clients.
    pub net_in: u64,
    /// Bytes that were sent to clients.
    pub net_out: u64,
    /// Reads of sockets.
    pub reads: u64,
    /// Writes to sockets.
    pub writes: u64,
    /// How long the workers did not sleep, in microseconds.
    pub busy_us: u64,
}

impl Totals {
    /// The sums of this moment.
    pub fn of<'c>(workers: impl IntoIterator<Item = &'c WorkerCounters>) -> Self {
        let mut totals = [0; 6];
        for worker in workers {
            for (total, counter) in totals.iter_mut().zip(worker.sums()) {
                *total += counter.load(Ordering::Relaxed);
            }
        }
        let [commands, net_in, net_out, reads, writes, busy_us] = totals;
        Self { commands, net_in, net_out, reads, writes, busy_us }
    }
}

/// Adds to a counter of which the caller is the one writer.
#[inline]
pub fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}
