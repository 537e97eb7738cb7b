//! Which keys begin with a prefix that was declared: for each prefix the places of its keys in hash
//! space, by partition and database. Walks over them pass by all other keys.
//!
//! A key that begins with several declared prefixes stands in the index of each. Other keys cost
//! nothing but the comparison as they come and go.
//!
//! Invariants: a place is in a prefix's index while the table has an entry there whose key begins
//! so; index and table change together, under the partition's lock. A partition's bit is set while
//! it holds a key of the prefix, of any database; a reader without its lock has a hint.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lock::partition::PartitionIndex;
use crate::populated_partitions::PopulatedPartitions;

/// What a place in an index takes, about: the nodes of a tree are two thirds full.
pub(crate) const PLACE_BYTES: i64 = 16;

/// Bits of a place that no position to go on from has.
const PLACES_TOGETHER: u64 = (1 << 26) - 1;

/// A declared prefix, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrefixNumber(u32);

/// All declared prefixes.
#[derive(Default)]
pub(crate) struct DeclaredPrefixes(Box<[DeclaredPrefix]>);

struct DeclaredPrefix {
    prefix: Box<[u8]>,
    /// The partitions with keys of it.
    populated: PopulatedPartitions,
}

/// The places of one prefix in one database of a partition.
pub(crate) type Places = BTreeSet<u64>;

/// The places in one partition, by prefix and physical database, in rising order: most partitions
/// that have any have those of one prefix in one database.
#[derive(Default)]
pub(crate) struct PrefixIndex(SmallVec<[((PrefixNumber, u32), Places); 1]>);

impl DeclaredPrefixes {
    pub(crate) fn new(prefixes: &[Box<[u8]>]) -> Self {
        let mut prefixes: Vec<_> = prefixes.iter().filter(|it| !it.is_empty()).cloned().collect();
        prefixes.sort();
        prefixes.dedup();
        let declared =
            |prefix| DeclaredPrefix { prefix, populated: PopulatedPartitions::default() };
        Self(prefixes.into_iter().map(declared).collect())
    }

    /// Whether there are any.
    #[inline]
    fn are_there(&self) -> bool {
        !self.0.is_empty()
    }

    /// Those that a key begins with, which are none where none are declared.
    #[inline]
    pub(crate) fn of_key(&self, key: &[u8]) -> SmallVec<[PrefixNumber; 4]> {
        if self.are_there() { self.of(key).collect() } else { SmallVec::new() }
    }

    /// Those that a key begins with.
    fn of<'k>(&'k self, key: &'k [u8]) -> impl Iterator<Item = PrefixNumber> + 'k {
        let numbered = self.0.iter().enumerate();
        let begun = numbered.filter(move |(_, declared)| key.starts_with(&declared.prefix));
        begun.map(|(number, _)| PrefixNumber(number as u32))
    }

    pub(crate) fn prefix(&self, number: PrefixNumber) -> &[u8] {
        &self.0[number.0 as usize].prefix
    }

    /// Notes whether a partition has keys of a prefix; called by the holder after a change.
    pub(crate) fn note(&self, number: PrefixNumber, partition: PartitionIndex, holds: bool) {
        self.0[number.0 as usize].populated.set(partition, holds);
    }
}

impl PrefixIndex {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The places of a prefix in a database.
    pub(crate) fn places(&self, number: PrefixNumber, database: usize) -> Option<&Places> {
        let at = self.find(number, database).ok()?;
        Some(&self.0[at].1)
    }

    /// Whether there are any places of a prefix.
    pub(crate) fn has(&self, number: PrefixNumber) -> bool {
        let at = self.0.partition_point(|((other, _), _)| *other < number);
        self.0.get(at).is_some_and(|((other, _), _)| *other == number)
    }

    /// Adds a place; whether it was not there.
    pub(crate) fn add(&mut self, number: PrefixNumber, database: usize, place: u64) -> bool {
        let at = match self.find(number, database) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, ((number, database as u32), Places::new()));
                at
            }
        };
        self.0[at].1.insert(place)
    }

    /// Takes a place away; whether it was there.
    pub(crate) fn remove(&mut self, number: PrefixNumber, database: usize, place: u64) -> bool {
        let Ok(at) = self.find(number, database) else { return false };
        let was_there = self.0[at].1.remove(&place);
        if self.0[at].1.is_empty() {
            self.0.remove(at);
        }
        was_there
    }

    /// Takes all places of a database out.
    pub(crate) fn take(&mut self, database: usize) -> Vec<(PrefixNumber, Places)> {
        let mut taken = Vec::new();
        self.0.retain(|((number, of), places)| {
            let stays = *of != database as u32;
            if !stays {
                taken.push((*number, std::mem::take(places)));
            }
            stays
        });
        taken
    }

    /// Puts places of a database back that were taken out.
    pub(crate) fn put(&mut self, number: PrefixNumber, database: usize, places: Places) {
        match self.find(number, database) {
            Ok(at) => self.0[at].1 = places,
            Err(at) => self.0.insert(at, ((number, database as u32), places)),
        }
    }

    fn find(&self, number: PrefixNumber, database: usize) -> Result<usize, usize> {
        self.0.binary_search_by_key(&(number, database as u32), |(name, _)| *name)
    }
}

/// Where a walk goes on that is to see a place: what lies close together is visited together.
pub(crate) const fn resumption(place: u64) -> u64 {
    place & !PLACES_TOGETHER
}

impl Keyspace {
    /// The longest declared prefix that all keys have which begin with these bytes.
    #[must_use]
    pub fn declared_prefix(&self, bytes: &[u8]) -> Option<PrefixNumber> {
        let prefixes = &self.declared_prefixes;
        prefixes.of(bytes).max_by_key(|number| prefixes.prefix(*number).len())
    }

    /// The first partition from an index on that may hold a key of any database or, if a prefix is
    /// named, one that begins so.
    #[must_use]
    pub fn next_populated(
        &self,
        from: usize,
        prefix: Option<PrefixNumber>,
    ) -> Option<PartitionIndex> {
        let from = PartitionIndex::try_from(from).ok()?;
        if usize::from(from) >= PARTITIONS {
            return None;
        }
        match prefix {
            None => self.populated(from).next(),
            Some(number) => self.declared_prefixes.0[number.0 as usize].populated.from(from).next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DeclaredPrefixes, PrefixIndex};

    #[test]
    fn a_key_stands_in_the_index_of_each_prefix_that_it_begins_with() {
        let declared = ["user:", "", "user:vip:", "order/", "user:"].map(|it| it.as_bytes().into());
        let declared = DeclaredPrefixes::new(&declared);
        let of = |key: &str| -> Vec<String> {
            let numbers = declared.of(key.as_bytes());
            numbers.map(|it| String::from_utf8_lossy(declared.prefix(it)).into_owned()).collect()
        };
        assert_eq!(of("user:1"), ["user:"]);
        assert_eq!(of("user:vip:1"), ["user:", "user:vip:"]);
        assert_eq!(of("order/"), ["order/"]);
        assert_eq!(of("user"), [""; 0]);
        assert!(!DeclaredPrefixes::new(&[]).are_there());
    }

    #[test]
    fn places_go_by_prefix_and_database() {
        let declared = DeclaredPrefixes::new(&[b"a".as_slice().into(), b"b".as_slice().into()]);
        let [a, b] = [b"a", b"b"].map(|key| declared.of(key).next().expect("it is declared"));
        let mut index = PrefixIndex::default();
        assert!(index.add(a, 0, 7) && index.add(a, 3, 7) && index.add(b, 3, 9));
        assert!(!index.add(a, 0, 7) && !index.remove(b, 0, 7));
        let taken = index.take(3);
        assert_eq!(taken.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [a, b]);
        assert!(index.has(a) && !index.has(b));
        for (number, places) in taken {
            index.put(number, 3, places);
        }
        assert!(index.places(b, 3).is_some_and(|places| places.contains(&9)));
        assert!(index.remove(a, 0, 7) && index.remove(a, 3, 7) && index.remove(b, 3, 9));
        assert!(index.is_empty());
    }
}
