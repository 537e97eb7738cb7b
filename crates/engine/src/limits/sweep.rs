//! How far the expiry of a partition has got.
//!
//! Invariant: a sweep is of one partition, and goes on where it stopped.

use base::time::UnixMillis;
use keyspace::PartitionIndex;

/// A partition in the middle of its sweep.
pub struct Sweep {
    pub(crate) partition: PartitionIndex,
    pub(crate) next: (usize, u64),
    pub(crate) earliest: UnixMillis,
    pub(crate) has_removed: bool,
}

impl Sweep {
    pub(crate) fn begin(partition: PartitionIndex) -> Self {
        Self { partition, next: (0, 0), earliest: UnixMillis::MAX, has_removed: false }
    }
}
