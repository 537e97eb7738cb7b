//! What a worker knows of keys that may be evicted.
//!
//! Invariant: a partition is chosen as often as it has keys of those that may go, by weights that
//! are of late.

use base::random::Random;
use keyspace::{EvictionPolicy, EvictionSample, Keyspace, PARTITIONS, PartitionIndex, heap};
use smallvec::SmallVec;

/// Partitions that are looked at in one batch at most, and keys in each of them: neighbours are
/// fetched from memory together, and other partitions have other locks.
const LOOKS: usize = 32;
const KEYS_PER_LOOK: usize = 16;

/// After so long the partitions' weights are taken anew, in microseconds.
const WEIGHTS_US: i64 = 1_000_000;

/// What a worker knows of keys that may go.
pub(crate) struct Evictor {
    pub(crate) rule: Option<EvictionPolicy>,
    pub(crate) weights: Weights,
    pub(crate) random: Random,
    /// What a key and its value take, by those that went last.
    pub(crate) mean_bytes: usize,
    /// Attempts that found the keys in use, since one was evicted or enough was free.
    pub(crate) misses: u32,
}

/// How many keys that may be evicted lie in the partitions up to each.
#[derive(Default)]
pub(crate) struct Weights {
    pub(crate) sums: Vec<u32>,
    pub(crate) made_us: i64,
}

impl Evictor {
    pub(crate) fn new() -> Self {
        Self {
            rule: None,
            weights: Weights::default(),
            random: Random::from_entropy(),
            mean_bytes: heap::STEP,
            misses: 0,
        }
    }

    /// What was found by another rule is worth nothing.
    pub(crate) fn set_policy(&mut self, rule: Option<EvictionPolicy>) {
        if self.rule != rule {
            self.rule = rule;
            self.weights = Weights::default();
        }
    }

    /// Where to look at about so many keys; in rising order, each partition once.
    pub(crate) fn choose(&mut self, keys: usize) -> SmallVec<[EvictionSample; LOOKS]> {
        let in_each = (self.weights.all() / PARTITIONS).clamp(1, KEYS_PER_LOOK);
        let count = keys.div_ceil(in_each).min(LOOKS);
        let (weights, random) = (&self.weights, &mut self.random);
        let mut looks: SmallVec<[EvictionSample; LOOKS]> = (0..count)
            .filter_map(|_| {
                let partition = weights.choose(random)?;
                Some(EvictionSample {
                    partition,
                    random: random.next_u64(),
                    count: keys.div_ceil(count),
                })
            })
            .collect();
        looks.sort_unstable_by_key(|look| look.partition);
        // What was drawn twice is looked at for twice as many.
        looks.dedup_by(|next, look| {
            let is_same = next.partition == look.partition;
            look.count += if is_same { next.count } else { 0 };
            is_same
        });
        looks
    }
}

impl Weights {
    /// Takes the weights anew if they are not of late; whether it did.
    pub(crate) fn refresh(
        &mut self,
        keyspace: &Keyspace,
        rule: EvictionPolicy,
        now_us: i64,
    ) -> bool {
        if !self.sums.is_empty() && now_us - self.made_us < WEIGHTS_US {
            return false;
        }
        let mut sum = 0_u32;
        self.sums.clear();
        self.sums.extend((0..PARTITIONS).map(|partition| {
            let partition = partition as PartitionIndex;
            let keys = match rule.only_volatile {
                true => keyspace.volatile_population(partition),
                false => keyspace.population(partition),
            };
            sum = sum.saturating_add(u32::try_from(keys).unwrap_or(u32::MAX));
            sum
        }));
        self.made_us = now_us;
        keyspace.note_keys(sum);
        true
    }

    /// All keys.
    pub(crate) fn all(&self) -> usize {
        self.sums.last().map_or(0, |sum| *sum as usize)
    }

    /// A partition, by the share of all keys that lies there.
    pub(crate) fn choose(&self, random: &mut Random) -> Option<PartitionIndex> {
        let all = self.all();
        if all == 0 {
            return None;
        }
        let key = random.below(all as u64) as u32;
        Some(self.sums.partition_point(|sum| *sum <= key) as PartitionIndex)
    }
}

#[cfg(test)]
mod tests {
    use base::random::Random;

    use super::{Evictor, PARTITIONS, Weights};

    fn weights(keys_of: impl Fn(usize) -> u32) -> Weights {
        let mut sum = 0;
        let sums = (0..PARTITIONS).map(|partition| {
            sum += keys_of(partition);
            sum
        });
        Weights { sums: sums.collect(), made_us: 0 }
    }

    #[test]
    fn a_partition_is_chosen_as_often_as_it_has_keys() {
        const DRAWS: u32 = 100_000;
        let mut random = Random::from_seed(1);
        // A third of all keys in one partition, a third in another, the rest all over.
        let each = 10;
        let rest = each * (PARTITIONS as u32 - 2);
        let giants = [5, PARTITIONS - 1];
        let weights = weights(|index| if giants.contains(&index) { rest } else { each });
        let mut drawn = [0_u32; 2];
        for _ in 0..DRAWS {
            let partition = usize::from(weights.choose(&mut random).unwrap());
            giants.iter().zip(&mut drawn).for_each(|(giant, count)| {
                *count += u32::from(*giant == partition);
            });
        }
        for count in drawn {
            assert!(count.abs_diff(DRAWS / 3) < DRAWS / 50, "{count} of {DRAWS}");
        }
    }

    #[test]
    fn a_partition_without_keys_is_never_chosen() {
        let mut random = Random::from_seed(2);
        let only = weights(|index| u32::from(index == 77));
        assert!((0..1000).all(|_| only.choose(&mut random) == Some(77)));
        assert_eq!(weights(|_| 0).choose(&mut random), None);
        assert_eq!(Weights::default().choose(&mut random), None);
    }

    #[test]
    fn what_is_drawn_twice_is_looked_at_for_twice_as_many() {
        let mut evictor = Evictor::new();
        evictor.weights = weights(|index| if index == 9 { 1_000_000 } else { 0 });
        let looks = evictor.choose(80);
        assert_eq!(looks.len(), 1);
        assert_eq!((looks[0].partition, looks[0].count), (9, 80));
        evictor.weights = weights(|_| 20);
        let looks = evictor.choose(80);
        assert_eq!(looks.iter().map(|look| look.count).sum::<usize>(), 80);
        assert!(looks.is_sorted_by(|look, next| look.partition < next.partition));
        evictor.weights = weights(|_| 0);
        assert!(evictor.choose(80).is_empty());
    }
}
