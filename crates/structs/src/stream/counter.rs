//! A number that a stream counts on.
//!
//! Invariant: no counter is past what an argument of a command can say, so whatever is counted has
//! a record that replicas and the next start take.

use std::fmt;

/// How often something happened: entries added, entries read, deliveries. A counter stands still at
/// [`Counter::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counter(u64);

impl Counter {
    /// The greatest, which is the greatest integer of the protocol.
    pub const MAX: Counter = Counter(i64::MAX.cast_unsigned());

    /// The counter that is nearest to a number.
    #[must_use]
    pub const fn new(number: u64) -> Counter {
        if number > Counter::MAX.0 { Counter::MAX } else { Counter(number) }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// One more.
    #[must_use]
    pub const fn next(self) -> Counter {
        Counter::new(self.0 + 1)
    }

    /// One less.
    #[must_use]
    pub const fn previous(self) -> Counter {
        Counter(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
