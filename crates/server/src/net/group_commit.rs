//! What a worker's sessions write before the worker has nothing left to do is made safe at once.
//!
//! Where each reply waits for a sync, a sync that begins with the first record that comes serves
//! few, and all others wait for the next one. So records that are appended in a session's turn may
//! wait until no session that is ready writes any more, or the first has waited for `LONGEST_US`.
//!
//! Invariant: whoever joins is followed by a `rest`, of the same thread.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use engine::journal::{Journal, batch};

use crate::net::worker::Worker;

/// While a worker is never idle, a gathering takes no longer than about so many microseconds.
const LONGEST_US: i64 = 1_000;

/// The gathering of a worker.
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
    /// A session's turn begins.
    #[inline]
    pub(crate) fn open() {
        batch::open();
    }

    /// A session's turn is over, at this time.
    #[inline]
    pub(crate) fn note_turn(&self, journal: &Journal, now_us: i64) {
        batch::close();
        if batch::joined() != self.closed.get() {
            self.go_on(journal, now_us);
        }
    }

    #[cold]
    fn go_on(&self, journal: &Journal, now_us: i64) {
        let Some(since_us) = self.since_us.get() else {
            self.since_us.set(Some(now_us));
            if let Some(closer) = self.closer.take() {
                closer.wake();
            }
            return;
        };
        if now_us - since_us > LONGEST_US {
            self.close(journal);
        }
    }

    /// Whoever waits is seen to.
    pub(crate) fn close(&self, journal: &Journal) {
        self.since_us.set(None);
        if self.closed.replace(batch::joined()) != batch::joined() {
            journal.rest();
        }
    }
}

/// Ends the worker's gatherings when nobody writes any more, for ever.
pub(crate) async fn run(worker: Rc<Worker>) {
    let gathering = &worker.gathering;
    loop {
        poll_fn(|cx| {
            if gathering.since_us.get().is_some() {
                return Poll::Ready(());
            }
            gathering.closer.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
        until_nobody_writes(|| worker.second_turns.is_over()).await;
        gathering.close(&worker.server.journal);
    }
}

/// Waits until nobody wrote while all who are ready had their turn, and their second one, if they
/// left something for that.
async fn until_nobody_writes(is_over: impl Fn() -> bool) {
    loop {
        let joined = batch::joined();
        // All who are ready have their turn, and then sockets are looked at.
        tokio::task::yield_now().await;
        if joined == batch::joined() && is_over() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use engine::journal::batch::{self, join};

    use super::until_nobody_writes;

    #[test]
    fn a_gathering_goes_on_while_somebody_has_left_a_request_for_a_second_turn_or_writes() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.spawn(async {
            for _ in 0..3 {
                join();
                tokio::task::yield_now().await;
            }
        });
        let (before, line) = (batch::joined(), Cell::new(5));
        let is_over = || line.replace(line.get() - 1) == 1;
        runtime.block_on(until_nobody_writes(is_over));
        assert_eq!((line.get(), batch::joined() - before), (0, 3));
    }
}
