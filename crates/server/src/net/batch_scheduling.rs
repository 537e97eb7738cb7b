//! Whether a thread that is woken interrupts the thread that has its core.
//!
//! A worker that shares a core with the clients it serves is woken by the first request that one of
//! them sends. If it interrupts them it finds that request alone, and they have to be brought back
//! before they send the next; if it waits until they sleep it finds all that they had to say. One
//! that is not busy answers at once, and so does one whose clients are on other machines: the
//! thread that has its core then has nothing to do with them.
//!
//! `docs/decisions/courtesy.md` has what was measured.
//!
//! Invariant: where `server-batch-scheduling` says no, all threads interrupt others soon.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use base::scheduler;
use config::settings::SERVER_BATCH_SCHEDULING;

use crate::net::network::Network;
use crate::net::worker::Worker;

/// Time between two looks of a worker at least, in microseconds.
const BETWEEN_LOOKS_US: i64 = 100_000;

/// A worker becomes busy when it runs one third of the time.
const BUSY: i64 = 3;

/// A busy worker stays so until it runs less than a quarter of the time.
const AT_EASE: i64 = 4;

/// What a worker knows of its own.
#[derive(Default)]
pub(crate) struct BatchScheduling {
    looked_us: Cell<i64>,
    ran_us: Cell<i64>,
    is_busy: Cell<bool>,
    is_shown: Cell<bool>,
}

impl BatchScheduling {
    /// Whether the worker is busy, if it is time to look.
    fn sample(&self, now_us: i64, ran_us: impl FnOnce() -> i64) -> Option<bool> {
        let period_us = now_us - self.looked_us.get();
        if period_us < BETWEEN_LOOKS_US {
            return None;
        }
        self.looked_us.set(now_us);
        let ran_us = ran_us();
        let since = ran_us - self.ran_us.replace(ran_us);
        let share = if self.is_busy.get() { AT_EASE } else { BUSY };
        Some(since * share >= period_us)
    }

    /// Notes whether the worker is busy where the log's thread looks.
    fn record(&self, server: &Network, is_busy: bool) {
        match (self.is_busy.replace(is_busy), is_busy) {
            (false, true) => server.threads.busy_workers.fetch_add(1, Ordering::Relaxed),
            (true, false) => server.threads.busy_workers.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
    }
}

/// Looks at what a worker did since the last one, and changes its manners.
pub(crate) fn tick(worker: &Worker) {
    let (server, scheduling) = (worker.server, &worker.batch_scheduling);
    let Some(is_busy) = scheduling.sample(worker.ticked_us(), scheduler::ran_us) else { return };
    scheduling.record(server, is_busy);
    let is_due = is_busy && worker.has_neighbours() && server.config.get(SERVER_BATCH_SCHEDULING);
    if is_due != scheduling.is_shown.get() && server.threads.cores.interrupt_others(!is_due) {
        scheduling.is_shown.set(is_due);
    }
}

/// A worker begins. The thread that started it may have been courteous.
pub(crate) fn begin(worker: &Worker) {
    worker.server.threads.cores.interrupt_others(true);
}

/// A worker ends.
pub(crate) fn end(worker: &Worker) {
    worker.batch_scheduling.record(worker.server, false);
}

#[cfg(test)]
mod tests {
    use super::BatchScheduling;

    #[test]
    fn a_thread_is_busy_from_a_third_of_the_time_until_below_a_quarter() {
        let scheduling = BatchScheduling::default();
        let (mut now_us, mut sum_us) = (0, 0);
        for (is_busy, after_us, ran_us, expected) in [
            (false, 99_999, 0, None),
            (false, 1, 0, Some(false)),
            (false, 100_000, 33_333, Some(false)),
            (false, 100_000, 33_334, Some(true)),
            (true, 99_999, 99_999, None),
            (true, 1, 0, Some(true)),
            (true, 600_000, 150_000, Some(true)),
            (true, 600_000, 149_999, Some(false)),
            (false, 600_000, 199_999, Some(false)),
        ] {
            now_us += after_us;
            sum_us += ran_us;
            scheduling.is_busy.set(is_busy);
            assert_eq!(scheduling.sample(now_us, || sum_us), expected, "at {now_us}, {sum_us}");
        }
    }
}
