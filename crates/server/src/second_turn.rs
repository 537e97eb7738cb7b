//! When the replies of a batch leave: in a second turn of its session, behind all sessions that
//! are ready.
//!
//! A client with several connections that sleeps is woken once for many replies then, and to wake
//! it costs the server as much as some requests. One task takes all second turns: to run the task
//! of each session again would cost as much as to execute its request.
//!
//! Invariants: whoever stands in line is seen to by that task; no batch waits behind sessions whose
//! first turns came later than `WAIT_US` after the first of those who wait.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::session::Serve;
use crate::worker::Worker;

/// A batch that takes longer writes at once: to wake the client is little beside it.
const BATCH_US: i64 = 50;
/// Longer replies leave while they are in the nearest cache.
const BYTES: usize = 2048;
/// Where the first has waited for so long, others do not join.
const WAIT_US: i64 = 500;

/// What a worker knows of the second turns of its sessions.
#[derive(Default)]
pub(crate) struct SecondTurns {
    /// Since when the first of those who wait does.
    since_us: Cell<Option<i64>>,
    /// Those who wait.
    line: RefCell<Vec<Rc<RefCell<Serve>>>>,
    /// The task that sees to them, while nobody waits.
    usher: Cell<Option<Waker>>,
}

impl SecondTurns {
    /// Whether the replies of a batch that began and ended then are to wait, if they have so many
    /// bytes.
    #[inline]
    pub(crate) fn await_one(&self, bytes: usize, began_us: i64, now_us: i64) -> bool {
        if bytes > BYTES || now_us - began_us > BATCH_US {
            return false;
        }
        let since_us = self.since_us.get().unwrap_or(now_us);
        self.since_us.set(Some(since_us));
        now_us - since_us <= WAIT_US
    }

    /// A session lines up.
    #[inline]
    pub(crate) fn join(&self, serve: Rc<RefCell<Serve>>) {
        self.line.borrow_mut().push(serve);
        if let Some(usher) = self.usher.take() {
            usher.wake();
        }
    }

    /// The turns of those in line have come.
    pub(crate) fn give(&self) {
        self.since_us.set(None);
        let mut line = self.line.take();
        for serve in line.drain(..) {
            let mut serve = serve.borrow_mut();
            if catch_unwind(AssertUnwindSafe(|| serve.take_second_turn())).is_err() {
                serve.give_up();
            }
        }
        // Nobody lines up but in a turn of its own.
        self.line.replace(line);
    }
}

/// Gives second turns, for ever.
pub(crate) async fn run(worker: Rc<Worker>) {
    let turns = &worker.second_turns;
    loop {
        poll_fn(|cx| {
            if turns.line.borrow().is_empty() {
                turns.usher.set(Some(cx.waker().clone()));
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
        turns.give();
        worker.end_turn();
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH_US, BYTES, SecondTurns, WAIT_US};

    #[test]
    fn short_replies_of_short_batches_wait_while_the_first_does_not_wait_for_long() {
        let turns = SecondTurns::default();
        assert!(!turns.await_one(1, 0, BATCH_US + 1), "a long batch");
        assert!(!turns.await_one(BYTES + 1, 0, 0), "long replies");
        assert!(turns.await_one(BYTES, 1000, 1000 + BATCH_US), "the first");
        let last = 1000 + BATCH_US + WAIT_US;
        assert!(turns.await_one(1, last, last));
        assert!(!turns.await_one(1, last + 1, last + 1), "the first waits for too long");
        turns.give();
        assert!(turns.await_one(1, last + 2, last + 2));
    }
}
