//! Which partitions hold keys, and draws among them.
//!
//! Invariant: the bit of a partition is set while it holds a key of any database. Bit and number
//! change under the partition's lock; a reader without it has a hint.

use std::sync::atomic::{AtomicU64, Ordering};

use base::Random;

use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lock::partition::PartitionIndex;

const WORDS: usize = PARTITIONS.div_ceil(u64::BITS as usize);

/// Draws of a partition, each of which may be in vain.
const DRAWS: usize = 256;

/// A bit for each partition.
pub(crate) struct PopulatedPartitions([AtomicU64; WORDS]);

impl Default for PopulatedPartitions {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; WORDS])
    }
}

impl PopulatedPartitions {
    pub(crate) fn set(&self, partition: PartitionIndex, holds: bool) {
        let (word, bit) = (usize::from(partition) / 64, 1 << (partition % 64));
        if holds {
            self.0[word].fetch_or(bit, Ordering::Relaxed);
        } else {
            self.0[word].fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// The partitions from an index on whose bits are set.
    pub(crate) fn from(&self, from: PartitionIndex) -> impl Iterator<Item = PartitionIndex> {
        let words = self.0.iter().enumerate().skip(usize::from(from) / 64);
        words.flat_map(move |(index, word)| {
            let first = index as u16 * 64;
            let mut bits = word.load(Ordering::Relaxed);
            if first < from {
                bits &= u64::MAX << (from - first);
            }
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as u16)?;
                bits &= bits - 1;
                Some(first + bit)
            })
        })
    }
}

/// The set bits by number, as they were at one look.
struct Ranks {
    words: [u64; WORDS],
    /// How many bits are set before each word, and in all.
    before: [u16; WORDS + 1],
}

impl Ranks {
    fn at(populated: &PopulatedPartitions) -> Self {
        let (mut words, mut before) = ([0; WORDS], [0; WORDS + 1]);
        for (copy, word) in words.iter_mut().zip(&populated.0) {
            *copy = word.load(Ordering::Relaxed);
        }
        // Apart from the sums, so that several words are counted at once.
        for (count, word) in before[1..].iter_mut().zip(&words) {
            *count = word.count_ones() as u16;
        }
        for index in 0..WORDS {
            before[index + 1] += before[index];
        }
        Self { words, before }
    }

    fn count(&self) -> u16 {
        self.before[WORDS]
    }

    /// The partition of a number below the count.
    fn nth(&self, number: u16) -> PartitionIndex {
        let word = self.before.partition_point(|before| *before <= number) - 1;
        let mut bits = self.words[word];
        for _ in self.before[word]..number {
            bits &= bits - 1;
        }
        word as u16 * 64 + bits.trailing_zeros() as u16
    }
}

impl Keyspace {
    /// The partitions from an index on that hold a key of any database.
    pub fn populated(&self, from: PartitionIndex) -> impl Iterator<Item = PartitionIndex> {
        self.populated_bits().from(from)
    }

    /// A partition by the number of keys that it holds, and the number of one of them, if there are
    /// about so many keys in all. `None` if the draws met none.
    ///
    /// A key is as likely as any other but in a partition that holds far more than its share, which
    /// the hash gives to none.
    pub fn draw_partition(
        &self,
        keys: usize,
        random: &mut Random,
    ) -> Option<(PartitionIndex, usize)> {
        let mean = keys / PARTITIONS;
        let most = mean + 8 * (mean.isqrt() + 1);
        // Where keys are few, most partitions have none and need not be drawn.
        let ranks = (keys < PARTITIONS).then(|| Ranks::at(self.populated_bits()));
        let partitions = ranks.as_ref().map_or(PARTITIONS as u16, Ranks::count);
        if partitions == 0 {
            return None;
        }
        (0..DRAWS).find_map(|_| {
            let drawn = random.below(u64::from(partitions)) as u16;
            let partition = ranks.as_ref().map_or(drawn, |ranks| ranks.nth(drawn));
            let number = random.below(most as u64) as usize;
            (number < self.population(partition)).then_some((partition, number))
        })
    }

    /// Counts entries of a partition that came or went; called by the holder after a change.
    pub(crate) fn add_population(&self, partition: PartitionIndex, by: i32) {
        let (before, after) = self.partition(partition).add_population(by);
        if (before == 0) != (after == 0) {
            self.populated_bits().set(partition, after > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PopulatedPartitions, Ranks};
    use crate::keyspace::PARTITIONS;

    #[test]
    fn each_partition_that_holds_keys_has_a_number() {
        let populated = PopulatedPartitions::default();
        let last = PARTITIONS as u16 - 1;
        // Models of the locks have few partitions.
        let mut held = vec![0, 1, 63, 64, 130, 131, 4095, last];
        held.retain(|partition| *partition <= last);
        held.dedup();
        for partition in &held {
            populated.set(*partition, true);
        }
        populated.set(2, true);
        populated.set(2, false);
        let ranks = Ranks::at(&populated);
        assert_eq!(ranks.count(), held.len() as u16);
        assert_eq!((0..ranks.count()).map(|number| ranks.nth(number)).collect::<Vec<_>>(), held);
    }
}
