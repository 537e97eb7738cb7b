//! What files say of keys that Redis has no words for: the flags that memcached's clients keep with
//! a string, that a key is never evicted, and the slots whose keys are copies.
//!
//! In a snapshot a note comes before the entry, among commands an ECHO: what reads notes and
//! commands of Redis passes over both. Invariants: a note is about the entry behind it, flags
//! among commands are about the SET right behind them, what is said of sticking names its key, and
//! what is said of slots takes the place of what was said before; whatever else such a note or word
//! says is nothing.

use proto::Args;

/// The name of the note of flags in a snapshot, and what their ECHO begins with.
pub(crate) const FLAGS: &str = "memcached-flags";

/// The name of the note in a snapshot before a key that is never evicted.
pub(crate) const STICKY: &str = "apus-sticky";

/// The name of the note in a snapshot, and what its ECHO begins with, of the slots whose keys are
/// copies.
pub const COPIED_SLOTS: &str = "apus-copied-slots";

/// What the ECHOs begin with of a key that is not evicted, or may be again.
const STICK: &str = "apus-stick";
const UNSTICK: &str = "apus-unstick";

/// What an ECHO of the log or a note of a snapshot says of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryNote<'a> {
    /// These are the flags of the string that the next command stores.
    Flags(u32),
    /// Whether a key is never evicted from now on.
    Sticks(&'a [u8], bool),
    /// Of these slots alone the keys are copies of what other nodes have.
    CopiedSlots(&'a [u8]),
}

impl<'a> EntryNote<'a> {
    /// The command of a log that carries one: a word of the log's format, whatever clients call
    /// that command.
    pub const COMMAND: &'static [u8] = b"ECHO";

    /// What a command of a log says, if it is such an ECHO.
    #[inline]
    #[must_use]
    pub fn of(args: Args<'a>) -> Option<Self> {
        let is_echo = args.len() == 2 && args[0].eq_ignore_ascii_case(Self::COMMAND);
        is_echo.then(|| Self::parse(args.get(1)?)).flatten()
    }

    /// The word of the ECHO that says it.
    #[must_use]
    pub fn word(&self) -> Vec<u8> {
        match *self {
            Self::Flags(flags) => format!("{FLAGS}={flags}").into_bytes(),
            Self::Sticks(key, true) => [STICK.as_bytes(), b"=", key].concat(),
            Self::Sticks(key, false) => [UNSTICK.as_bytes(), b"=", key].concat(),
            Self::CopiedSlots(slots) => [COPIED_SLOTS.as_bytes(), b"=", slots].concat(),
        }
    }

    /// What such a word says, if it is one.
    #[must_use]
    fn parse(word: &'a [u8]) -> Option<Self> {
        let at = word.iter().position(|byte| *byte == b'=')?;
        let (name, what) = (str::from_utf8(&word[..at]).ok()?, &word[at + 1..]);
        match name {
            FLAGS => parse_flags(what).map(Self::Flags),
            STICK => Some(Self::Sticks(what, true)),
            UNSTICK => Some(Self::Sticks(what, false)),
            COPIED_SLOTS => Some(Self::CopiedSlots(what)),
            _ => None,
        }
    }
}

/// The flags of a note's text.
pub(crate) fn parse_flags(text: &[u8]) -> Option<u32> {
    base::number::parse_i64(text).and_then(|flags| u32::try_from(flags).ok())
}

#[cfg(test)]
mod tests {
    use super::EntryNote;

    #[test]
    fn words_come_back_and_nothing_else_is_one() {
        let key = b"a=b\r\n\xff";
        for note in [
            EntryNote::Flags(0),
            EntryNote::Flags(u32::MAX),
            EntryNote::Sticks(key, true),
            EntryNote::Sticks(key, false),
            EntryNote::Sticks(b"", true),
            EntryNote::CopiedSlots(b"1-3,7-7"),
            EntryNote::CopiedSlots(b""),
        ] {
            assert_eq!(EntryNote::parse(&note.word()), Some(note));
        }
        for word in ["", "memcached-flags", "memcached-flags=", "memcached-flags=-1", "hello=1"] {
            assert_eq!(EntryNote::parse(word.as_bytes()), None);
        }
        assert_eq!(EntryNote::parse(b"memcached-flags=4294967296"), None);
    }
}
