//! Partitions whose keys another server brings, and alone says when they go.
//!
//! Invariant: a partition is brought for as long as any mark of it stands. A mark is set before the
//! first key comes, so a holder of the partition's lock that meets such a key sees the mark.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lock::partition::PartitionIndex;
use crate::tx::Tx;

/// The marks of all partitions.
pub struct ImportingPartitions(Box<[AtomicU32]>);

impl Default for ImportingPartitions {
    fn default() -> Self {
        Self((0..PARTITIONS).map(|_| AtomicU32::new(0)).collect())
    }
}

impl ImportingPartitions {
    /// Marks a partition once more.
    pub fn mark(&self, partition: PartitionIndex) {
        self.0[usize::from(partition)].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a mark away again.
    pub fn unmark(&self, partition: PartitionIndex) {
        self.0[usize::from(partition)].fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a partition is brought: one load.
    #[inline]
    #[must_use]
    pub fn contain(&self, partition: PartitionIndex) -> bool {
        self.0[usize::from(partition)].load(Ordering::Relaxed) > 0
    }
}

impl Keyspace {
    /// The partitions whose keys another server brings: what is over there stays until that says
    /// that it goes, absent though it is for clients.
    #[must_use]
    pub fn importing(&self) -> &ImportingPartitions {
        &self.importing
    }
}

impl Tx {
    /// Whether another server brings a key, and so alone says when the key goes: asked by whatever
    /// removes keys that its client has not named.
    #[must_use]
    pub fn is_importing(&self, key: &[u8]) -> bool {
        self.keyspace().importing().contain(self.location_of(key).partition())
    }
}
