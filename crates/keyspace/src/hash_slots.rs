//! Keys of a node of a cluster, whose partitions are hash slots.
//!
//! Invariant: slots are as many as partitions.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use base::hash_slot::hash_slot;

use crate::keyspace::{Keyspace, Location, PARTITIONS};
use crate::lock::partition::PartitionIndex;

const WORDS: usize = PARTITIONS.div_ceil(u64::BITS as usize);

/// Some of the hash slots, as the gates have them, for commands that go from slot to slot. Whether
/// a request may run is not asked of them.
pub struct SlotFlags([AtomicU64; WORDS]);

impl Default for SlotFlags {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; WORDS])
    }
}

impl SlotFlags {
    /// These are meant from now on.
    pub fn replace(&self, are_meant: impl Fn(u16) -> bool) {
        for (index, word) in self.0.iter().enumerate() {
            let bit = |bit: u16| u64::from(are_meant(index as u16 * 64 + bit)) << bit;
            word.store((0..64).map(bit).sum(), Ordering::Release);
        }
    }

    /// Whether a slot is meant, at a time behind all that the caller has read before.
    #[must_use]
    pub fn contain(&self, slot: u16) -> bool {
        fence(Ordering::Acquire);
        let (word, bit) = (usize::from(slot) / 64, slot % 64);
        self.0.get(word).is_some_and(|word| word.load(Ordering::Relaxed) >> bit & 1 == 1)
    }
}

impl Keyspace {
    /// The hash slots that are served here, in a node of a cluster.
    #[must_use]
    pub fn served_slots(&self) -> &SlotFlags {
        &self.served_slots
    }

    /// Those that are on the move, from here or to here.
    #[must_use]
    pub fn open_slots(&self) -> &SlotFlags {
        &self.open_slots
    }

    /// The hash slot of a key, in a node of a cluster.
    #[must_use]
    pub fn slot_of(&self, key: &[u8]) -> Option<u16> {
        self.by_hash_slot.then(|| hash_slot(key))
    }

    /// A number that says in which order keys lie within a slot: no two processes have the same.
    #[must_use]
    pub fn order_within_slots(&self) -> u64 {
        self.locate(b"order").position()
    }

    /// The hash says where in the slot a key is, as slots can be guessed.
    #[cold]
    pub(crate) fn locate_by_slot(key: &[u8], hash: u64) -> Location {
        Location::new(hash_slot(key) % PARTITIONS as PartitionIndex, hash)
    }
}
