//! Hash slots: the slot of a key, and sets of slots.
//!
//! Invariant: a `Slot` is below [`SLOTS`].

use std::fmt;

use base::hash_slot::hash_slot;

/// The number of slots of a cluster.
pub const SLOTS: u16 = base::hash_slot::HASH_SLOTS;

/// A hash slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(u16);

impl Slot {
    /// The slot of this number, if there is one.
    pub const fn new(number: u16) -> Option<Slot> {
        if number < SLOTS { Some(Slot(number)) } else { None }
    }

    /// The slot of a key: of what stands in its first braces, if anything does, else of all of it.
    pub fn of_key(key: &[u8]) -> Slot {
        Slot(hash_slot(key))
    }

    /// All slots, in their order.
    pub fn all() -> impl DoubleEndedIterator<Item = Slot> + ExactSizeIterator {
        (0..SLOTS).map(Slot)
    }

    /// The number of the slot.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The place of the slot in a list of all.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

const WORDS: usize = SLOTS as usize / 64;

/// The bytes of a set on the bus.
pub(crate) const SET_LEN: usize = SLOTS as usize / 8;

/// A set of slots.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet(Box<[u64; WORDS]>);

impl SlotSet {
    /// The set of none.
    pub fn empty() -> SlotSet {
        SlotSet(Box::new([0; WORDS]))
    }

    /// The set of all.
    pub fn full() -> SlotSet {
        SlotSet(Box::new([u64::MAX; WORDS]))
    }

    /// Whether `slot` is in the set.
    pub fn contains(&self, slot: Slot) -> bool {
        self.0[slot.index() / 64] >> (slot.index() % 64) & 1 == 1
    }

    /// Takes `slot` in; whether the set lacked it.
    pub fn insert(&mut self, slot: Slot) -> bool {
        let is_new = !self.contains(slot);
        self.0[slot.index() / 64] |= 1 << (slot.index() % 64);
        is_new
    }

    /// Takes `slot` out; whether the set had it.
    pub fn remove(&mut self, slot: Slot) -> bool {
        let is_there = self.contains(slot);
        self.0[slot.index() / 64] &= !(1 << (slot.index() % 64));
        is_there
    }

    /// How many slots are in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set has no slot.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The slots of the set, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                (rest != 0).then(|| {
                    rest &= rest - 1;
                    Slot((index * 64) as u16 + bit as u16)
                })
            })
        })
    }

    /// The slots as runs, each by its first and its last slot.
    pub fn ranges(&self) -> Vec<(Slot, Slot)> {
        let mut ranges: Vec<(Slot, Slot)> = Vec::new();
        for slot in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if last.0 + 1 == slot.0 => *last = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        ranges
    }

    /// The slots that are in this set and not in `other`.
    #[must_use]
    pub fn minus(&self, other: &SlotSet) -> SlotSet {
        SlotSet(Box::new(std::array::from_fn(|index| self.0[index] & !other.0[index])))
    }

    /// The slots that are in both sets.
    #[must_use]
    pub fn and(&self, other: &SlotSet) -> SlotSet {
        SlotSet(Box::new(std::array::from_fn(|index| self.0[index] & other.0[index])))
    }

    /// The slots that are in either set.
    #[must_use]
    pub fn or(&self, other: &SlotSet) -> SlotSet {
        SlotSet(Box::new(std::array::from_fn(|index| self.0[index] | other.0[index])))
    }

    /// Reads a set as it stands on the bus; `bytes` has [`SET_LEN`] of them.
    pub(crate) fn from_wire(bytes: &[u8]) -> SlotSet {
        let mut set = SlotSet::empty();
        for (word, bytes) in set.0.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("chunks are of eight bytes"));
        }
        set
    }

    pub(crate) fn put_wire(&self, out: &mut Vec<u8>) {
        out.extend(self.0.iter().flat_map(|word| word.to_le_bytes()));
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> SlotSet {
        let mut set = SlotSet::empty();
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.ranges();
        formatter.debug_set().entries(ranges.iter().map(|(a, b)| a.0..=b.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    use super::{SET_LEN, SLOTS, Slot, SlotSet};

    #[test]
    fn a_key_has_the_slot_that_servers_give_it() {
        let cases: [(&[u8], u16); 6] = [
            (b"foo", 12182),
            (b"bar", 5061),
            (b"{a}b", 15495),
            (b"a", 15495),
            (b"", 0),
            (b"b", 3300),
        ];
        for (key, slot) in cases {
            assert_eq!(Slot::of_key(key).get(), slot, "{}", key.escape_ascii());
        }
        assert_eq!(Slot::of_key(b"a{b}c{d}"), Slot::of_key(b"b"));
        assert_eq!(Slot::of_key(b"{{a}}"), Slot::of_key(b"{a"));
        assert_ne!(Slot::of_key(b"{}x"), Slot::of_key(b""));
        assert_ne!(Slot::of_key(b"{x"), Slot::of_key(b"x"));
    }

    #[test]
    fn there_is_no_slot_behind_the_last() {
        assert_eq!(Slot::new(SLOTS), None);
        assert_eq!(Slot::all().next_back(), Slot::new(SLOTS - 1));
        assert_eq!(SlotSet::full().len(), usize::from(SLOTS));
    }

    #[test]
    fn a_slot_is_the_bit_of_its_byte_from_the_low_end() {
        let mut bytes = Vec::new();
        SlotSet::from_iter([Slot(0), Slot(9), Slot(16_383)]).put_wire(&mut bytes);
        assert_eq!((bytes.len(), bytes[0], bytes[1], bytes[2047]), (SET_LEN, 1, 2, 128));
    }

    proptest! {
        #[test]
        fn a_set_is_what_was_put_in(
            steps in prop::collection::vec((0..SLOTS, any::<bool>()), 0..200),
        ) {
            let (mut set, mut model) = (SlotSet::empty(), BTreeSet::new());
            for (number, is_insert) in steps {
                let slot = Slot(number);
                if is_insert {
                    prop_assert_eq!(set.insert(slot), model.insert(slot));
                } else {
                    prop_assert_eq!(set.remove(slot), model.remove(&slot));
                }
            }
            prop_assert!(set.iter().eq(model.iter().copied()));
            prop_assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
            let of_ranges: Vec<u16> = set.ranges().iter().flat_map(|(a, b)| a.0..=b.0).collect();
            prop_assert_eq!(of_ranges, model.iter().map(|slot| slot.0).collect::<Vec<_>>());
            let mut wire = Vec::new();
            set.put_wire(&mut wire);
            prop_assert_eq!(SlotSet::from_wire(&wire), set);
        }
    }
}
