//! The keys of a request, each located once: for its locks, what is fetched ahead, and its handler.
//!
//! Invariant: a location is given for the very bytes that it was found for, and only while they
//! stay where they are.

use std::cell::Cell;

use smallvec::SmallVec;

use crate::keyspace::Location;

/// So many of the next keys are looked at.
const LOOKED_AHEAD: usize = 4;

/// Some keys in the order in which they stand in their request.
#[derive(Default)]
pub struct LocatedKeys {
    keys: SmallVec<[LocatedKey; 4]>,
    /// Behind the last that was asked for: handlers go by the request's order.
    next: Cell<usize>,
}

struct LocatedKey {
    /// Where its bytes lie, and how many they are.
    address: usize,
    len: usize,
    location: Location,
}

impl LocatedKeys {
    /// Another key, behind those that are there.
    #[inline]
    pub fn push(&mut self, key: &[u8], location: Location) {
        self.keys.push(LocatedKey { address: key.as_ptr().addr(), len: key.len(), location });
    }

    /// Another key, whose bytes its handler will have somewhere else.
    pub fn push_elsewhere(&mut self, location: Location) {
        // Nothing lies there, so nothing is taken for it.
        self.keys.push(LocatedKey { address: 0, len: 0, location });
    }

    /// Where the keys belong.
    pub fn locations(&self) -> impl ExactSizeIterator<Item = Location> {
        self.keys.iter().map(|key| key.location)
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Takes the keys behind the first `len` away.
    pub fn truncate(&mut self, len: usize) {
        self.keys.truncate(len);
    }

    /// Where these very bytes belong, if they are one of the next keys, the last one again, or the
    /// first. Some are passed over where a command has not come to all of its keys.
    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> Option<Location> {
        if self.keys.is_empty() { None } else { self.find(key) }
    }

    fn find(&self, key: &[u8]) -> Option<Location> {
        let next = self.next.get();
        let places = (next..next + LOOKED_AHEAD).chain([next.wrapping_sub(1), 0]);
        let found = places.into_iter().find_map(|place| {
            let it = self.keys.get(place)?;
            let is_it = it.address == key.as_ptr().addr() && it.len == key.len();
            is_it.then_some((place, it.location))
        });
        found.map(|(place, location)| {
            self.next.set(place + 1);
            location
        })
    }

    /// The bytes lie somewhere else now.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::LocatedKeys;
    use crate::keyspace::Location;

    #[test]
    fn keys_are_found_in_their_order_again_and_from_the_first_on() {
        let bytes = *b"abcdef";
        let keys: Vec<&[u8]> = bytes.chunks(1).collect();
        let mut located = LocatedKeys::default();
        assert!(located.of(keys[0]).is_none());
        for (number, key) in (0..).zip(&keys) {
            located.push(key, Location::new(number, 0));
        }
        for _ in 0..2 {
            for (number, key) in (0..).zip(&keys) {
                for _ in 0..2 {
                    assert_eq!(located.of(key), Some(Location::new(number, 0)));
                }
            }
        }
        assert!(located.of(&bytes[..2]).is_none(), "it begins there, and is another");
        located.push_elsewhere(Location::new(9, 0));
        assert!(located.of(&bytes[..0]).is_none(), "none has bytes that lie nowhere");
        assert_eq!(located.locations().last(), Some(Location::new(9, 0)));
        let copy = bytes;
        assert!(located.of(&copy[..1]).is_none(), "alike, and not those");
        assert!(located.of(keys[3]).is_none(), "out of order: it is located anew");
        located.clear();
        assert!(located.of(keys[0]).is_none());
    }

    #[test]
    fn keys_that_a_command_did_not_come_to_are_passed_over() {
        let bytes = *b"abcdefgh";
        let keys: Vec<&[u8]> = bytes.chunks(1).collect();
        let mut located = LocatedKeys::default();
        for (number, key) in (0..).zip(&keys) {
            located.push(key, Location::new(number, 0));
        }
        for number in [0, 2, 5] {
            assert_eq!(located.of(keys[number as usize]), Some(Location::new(number, 0)));
        }
        located.truncate(7);
        assert_eq!((located.len(), located.is_empty()), (7, false));
        assert!(located.of(keys[7]).is_none(), "it was taken away");
        assert_eq!(located.of(keys[6]), Some(Location::new(6, 0)));
    }
}
