//! Locks that are held while transactions come and go, each of which has some of them meanwhile: to
//! all others these are one moment.
//!
//! Invariant: a lock is marked here, or an acquisition has it that was lent from here, never both.

use super::acquisition::{Acquisition, PartitionSet};
use super::partition::PartitionIndex;
use crate::keyspace::{Keyspace, PARTITIONS};

const WORDS: usize = PARTITIONS / 64;

/// Locks, until this is dropped.
pub struct HeldLocks {
    keyspace: &'static Keyspace,
    marks: Box<[u64; WORDS]>,
    /// Since when they are held, on the monotonic clock in microseconds.
    since_us: i64,
}

impl HeldLocks {
    /// The locks of an acquisition that has all of its partitions, in so many parts; `part_of` says
    /// to which one a partition belongs.
    #[must_use]
    pub fn split(
        grant: Acquisition,
        parts: usize,
        part_of: impl Fn(PartitionIndex) -> usize,
    ) -> Vec<Self> {
        let keyspace = grant.keyspace();
        let since_us = keyspace.clock().monotonic_us();
        let part = |_| Self { keyspace, marks: Box::new([0; WORDS]), since_us };
        let mut parts: Vec<Self> = (0..parts).map(part).collect();
        for index in grant.into_held() {
            parts[part_of(index)].mark(index);
        }
        parts
    }

    /// Lends the locks of some partitions, in any order; `None` if one of them is not here.
    #[must_use]
    pub fn lend(&mut self, partitions: &PartitionSet) -> Option<Acquisition> {
        if !partitions.iter().all(|&index| self.has(index)) {
            return None;
        }
        partitions.iter().for_each(|&index| self.marks[word_of(index)] &= !bit_of(index));
        Some(Acquisition::of_held(self.keyspace, partitions.clone()))
    }

    /// Takes back what was lent.
    pub fn take_back(&mut self, grant: Acquisition) {
        grant.into_held().into_iter().for_each(|index| self.mark(index));
    }

    fn mark(&mut self, index: PartitionIndex) {
        self.marks[word_of(index)] |= bit_of(index);
    }

    fn has(&self, index: PartitionIndex) -> bool {
        self.marks[word_of(index)] & bit_of(index) != 0
    }
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        for (word, mut marks) in (0..).zip(*self.marks) {
            while marks != 0 {
                let index = word * 64 + marks.trailing_zeros() as PartitionIndex;
                self.keyspace.partition(index).word.release(self.keyspace.lot(), index);
                marks &= marks - 1;
            }
        }
        let micros = self.keyspace.clock().monotonic_us() - self.since_us;
        self.keyspace.stall_stats().note_hold(u64::try_from(micros).unwrap_or(0));
    }
}

fn word_of(index: PartitionIndex) -> usize {
    usize::from(index) / 64
}

fn bit_of(index: PartitionIndex) -> u64 {
    1 << (index % 64)
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::HeldLocks;
    use crate::keyspace::{Keyspace, PARTITIONS};
    use crate::lock::acquisition::{Acquisition, PartitionSet};
    use crate::lock::partition::PartitionIndex;
    use crate::options::Options;

    fn set(partitions: &[PartitionIndex]) -> PartitionSet {
        partitions.iter().copied().collect()
    }

    #[test]
    fn locks_are_held_until_all_is_over_whatever_is_lent_meanwhile() {
        let keyspace = Keyspace::leak(Options::new());
        let last = PARTITIONS as PartitionIndex - 1;
        let taken = |index| !Acquisition::of_partitions(keyspace, set(&[index])).attempt();
        let mut grant = Acquisition::of_partitions(keyspace, set(&[0, 1, 63, 64, last]));
        assert!(grant.attempt());
        let mut parts = HeldLocks::split(grant, 2, |index| usize::from(index % 2));
        let (mut odd, mut even) = (parts.pop().unwrap(), parts.pop().unwrap());
        assert!(even.lend(&set(&[1])).is_none() && even.lend(&set(&[0, 2])).is_none());
        for _ in 0..2 {
            let lent = even.lend(&set(&[0, 64])).unwrap();
            assert!(lent.is_complete() && taken(0) && taken(64));
            assert!(even.lend(&set(&[0])).is_none(), "it is lent");
            even.take_back(lent);
        }
        // What is lent and not taken back goes with what was lent.
        drop(odd.lend(&set(&[63])).unwrap());
        assert!(!taken(63) && [0, 1, 64, last].into_iter().all(taken));
        drop(even);
        assert!(!taken(0) && !taken(64) && taken(1) && taken(last));
        drop(odd);
        assert!(![0, 1, 63, 64, last].into_iter().any(taken));
    }
}
