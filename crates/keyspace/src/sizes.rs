//! How many keys there are of each size, by type: what `INFO keysizes` tells.
//!
//! A string's size is its bytes, a container's its elements. Sizes are counted by powers of two
//! where they change, by `Mutation`, so that INFO reads a few counters and looks at no key.
//!
//! Invariant: the counts of all lanes together are those of the keys in the tables, expired ones
//! that are still there included.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use structs::object::Kind;

use crate::counters::bump;
use crate::entry::{EntryRef, Text};
use crate::keyspace::Keyspace;

/// The types whose keys are counted, in the order in which their counts lie.
const KINDS: [Kind; 5] = [Kind::String, Kind::List, Kind::Set, Kind::SortedSet, Kind::Hash];

/// Powers of two that are told apart; what is larger counts with the largest.
const POWERS: usize = 48;

const CELLS: usize = KINDS.len() * POWERS;

/// A type and a power of two: the place of a key among the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeClass(u8);

const _: () = assert!(CELLS <= 1 << u8::BITS, "each class has a number");

/// What one lane counted for one database; nothing until it counts.
#[derive(Default)]
pub(crate) struct LaneSizes(OnceLock<Box<[AtomicI64; CELLS]>>);

/// The counts of a database, of all lanes together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(Box<[i64; CELLS]>);

impl SizeClass {
    /// The class of an entry, if its type is one of those that are counted.
    #[inline]
    pub(crate) fn of(entry: EntryRef<'_>) -> Option<Self> {
        let kind = entry.kind();
        let size = match entry.text() {
            Some(Text::Integer(number)) => decimal_len(number),
            Some(text) => text.len() as u64,
            None => entry.stored()?.elements(kind)?,
        };
        // The kinds that are counted are the first by number.
        Some(Self((kind as usize * POWERS) as u8 + power_of(size)))
    }

    /// The power of two of a value's elements; 0 for a string, which has none.
    #[inline]
    pub(crate) fn power_of_elements(self) -> u8 {
        if self.0 < POWERS as u8 { 0 } else { self.0 % POWERS as u8 }
    }
}

/// 0 for nothing, else one more than the power of two at or below a size.
#[inline]
pub(crate) fn power_of(size: u64) -> u8 {
    (u64::BITS - size.leading_zeros()).min(POWERS as u32 - 1) as u8
}

/// The characters of a number in decimal.
#[inline]
fn decimal_len(number: i64) -> u64 {
    let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
    u64::from(digits) + u64::from(number < 0)
}

impl LaneSizes {
    /// Counts an entry that came, went or became another; called by the lane's thread.
    #[inline]
    pub(crate) fn count(&self, old: Option<SizeClass>, new: Option<SizeClass>) {
        if old == new {
            return;
        }
        let cells = self.cells();
        for (class, by) in [(old, -1), (new, 1)] {
            if let Some(SizeClass(cell)) = class {
                bump(&cells[usize::from(cell)], by);
            }
        }
    }

    /// Adds the counts of many entries, or with the sign -1 takes them away.
    pub(crate) fn add(&self, sizes: &Sizes, sign: i64) {
        for (cell, count) in self.cells().iter().zip(sizes.0.iter()) {
            bump(cell, sign * count);
        }
    }

    #[inline]
    fn cells(&self) -> &[AtomicI64; CELLS] {
        self.0.get_or_init(|| Box::new([const { AtomicI64::new(0) }; CELLS]))
    }
}

impl Sizes {
    /// The sum of what lanes counted.
    pub(crate) fn sum<'a>(lanes: impl Iterator<Item = &'a LaneSizes>) -> Self {
        let mut sum = Box::new([0; CELLS]);
        for cells in lanes.filter_map(|lane| lane.0.get()) {
            for (sum, cell) in sum.iter_mut().zip(cells.iter()) {
                *sum += cell.load(Ordering::Relaxed);
            }
        }
        Self(sum)
    }

    /// The types, each with the sizes at which it has keys: the power of two at or below them, or
    /// 0, and how many.
    pub fn by_kind(&self) -> impl Iterator<Item = (Kind, impl Iterator<Item = (u64, i64)>)> {
        let of_kind = self.0.chunks_exact(POWERS);
        KINDS.into_iter().zip(of_kind).map(|(kind, counts)| {
            let sizes = counts
                .iter()
                .enumerate()
                .map(|(power, &count)| (if power == 0 { 0 } else { 1 << (power - 1) }, count));
            // Lanes are read one after another, so a key on its way may count as less than none.
            (kind, sizes.filter(|(_, count)| *count > 0))
        })
    }

    #[cfg(all(test, not(feature = "shuttle")))]
    pub(crate) fn note(&mut self, entry: EntryRef<'_>) {
        if let Some(SizeClass(cell)) = SizeClass::of(entry) {
            self.0[usize::from(cell)] += 1;
        }
    }
}

impl Keyspace {
    /// How many keys of each size a logical database has.
    #[must_use]
    pub fn sizes(&self, logical: usize) -> Sizes {
        self.counters().sizes(self.physical(logical))
    }
}

#[cfg(test)]
mod tests {
    use super::{POWERS, decimal_len, power_of};

    #[test]
    fn a_power_holds_the_sizes_from_it_to_the_next() {
        for (size, power) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1023, 10), (1024, 11)] {
            assert_eq!(power_of(size), power, "{size}");
        }
        assert_eq!(usize::from(power_of(u64::MAX)), POWERS - 1);
    }

    #[test]
    fn a_number_is_as_long_as_it_is_printed() {
        let powers = (0..19).map(|power| 10_i64.pow(power));
        let near = powers.flat_map(|power| [power - 1, power, power + 1, 1 - power, -power]);
        for number in near.chain([i64::MIN, i64::MAX]) {
            assert_eq!(decimal_len(number), number.to_string().len() as u64, "{number}");
        }
    }
}
