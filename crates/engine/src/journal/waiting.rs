//! The line of tasks that wait until what they saw is safe.
//!
//! Invariant: what is safe changes under the mutex of the line only, so no task comes too late.

use std::task::Waker;

use keyspace::Lsn;

use super::durability::LinePlace;
use super::{DURABLE_READER, Journal};

impl Journal {
    /// Whether a kill of the process leaves everything up to here with all readers that replies
    /// rely on.
    pub fn is_written(&self, lsn: Lsn) -> bool {
        self.line().durable_readers().all(|reader| lsn <= reader.written.max(reader.safe))
    }

    /// Queues a task that waits for others, in the place where it stood before: until what the
    /// lowest of them waits for is safe, or all are to look again. A task that is taken out of line
    /// is woken. Returns how often all were to look again so far.
    pub fn wait_for_lowest(&self, lowest: Option<Lsn>, waker: &Waker) -> u64 {
        let mut line = self.line();
        line.waiting.retain(|(_, other)| !other.will_wake(waker));
        // What is safe changes under this mutex only, so the waker cannot come too late.
        if let Some(lowest) = lowest.filter(|lowest| *lowest > self.safe()) {
            line.waiting.push((lowest, waker.clone()));
        }
        line.wake_ups
    }

    /// Queues a waker until everything up to `lsn` is safe, or all are to look again; `false` if it
    /// is safe. A task that is in line still, for this or for less, is not queued again.
    pub fn wait_for_safety(&self, lsn: Lsn, waker: &Waker, place: &mut LinePlace) -> bool {
        let mut line = self.line();
        let safe = self.safe();
        if lsn <= safe {
            return false;
        }
        let is_in_line = place.0.is_some_and(|(wake_ups, awaited)| {
            wake_ups == line.wake_ups && awaited > safe && awaited <= lsn
        });
        if !is_in_line {
            *place = LinePlace(Some((line.wake_ups, lsn)));
            line.waiting.push((lsn, waker.clone()));
        }
        true
    }

    /// Has all tasks look again where many may be over: to be called now and then.
    pub(crate) fn sweep(&self) {
        let mut line = self.line();
        let length = line.waiting.len();
        if line.growth.is_due(length) {
            line.wake_all();
        }
        drop(line);
        self.replica_acks.sweep();
        self.snapshot_fence.sweep();
    }

    /// Queues a session that waits until replies may rely on a reader, or the last one is let go.
    pub fn wait_for_durable_reader(&self, waker: &Waker) {
        let mut line = self.line();
        if !line.waiting.iter().any(|(lsn, own)| *lsn == DURABLE_READER && own.will_wake(waker)) {
            line.waiting.push((DURABLE_READER, waker.clone()));
        }
    }
}
