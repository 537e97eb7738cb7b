//! What a reply shows of the journal.
//!
//! Invariant: what is a command's own ends where its record does, so a client that wrote nothing
//! waits for nobody (WAIT).

use keyspace::Lsn;

/// Up to where the journal has what a reply shows: the reply leaves once it is safe up to there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyLsn {
    /// That place.
    pub lsn: Lsn,
    /// Whether the record that ends there, or one before it, is the command's own.
    pub is_own: bool,
}

impl ReplyLsn {
    /// What others wrote, at most up to there.
    pub fn of_others(lsn: Lsn) -> Self {
        Self { lsn, is_own: false }
    }

    /// The command's own record, which ends there.
    pub fn own(lsn: Lsn) -> Self {
        Self { lsn, is_own: true }
    }

    /// Both: up to the later of the two places, before which there is a record of the command's own
    /// if either has one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { lsn: self.lsn.max(other.lsn), is_own: self.is_own || other.is_own }
    }
}
