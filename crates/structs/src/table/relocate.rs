//! Moving what a table leads to, and its own memory, out of pages of the arena that are being
//! emptied.
//!
//! Invariant: words keep their places; only the addresses in them change, and where segments lie.

use super::bucket::{Address, Bucket, Word};
use super::directory::fingerprint;
use super::{Root, Table};

impl Table {
    /// Goes on from a position, as [`Table::walk`] does but bucket by bucket, until it has passed
    /// `at_least` addresses or as many buckets: puts in the place of each what `relocate` returns
    /// for it, and moves the segments that it enters. `fetch` is told of addresses ahead of time.
    /// Returns the position to go on from, or `None` at the end.
    ///
    /// What is inserted between two steps may be passed over.
    pub fn relocate(
        &mut self,
        from: u64,
        at_least: usize,
        fetch: impl Fn(Address),
        mut relocate: impl FnMut(Address) -> Option<Address>,
    ) -> Option<u64> {
        let (mut passed, mut buckets) = (0, 0);
        let mut position = from;
        loop {
            let spot = self.spot(position);
            let (depth, node) = (spot.depth, spot.node);
            // Shifted twice, because a depth of 0 asks for 64 bits.
            let start = position & !(u64::MAX >> depth);
            let segment = match &mut self.root {
                Root::One(segment) => segment,
                Root::Many(directory) => directory.segment_mut(node),
            };
            segment.relocate();
            let home = segment.home(fingerprint(position, depth));
            for at in home..segment.count().max(1) {
                let ahead = segment.buckets().get(at + 1).into_iter();
                ahead.flat_map(Bucket::used).filter_map(Word::address).for_each(&fetch);
                passed += segment.relocate_bucket(at, &mut relocate);
                buckets += 1;
                let next = u128::from(start)
                    + (u128::from(segment.first_fingerprint(at + 1)) << (48 - depth));
                // Behind the last bucket of all lies 2^64.
                position = u64::try_from(next).ok()?;
                if passed >= at_least || buckets >= at_least {
                    return Some(position);
                }
            }
        }
    }
}
