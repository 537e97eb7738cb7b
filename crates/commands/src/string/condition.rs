//! Conditions on a key's present value: `NX`, `XX`, `IFEQ`, `IFNE`, `IFDEQ`, `IFDNE`.
//!
//! Invariant: a condition on the value is asked of strings only; a missing key fails the ones that
//! want equality and passes the ones that want a difference.

use keyspace::{Refusal, Text, Tx};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::arguments::{Options, is};
use crate::errors::SYNTAX;
use crate::text::charge_scan;

/// A digest of the wrong length.
const INVALID_DIGEST: Refusal =
    Refusal::error("ERR The digest must be exactly 16 hexadecimal characters");

/// What must hold before a key is changed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    /// Nothing.
    #[default]
    Always,
    /// `NX`: the key does not exist.
    Absent,
    /// `XX`: the key exists.
    Present,
    /// The value compares as asked.
    Value(Comparison<'a>),
}

/// A question about a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison<'a> {
    /// `IFEQ`.
    Equal(&'a [u8]),
    /// `IFNE`.
    Different(&'a [u8]),
    /// `IFDEQ`.
    DigestEqual(&'a [u8]),
    /// `IFDNE`.
    DigestDifferent(&'a [u8]),
}

impl<'a> Condition<'a> {
    /// Takes a word of the kind with its value, if the word is one; whether it was. A second
    /// condition is refused.
    pub(super) fn take(
        &mut self,
        word: &'a [u8],
        options: &mut Options<'a>,
    ) -> Result<bool, Refusal> {
        let condition = match word {
            _ if is(word, "NX") => Self::Absent,
            _ if is(word, "XX") => Self::Present,
            _ => match Comparison::named(word) {
                Some(comparison) => Self::Value(comparison(options.value()?)),
                None => return Ok(false),
            },
        };
        // NX NX and XX XX say one thing.
        let repeated = *self == condition && !matches!(condition, Self::Value(_));
        if *self != Self::Always && !repeated {
            return Err(SYNTAX);
        }
        *self = condition;
        Ok(true)
    }

    /// Whether the condition holds for a key now.
    pub(super) fn holds(self, tx: &Tx, key: &[u8]) -> Result<bool, Refusal> {
        match self {
            Self::Always => Ok(true),
            Self::Absent => Ok(tx.lookup_write(key)?.is_none()),
            Self::Present => Ok(tx.lookup_write(key)?.is_some()),
            Self::Value(comparison) => match tx.lookup_write_text(key)? {
                Some(text) => comparison.holds(tx, text),
                None => Ok(comparison.wants_difference()),
            },
        }
    }
}

impl<'a> Comparison<'a> {
    /// The comparison that an option word asks for.
    pub(super) fn named(word: &[u8]) -> Option<fn(&'a [u8]) -> Self> {
        Some(match word {
            _ if is(word, "IFEQ") => Self::Equal,
            _ if is(word, "IFNE") => Self::Different,
            _ if is(word, "IFDEQ") => Self::DigestEqual,
            _ if is(word, "IFDNE") => Self::DigestDifferent,
            _ => return None,
        })
    }

    /// Whether the comparison holds for a string.
    pub(super) fn holds(self, tx: &Tx, text: Text<'_>) -> Result<bool, Refusal> {
        charge_scan(tx, text)?;
        let equal = match self {
            Self::Equal(value) | Self::Different(value) => text.equals(value),
            Self::DigestEqual(hex) | Self::DigestDifferent(hex) if hex.len() != DIGEST_LENGTH => {
                return Err(INVALID_DIGEST);
            }
            Self::DigestEqual(hex) | Self::DigestDifferent(hex) => {
                digest(text).as_bytes().eq_ignore_ascii_case(hex)
            }
        };
        Ok(equal != self.wants_difference())
    }

    fn wants_difference(self) -> bool {
        matches!(self, Self::Different(_) | Self::DigestDifferent(_))
    }
}

const DIGEST_LENGTH: usize = 16;

/// The XXH3 hash of a string, 64 bits in hexadecimal.
pub(super) fn digest(text: Text<'_>) -> String {
    let hash = match text {
        Text::Large(blob) => {
            let mut hasher = Xxh3::new();
            blob.chunks(0..blob.len()).for_each(|chunk| hasher.update(chunk));
            hasher.digest()
        }
        short => xxh3_64(short.contiguous(&mut Vec::new())),
    };
    format!("{hash:016x}")
}
