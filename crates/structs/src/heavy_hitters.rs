//! The heaviest of very many keys, by a weight that adds up: the Space-Saving summary of Metwally,
//! Agrawal and El Abbadi (2005), with weights.
//!
//! Invariants: at most `capacity` keys are held; a key that weighs more than the whole divided by
//! the capacity is among them; what is told of a key is never more than the key weighed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The summary.
#[derive(Debug)]
pub struct HeavyHitters {
    capacity: usize,
    places: HashMap<Arc<[u8]>, usize>,
    held: Vec<Held>,
    /// The weights with the places that have them: the lightest is first.
    order: BTreeSet<(u64, usize)>,
}

#[derive(Debug)]
struct Held {
    key: Arc<[u8]>,
    /// What the key weighed at most.
    weight: u64,
    /// How much of that may be others', whose place it took.
    error: u64,
}

impl HeavyHitters {
    /// An empty one, which holds at most so many keys, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            places: HashMap::new(),
            held: Vec::new(),
            order: BTreeSet::new(),
        }
    }

    /// Adds to the weight of a key. A weight of zero changes nothing.
    pub fn add(&mut self, key: &[u8], weight: u64) {
        if weight == 0 {
            return;
        }
        if let Some(&place) = self.places.get(key) {
            let held = &mut self.held[place];
            self.order.remove(&(held.weight, place));
            held.weight = held.weight.saturating_add(weight);
            self.order.insert((held.weight, place));
            return;
        }
        let key: Arc<[u8]> = key.into();
        if self.held.len() < self.capacity {
            self.place(self.held.len(), Held { key, weight, error: 0 });
            return;
        }
        let Some((lightest, place)) = self.order.pop_first() else { return };
        self.places.remove(&self.held[place].key);
        let weight = lightest.saturating_add(weight);
        self.place(place, Held { key, weight, error: lightest });
    }

    /// Has every weight count half. A key of which nothing is left is given up.
    pub fn halve(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.places.clear();
        self.order.clear();
        for Held { key, weight, error } in held {
            if weight > 1 {
                let half = Held { key, weight: weight / 2, error: error / 2 };
                self.place(self.held.len(), half);
            }
        }
    }

    fn place(&mut self, place: usize, held: Held) {
        self.places.insert(Arc::clone(&held.key), place);
        self.order.insert((held.weight, place));
        match self.held.get_mut(place) {
            Some(old) => *old = held,
            None => self.held.push(held),
        }
    }

    /// The keys that are held, each with what it weighed at least; in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.held.iter().map(|held| (&*held.key, held.weight - held.error))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use base::Random;
    use proptest::prelude::{prop, prop_assert, proptest};

    use super::HeavyHitters;

    fn weight_of(hitters: &HeavyHitters, key: &[u8]) -> Option<u64> {
        hitters.iter().find(|(own, _)| *own == key).map(|(_, weight)| weight)
    }

    #[test]
    fn few_keys_are_told_exactly() {
        let mut hitters = HeavyHitters::new(3);
        for (key, weight) in [("a", 1), ("b", 2), ("a", 5), ("c", 0), ("b", 1)] {
            hitters.add(key.as_bytes(), weight);
        }
        assert_eq!(weight_of(&hitters, b"a"), Some(6));
        assert_eq!(weight_of(&hitters, b"b"), Some(3));
        assert_eq!(weight_of(&hitters, b"c"), None);
        assert_eq!(hitters.iter().count(), 2);
    }

    #[test]
    fn a_newcomer_takes_the_place_of_the_lightest_and_is_told_without_what_that_weighed() {
        let mut hitters = HeavyHitters::new(2);
        hitters.add(b"heavy", 100);
        hitters.add(b"light", 7);
        hitters.add(b"new", 2);
        assert_eq!(weight_of(&hitters, b"heavy"), Some(100));
        assert_eq!(weight_of(&hitters, b"light"), None);
        assert_eq!(weight_of(&hitters, b"new"), Some(2));
    }

    #[test]
    fn halves_are_what_is_left_of_weights() {
        let mut hitters = HeavyHitters::new(2);
        for (key, weight) in [("heavy", 101), ("light", 6), ("new", 3)] {
            hitters.add(key.as_bytes(), weight);
        }
        hitters.halve();
        assert_eq!(weight_of(&hitters, b"heavy"), Some(50));
        assert_eq!(weight_of(&hitters, b"new"), Some(1));
        hitters.add(b"heavy", 1);
        assert_eq!(weight_of(&hitters, b"heavy"), Some(51));
        for _ in 0..10 {
            hitters.halve();
        }
        assert_eq!(hitters.iter().count(), 0);
    }

    #[test]
    fn hot_keys_are_found_among_very_many_cold_ones() {
        let (mut hitters, mut random) = (HeavyHitters::new(100), Random::from_seed(3));
        for number in 0..100_000_u64 {
            hitters.add(format!("cold{number}").as_bytes(), 1);
            hitters.add(format!("hot{}", random.below(5)).as_bytes(), 1);
        }
        let mut found: Vec<_> = hitters.iter().collect();
        found.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
        assert!(found[..5].iter().all(|(key, _)| key.starts_with(b"hot")), "{:?}", &found[..6]);
        assert!(found[4].1 > 18_000, "{:?}", &found[..6]);
    }

    proptest! {
        /// Every promise at the head of this file, against plain sums.
        #[test]
        fn weights_keep_within_their_bounds(
            capacity in 1_usize..12,
            steps in prop::collection::vec((0_u8..40, 0_u64..50), 0..400),
        ) {
            let (mut hitters, mut sums) = (HeavyHitters::new(capacity), BTreeMap::new());
            for &(key, weight) in &steps {
                hitters.add(&[key], weight);
                *sums.entry(key).or_insert(0) += weight;
            }
            let total: u64 = sums.values().sum();
            prop_assert!(hitters.iter().count() <= capacity);
            for (key, weight) in hitters.iter() {
                prop_assert!(weight <= sums[&key[0]]);
            }
            for (key, sum) in sums {
                let is_heavy = sum > total / capacity as u64;
                prop_assert!(!is_heavy || weight_of(&hitters, &[key]).is_some());
            }
        }
    }
}
