//! Which key comes next. Invariant: a cursor never leaves its range.

use base::Random;
use base::crc::crc16;

use super::distribution::{Gaussian, Zipf};

/// Slots of a cluster.
const SLOTS: u16 = 16_384;

/// Numbers of keys, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyRange {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl KeyRange {
    /// `first` is at most `last`, except in the empty part of a range.
    pub(super) fn new(first: u64, last: u64) -> Self {
        Self { first, last }
    }

    /// How many keys.
    pub(super) fn len(self) -> u64 {
        (self.last + 1).saturating_sub(self.first)
    }

    /// One of `parts` parts of about the same size, which together are the range. Empty where
    /// there are fewer keys than parts.
    pub(super) fn part(self, index: u64, parts: u64) -> Self {
        let border = |index: u64| {
            let share = u128::from(self.len()) * u128::from(index) / u128::from(parts.max(1));
            self.first + u64::try_from(share).expect("a share is no larger than the range")
        };
        Self { first: border(index), last: border(index + 1).saturating_sub(1) }
    }
}

/// A connection's way through the keys.
#[derive(Clone, Debug)]
pub(super) enum Cursor {
    /// R.
    Uniform(KeyRange),
    /// S, and P over a part: the range, and the key that comes next.
    Walk(KeyRange, u64),
    /// G.
    Gaussian(Gaussian),
    /// Z.
    Zipf(Zipf),
}

impl Cursor {
    /// One key after the other, and again from the start.
    pub(super) fn walk(range: KeyRange) -> Self {
        Self::Walk(range, range.first)
    }

    /// The next key.
    #[inline]
    pub(super) fn next(&mut self, random: &mut Random) -> u64 {
        match self {
            Self::Uniform(range) => range.first + random.below(range.len()),
            Self::Walk(range, next) => {
                let key = *next;
                *next = if key >= range.last { range.first } else { key + 1 };
                key
            }
            Self::Gaussian(gaussian) => gaussian.next(random),
            Self::Zipf(zipf) => zipf.next(random),
        }
    }
}

/// The slot of a key: of what stands in its first braces, if anything does, else of all of it.
pub(super) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let inside = &key[open + 1..];
        let end = inside.iter().position(|byte| *byte == b'}')?;
        (end > 0).then(|| &inside[..end])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}
