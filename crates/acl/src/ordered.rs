//! What was said, in the order in which it was said last, each thing once.
//!
//! Invariant: both maps hold the same things. Every step is logarithmic, so that rules of a
//! megabyte cost no more than to read them.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::RangeBounds;

/// Things of kind `K`, each with a value.
#[derive(Clone)]
pub(crate) struct Ordered<K, V = ()> {
    places: BTreeMap<K, u64>,
    things: BTreeMap<u64, (K, V)>,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Ordered { places: BTreeMap::new(), things: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, V> Ordered<K, V> {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// In order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.things.values()
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let place = self.places.get(key)?;
        self.things.get_mut(place).map(|(_, value)| value)
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (_, value) = self.things.get(self.places.get(key)?)?;
        Some(value)
    }

    /// Puts the value behind all others; where its key stood before it stands no more.
    pub(crate) fn push(&mut self, key: K, value: V) {
        self.remove(&key);
        let place = self.things.last_key_value().map_or(0, |(last, _)| last + 1);
        self.places.insert(key.clone(), place);
        self.things.insert(place, (key, value));
    }

    /// Removes a key; whether it was there.
    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let place = self.places.remove(key);
        place.is_some_and(|place| self.things.remove(&place).is_some())
    }

    /// Removes all that lie in a range of the keys' own order.
    pub(crate) fn remove_range(&mut self, range: impl RangeBounds<K>) {
        let gone: Vec<K> = self.places.range(range).map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.remove(&key);
        }
    }
}

#[test]
fn what_is_said_again_moves_behind_all_others() {
    let mut said = Ordered::default();
    for (word, value) in [("b", 1), ("a", 2), ("c", 3), ("b", 4)] {
        said.push(word, value);
    }
    assert!(said.iter().eq(&[("a", 2), ("c", 3), ("b", 4)]));
    *said.get_mut("a").expect("it is there") = 5;
    assert!(said.remove("c") && !said.remove("c"));
    assert!(said.iter().eq(&[("a", 5), ("b", 4)]));
    said.remove_range("b"..);
    assert!(said.iter().eq(&[("a", 5)]));
}
