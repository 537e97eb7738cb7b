//! Reading arguments: the checks that many commands share.
//!
//! Invariant: whatever bytes come in, these return a value or the refusal that Redis gives.

use keyspace::Refusal;
use proto::Args;

use crate::errors::{
    DB_OUT_OF_RANGE, NOT_A_FLOAT, NOT_AN_INTEGER, NOT_IN_32_BITS, NOT_SYMMETRIC, SYNTAX,
};

/// The argument at an index as a whole number.
pub fn integer(args: Args<'_>, index: usize) -> Result<i64, Refusal> {
    args.get(index).and_then(base::number::parse_i64).ok_or(NOT_AN_INTEGER)
}

/// An argument as a whole number whose negative is one, too.
pub fn symmetric(argument: &[u8]) -> Result<i64, Refusal> {
    match base::number::parse_i64(argument).ok_or(NOT_AN_INTEGER)? {
        i64::MIN => Err(NOT_SYMMETRIC),
        number => Ok(number),
    }
}

/// The argument at an index as a finite or infinite number.
pub fn float(args: Args<'_>, index: usize) -> Result<f64, Refusal> {
    args.get(index).and_then(base::number::parse_f64).ok_or(NOT_A_FLOAT)
}

/// An argument as the index of a logical database, of which there are `count`.
pub fn database(argument: &[u8], count: usize) -> Result<usize, Refusal> {
    let index = base::number::parse_i64(argument).ok_or(NOT_AN_INTEGER)?;
    let index = i32::try_from(index).map_err(|_| NOT_IN_32_BITS)?;
    usize::try_from(index).ok().filter(|&index| index < count).ok_or(DB_OUT_OF_RANGE)
}

/// Walks over option words and their values, from left to right.
pub struct Options<'a> {
    args: Args<'a>,
    next: usize,
}

impl<'a> Options<'a> {
    /// The options from an index on.
    #[must_use]
    pub fn from(args: Args<'a>, first: usize) -> Self {
        Self { args, next: first }
    }

    /// The next word, to be compared with [`is`].
    pub fn word(&mut self) -> Option<&'a [u8]> {
        let word = self.args.get(self.next)?;
        self.next += 1;
        Some(word)
    }

    /// The value that must follow an option word.
    pub fn value(&mut self) -> Result<&'a [u8], Refusal> {
        self.word().ok_or(SYNTAX)
    }

    /// The whole number that must follow an option word.
    pub fn integer(&mut self) -> Result<i64, Refusal> {
        base::number::parse_i64(self.value()?).ok_or(NOT_AN_INTEGER)
    }

    /// How many words are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.args.len() - self.next
    }

    /// Where the next word stands.
    #[must_use]
    pub fn position(&self) -> usize {
        self.next
    }
}

/// Whether an argument is this word, in any case of letters.
#[inline]
#[must_use]
pub fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}
