//! The flags of what runs together, as the gates ask for them.
//!
//! Invariant: of a command that runs alone both are its own.

use commands::Flags;

/// The flags of a command, or of all commands of a transaction or a lock batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagSet {
    /// The flags that any of the commands has: what keeps one of them keeps all.
    pub any: Flags,
    /// The flags that each of them has: what lets only some commands pass lets all of them or none.
    pub all: Flags,
}

impl Default for FlagSet {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl FlagSet {
    /// Those of no command.
    pub const EMPTY: Self = Self { any: Flags::NONE, all: Flags::ALL };

    /// Those of a command that has these.
    #[inline]
    #[must_use]
    pub const fn of(flags: Flags) -> Self {
        Self { any: flags, all: flags }
    }

    /// Those of these commands and of others.
    #[inline]
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self { any: self.any.and(others.any), all: self.all.common(others.all) }
    }
}

#[cfg(test)]
mod tests {
    use super::{FlagSet, Flags};

    #[test]
    fn what_all_have_is_what_the_last_has_not_taken_away() {
        let read = FlagSet::of(Flags::READONLY.and(Flags::STALE));
        let write = FlagSet::of(Flags::WRITE.and(Flags::STALE).and(Flags::LOADING));
        let both = FlagSet::EMPTY.and(read).and(write);
        assert_eq!(both.all, Flags::STALE);
        assert_eq!(both.any, read.any.and(write.any));
        assert_eq!(FlagSet::EMPTY.and(read), read);
    }
}
