//! What a request asks for, and why it may be denied.

use proto::Args;

/// What a request does with a key, or with all keys that begin so. Neither of the first two bits:
/// any permission on the key will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyAccess(u8);

/// The databases that a request touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// This one.
    Number(usize),
    /// All of them, as FLUSHALL does.
    All,
}

/// What a request asks access to.
#[derive(Clone, Copy)]
pub struct AccessRequest<'a> {
    /// The id of the command, or of the subcommand if it is one.
    pub command: usize,
    /// The whole request, its name first.
    pub args: Args<'a>,
    /// Where keys stand in `args`, and what is done with them.
    pub keys: &'a [(usize, KeyAccess)],
    /// Where channels stand in `args`.
    pub channels: &'a [usize],
    /// Whether they are patterns, which must then be allowed letter by letter.
    pub channels_are_patterns: bool,
    /// The databases touched, each with the argument that names it (0 where none does).
    pub databases: &'a [(usize, Database)],
}

/// Why a request is denied. Of two denials the greater got further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denial {
    /// The user may not use the database; where it is named.
    Database(usize),
    /// The user may not run the command.
    Command,
    /// The user may not do that with the key in this argument.
    Key(usize),
    /// The user may not use the channel in this argument.
    Channel(usize),
}

impl KeyAccess {
    /// Nothing in particular.
    pub const NOTHING: KeyAccess = KeyAccess(0);
    /// To read the value.
    pub const READ: KeyAccess = KeyAccess(1);
    /// To change the value.
    pub const WRITE: KeyAccess = KeyAccess(2);

    const ALL_OF_PREFIX: u8 = 4;

    /// The same of all keys that begin with the name.
    #[must_use]
    pub const fn of_all(self) -> KeyAccess {
        KeyAccess(self.0 | Self::ALL_OF_PREFIX)
    }

    /// What is done with all keys that begin with the name, if it is with all.
    #[must_use]
    pub(crate) const fn all_of(self) -> Option<KeyAccess> {
        match self.0 & Self::ALL_OF_PREFIX {
            0 => None,
            _ => Some(KeyAccess(self.0 & !Self::ALL_OF_PREFIX)),
        }
    }

    /// Both together.
    #[must_use]
    pub const fn and(self, other: KeyAccess) -> KeyAccess {
        KeyAccess(self.0 | other.0)
    }

    /// Whether a user that may do `self` may do what is needed.
    #[must_use]
    pub(crate) const fn covers(self, needed: KeyAccess) -> bool {
        self.0 & needed.0 == needed.0
    }
}
