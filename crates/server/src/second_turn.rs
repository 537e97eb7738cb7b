//! When the replies of a short batch leave: in a second turn of its session, behind all sessions
//! that are ready.
//!
//! A client with several connections that sleeps is woken once for many replies then, and to wake
//! it costs the server as much as some requests.
//!
//! Invariant: replies wait only while second turns come soon.

use std::cell::Cell;

/// A batch that takes longer writes at once: the others would make its replies late.
const BATCH_US: i64 = 5;
/// Where a second turn took longer to come,
const WAIT_US: i64 = 250;
/// nobody waits for one for so long.
const REST_US: i64 = 10_000;

/// What a worker knows of the second turns of its sessions.
#[derive(Default)]
pub(crate) struct SecondTurns {
    /// Since when the first of those who wait does.
    since_us: Cell<Option<i64>>,
    at_once_until_us: Cell<i64>,
}

impl SecondTurns {
    /// Whether the replies of a batch that began and ended then are to wait.
    #[inline]
    pub(crate) fn await_one(&self, began_us: i64, now_us: i64) -> bool {
        if now_us - began_us > BATCH_US || now_us < self.at_once_until_us.get() {
            return false;
        }
        if self.since_us.get().is_none() {
            self.since_us.set(Some(now_us));
        }
        true
    }

    /// The turn of a session that waited has come.
    #[inline]
    pub(crate) fn has_come(&self, now_us: i64) {
        let Some(since_us) = self.since_us.take() else { return };
        if now_us - since_us > WAIT_US {
            self.at_once_until_us.set(now_us + REST_US);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH_US, REST_US, SecondTurns, WAIT_US};

    #[test]
    fn replies_of_short_batches_wait_while_turns_come_soon() {
        let turns = SecondTurns::default();
        assert!(turns.await_one(0, BATCH_US));
        assert!(!turns.await_one(0, BATCH_US + 1));
        turns.has_come(BATCH_US + WAIT_US);
        assert!(turns.await_one(1000, 1000) && turns.await_one(1100, 1101));
        // The first of those who waited tells how long it took.
        turns.has_come(1001 + WAIT_US);
        turns.has_come(5000);
        assert!(!turns.await_one(6000, 6000));
        let rested = 1001 + WAIT_US + REST_US;
        assert!(!turns.await_one(rested - 1, rested - 1));
        assert!(turns.await_one(rested, rested));
    }
}
