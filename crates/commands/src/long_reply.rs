//! Replies of so many elements that they are made while they are sent.
//!
//! Invariant: what such a reply tells is the value as it was when the command ran: the reply reads
//! a clone that shares the value's pages, without its lock.

use std::ops::Range;

use keyspace::{Keyspace, Tx, WORKER_BUDGET_NS};
use proto::{Reply, Source};

/// Elements told between two looks at how much that was.
const STEP: u64 = 64;

/// Whether a reply that costs so many nanoseconds is to be made in pieces.
#[inline]
pub(crate) fn is_long(nanoseconds: u64) -> bool {
    nanoseconds > WORKER_BUDGET_NS
}

/// Replies `count` elements behind the head that was written already. `write` replies those of a
/// range of places below the count, and owns what it reads.
pub(crate) fn reply_in_pieces(
    tx: &Tx,
    reply: &mut Reply<'_>,
    count: u64,
    write: impl FnMut(Range<u64>, &mut Reply<'_>) + Send + 'static,
) {
    let (keyspace, write) = (tx.keyspace(), Some(write));
    let mut pieces = Pieces { keyspace, places: 0..count, bytes: 0, write };
    // The first ones say how long the others may be.
    if pieces.write(reply, 1) {
        reply.stream(Box::new(pieces));
    }
}

/// The elements of a value that are not told yet.
struct Pieces<T: Send + 'static> {
    keyspace: &'static Keyspace,
    places: Range<u64>,
    /// Written so far.
    bytes: u64,
    /// Some until it is dropped.
    write: Option<T>,
}

impl<T: FnMut(Range<u64>, &mut Reply<'_>) + Send + 'static> Source for Pieces<T> {
    fn write(&mut self, reply: &mut Reply<'_>, bytes: usize) -> bool {
        let Some(write) = &mut self.write else { return false };
        let before = reply.unsent();
        while !self.places.is_empty() && reply.unsent() - before < bytes {
            let end = self.places.end.min(self.places.start + STEP);
            write(self.places.start..end, reply);
            self.places.start = end;
        }
        self.bytes += (reply.unsent() - before) as u64;
        !self.places.is_empty()
    }

    fn bytes_left(&self) -> u64 {
        let left = self.places.end - self.places.start;
        (u128::from(self.bytes) * u128::from(left) / u128::from(self.places.start.max(1))) as u64
    }
}

impl<T: Send + 'static> Drop for Pieces<T> {
    fn drop(&mut self) {
        if let Some(write) = self.write.take() {
            self.keyspace.lazy_free(write);
        }
    }
}
