//! The ID of an entry: a time in milliseconds and a sequence number.
//!
//! Invariant: IDs order as pairs of numbers, and so do their sixteen bytes.

use std::fmt;

/// The ID of an entry, or a bound between entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// Unix time in milliseconds, or whatever the client counts.
    pub ms: u64,
    /// What tells entries of one millisecond apart.
    pub seq: u64,
}

impl EntryId {
    /// The least, which no entry has.
    pub const MIN: EntryId = EntryId { ms: 0, seq: 0 };
    /// The greatest.
    pub const MAX: EntryId = EntryId { ms: u64::MAX, seq: u64::MAX };

    /// This ID.
    #[must_use]
    pub const fn new(ms: u64, seq: u64) -> EntryId {
        EntryId { ms, seq }
    }

    /// The next greater one.
    #[must_use]
    pub fn next(self) -> Option<EntryId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(EntryId { ms: self.ms, seq }),
            None => Some(EntryId { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The next smaller one.
    #[must_use]
    pub fn previous(self) -> Option<EntryId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(EntryId { ms: self.ms, seq }),
            None => Some(EntryId { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// The ID by two differences, which wrap around.
    pub(super) fn shifted(self, ms: i64, seq: i64) -> EntryId {
        EntryId { ms: self.ms.wrapping_add_signed(ms), seq: self.seq.wrapping_add_signed(seq) }
    }

    /// The differences that `shifted` undoes.
    pub(super) fn distance_from(self, other: EntryId) -> (i64, i64) {
        let ms = self.ms.wrapping_sub(other.ms).cast_signed();
        (ms, self.seq.wrapping_sub(other.seq).cast_signed())
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.ms, self.seq)
    }
}
