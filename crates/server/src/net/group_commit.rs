//! What a worker's sessions write before the worker has nothing left to do is made safe at once.
//!
//! Where each reply waits for a sync, a sync that begins with the first record that comes serves
//! few, and all others wait for the next one. So records that are appended in a session's turn may
//! wait until no session that is ready writes any more, or the first has waited for `LONGEST_US`.
//!
//! Invariant: each record that joins is followed by a `rest`, of the same thread.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use engine::lane::Lane;
use engine::runtime::record_batch::RecordBatch;

use crate::net::worker::Worker;

/// While a worker is never idle, a group takes no longer than about so many microseconds.
const LONGEST_US: i64 = 1_000;

/// The group of records that a worker gathers.
#[derive(Default)]
pub(crate) struct GroupCommit {
    /// How many records had been left when the last one was over.
    closed: Cell<u64>,
    /// Since when the present one goes on.
    since_us: Cell<Option<i64>>,
    /// The task that ends it.
    closer: Cell<Option<Waker>>,
}

impl GroupCommit {
    /// A session's turn is over, at this time.
    #[inline]
    pub(crate) fn note_turn(&self, lane: &Lane) {
        let records = &lane.wakes.records;
        records.close();
        if records.pending() != self.closed.get() {
            self.note_unflushed(lane);
        }
    }

    #[cold]
    fn note_unflushed(&self, lane: &Lane) {
        let now_us = lane.ticked_us();
        let Some(since_us) = self.since_us.get() else {
            self.since_us.set(Some(now_us));
            if let Some(closer) = self.closer.take() {
                closer.wake();
            }
            return;
        };
        if now_us - since_us > LONGEST_US {
            self.flush(lane);
        }
    }

    /// Has the journal's readers take what waits.
    pub(crate) fn flush(&self, lane: &Lane) {
        self.since_us.set(None);
        let pending = lane.wakes.records.pending();
        if self.closed.replace(pending) != pending {
            lane.shared.journal.flush();
        }
    }
}

/// Ends the worker's gatherings when nobody writes any more, for ever.
pub(crate) async fn run(worker: Rc<Worker>) {
    let group = &worker.group_commit;
    loop {
        poll_fn(|cx| {
            if group.since_us.get().is_some() {
                return Poll::Ready(());
            }
            group.closer.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
        until_nobody_writes(&worker.wakes.records, || worker.deferred.is_over()).await;
        group.flush(&worker);
    }
}

/// Waits until nobody wrote while all ready sessions had their turn, and their second one, if they
/// left something for that.
async fn until_nobody_writes(records: &RecordBatch, is_over: impl Fn() -> bool) {
    loop {
        let pending = records.pending();
        // All ready sessions have their turn, and then sockets are looked at.
        tokio::task::yield_now().await;
        if pending == records.pending() && is_over() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use engine::runtime::record_batch::RecordBatch;
    use tokio::task::LocalSet;

    use super::until_nobody_writes;

    #[test]
    fn a_gathering_goes_on_while_somebody_has_left_a_request_for_a_second_turn_or_writes() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (local, records) = (LocalSet::new(), Rc::new(RecordBatch::default()));
        let of_writer = Rc::clone(&records);
        local.spawn_local(async move {
            for _ in 0..3 {
                of_writer.note_pending();
                tokio::task::yield_now().await;
            }
        });
        let line = Cell::new(5);
        let is_over = || line.replace(line.get() - 1) == 1;
        local.block_on(&runtime, until_nobody_writes(&records, is_over));
        assert_eq!((line.get(), records.pending()), (0, 3));
    }
}
