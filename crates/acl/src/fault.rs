//! What is wrong with a rule.

use std::fmt;

/// Why a word is no rule, or not now; its text is that of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No such command or category.
    Unknown,
    /// Nothing that a rule may be.
    Syntax,
    /// `+container|subcommand|argument`.
    ArgumentOfSubcommand,
    /// A password to be removed that is not there.
    NoSuchPassword,
    /// A digest that is none.
    Digest,
    /// A key pattern behind `~*`.
    PatternBehindAll,
    /// A channel pattern behind `&*`.
    ChannelBehindAll,
    /// A database that cannot be.
    DatabaseRange,
}

/// A word that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// As a rule.
    Wrong {
        /// The word; a selector as a whole.
        word: Vec<u8>,
        /// Why.
        why: Fault,
    },
    /// The word opens a selector that is not closed.
    Unmatched {
        /// The word.
        word: Vec<u8>,
    },
}

impl RuleError {
    /// The word as a log may show it: passwords are left out.
    pub fn word_without_secrets(&self) -> &[u8] {
        let (RuleError::Wrong { word, .. } | RuleError::Unmatched { word }) = self;
        match word.first() {
            Some(b'>' | b'<' | b'#' | b'!') => b"(redacted)",
            // Where a selector is wrong, a password may be what is wrong in it.
            Some(b'(') => b"(...)",
            _ => word,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Unknown => "Unknown command or category name in ACL",
            Fault::Syntax => "Syntax error",
            Fault::ArgumentOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            Fault::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            Fault::Digest => {
                "The password hash must be exactly 64 characters and contain only lowercase \
                 hexadecimal characters"
            }
            Fault::PatternBehindAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and \
                 does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Fault::ChannelBehindAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid \
                 and does not have any effect. Try 'resetchannels' to start with an empty list of \
                 channels"
            }
            Fault::DatabaseRange => "The provided database ID is out of range",
        })
    }
}
