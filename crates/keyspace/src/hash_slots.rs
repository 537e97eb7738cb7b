//! Keys of a node of a cluster, whose partitions are hash slots.
//!
//! Invariant: slots are as many as partitions.

use base::hash_slot::hash_slot;

use crate::keyspace::{Keyspace, Location, PARTITIONS};
use crate::lock::partition::PartitionIndex;

impl Keyspace {
    /// The hash slot of a key, in a node of a cluster.
    #[must_use]
    pub fn slot_of(&self, key: &[u8]) -> Option<u16> {
        self.by_hash_slot.then(|| hash_slot(key))
    }

    /// The hash says where in the slot a key is, as slots can be guessed.
    #[cold]
    pub(crate) fn locate_by_slot(key: &[u8], hash: u64) -> Location {
        Location::new(hash_slot(key) % PARTITIONS as PartitionIndex, hash)
    }
}
