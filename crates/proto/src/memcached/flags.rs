//! The flags of meta commands: letters, some with a token right behind them.
//!
//! Invariant: no letter comes twice, and each is one that the command knows.

use super::Failure;
use super::line::Words;

/// The flags of one meta command, in the order the client gave them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags<'a> {
    words: Words<'a>,
    letters: Letters,
}

impl<'a> Flags<'a> {
    /// All words of the line are flags.
    pub(super) fn parse(words: Words<'a>, known: Letters) -> Result<Flags<'a>, Failure<'static>> {
        let mut letters = Letters::default();
        for word in words {
            let letter = Letters::of(&word[..1]);
            if letter.0 & letters.0 != 0 {
                return Err(Failure::Client("duplicate flag"));
            }
            if letter.0 & known.0 == 0 {
                return Err(Failure::Client("invalid flag"));
            }
            letters.0 |= letter.0;
        }
        Ok(Flags { words, letters })
    }

    /// Whether the client gave this flag.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        self.letters.0 & Letters::of(&[letter]).0 != 0
    }

    /// Whether the client gave the one flag before the other, and both.
    pub(super) fn has_before(&self, first: u8, second: u8) -> bool {
        let mut letters = self.iter().map(|(letter, _)| letter);
        self.has(first)
            && self.has(second)
            && letters.find(|it| [first, second].contains(it)) == Some(first)
    }

    /// Each letter with its token, which may be empty.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> {
        self.words.map(|word| (word[0], &word[1..]))
    }
}

/// A set of letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Letters(u64);

impl Letters {
    /// These letters; what is no letter is left out.
    pub(super) const fn of(letters: &[u8]) -> Letters {
        let (mut set, mut index) = (0, 0);
        while index < letters.len() {
            if letters[index].is_ascii_alphabetic() {
                set |= 1 << (letters[index] - b'A');
            }
            index += 1;
        }
        Letters(set)
    }
}

#[cfg(test)]
mod tests {
    use super::{Flags, Letters};
    use crate::memcached::Failure;
    use crate::memcached::line::Words;

    #[test]
    fn flags_are_known_and_come_once() {
        let parse = |line: &'static str| Flags::parse(Words::new(line.as_bytes()), KNOWN);
        const KNOWN: Letters = Letters::of(b"AzT");
        let flags = parse("z Ttoken A").expect("all known");
        let listed: Vec<(u8, &[u8])> = flags.iter().collect();
        assert_eq!(listed, [(b'z', &b""[..]), (b'T', b"token"), (b'A', b"")]);
        assert!(flags.has(b'z') && flags.has(b'A') && !flags.has(b'Z'));
        assert_eq!(parse("z z").expect_err("twice"), Failure::Client("duplicate flag"));
        for unknown in ["x", "@", "\u{7f}", "1", "z \u{e9}"] {
            assert_eq!(parse(unknown).expect_err("unknown"), Failure::Client("invalid flag"));
        }
    }
}
