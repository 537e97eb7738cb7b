//! Terms, and places in the log of a shard.
//!
//! Invariant: of two positions of one shard the greater one has all that the other one has, up to
//! what was never safe.

use std::fmt;

/// Milliseconds of a clock that only goes forward.
pub type Millis = u64;

/// How long a log is: an offset of the stream of replication.
pub type Offset = u64;

/// The number of a reign; a shard has one primary in it, at most. Before the first one it is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Term(pub u64);

impl Term {
    /// The term behind this one.
    #[must_use]
    pub fn next(self) -> Term {
        Term(self.0 + 1)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Counts what the map has changed of a shard. An entry that was made for another version than the
/// present one changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ShardVersion(pub u64);

/// Where a log stands: the term of what it ends with, and its length. The later term counts more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Position {
    /// The term of the primary that wrote what stands there.
    pub term: Term,
    /// The length of the log.
    pub offset: Offset,
}
