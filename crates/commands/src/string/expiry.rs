//! Deadlines in options: `EX`, `PX`, `EXAT`, `PXAT`, `KEEPTTL` and `PERSIST`.
//!
//! Invariant: a deadline is a positive time that a signed 64-bit count of milliseconds holds; all
//! else is refused as Redis does.

use base::number::parse_i64;
use base::time::UnixMillis;
use keyspace::{Lifetime, Refusal};

use crate::arguments::Options;
use crate::errors::{NOT_AN_INTEGER, SYNTAX, invalid_expire};
use crate::time_unit::TimeUnit;

impl TimeUnit {
    /// The deadline that a client's number means; `command` is the one that refuses it.
    pub(super) fn key_deadline(
        self,
        number: &[u8],
        now: UnixMillis,
        command: &str,
    ) -> Result<UnixMillis, Refusal> {
        let number = parse_i64(number).ok_or(NOT_AN_INTEGER)?;
        let millis = match self {
            Self::Seconds | Self::UnixSeconds => number.checked_mul(1000),
            Self::Millis | Self::UnixMillis => Some(number),
        };
        let deadline = match self {
            Self::Seconds | Self::Millis => millis.and_then(|millis| millis.checked_add(now)),
            Self::UnixSeconds | Self::UnixMillis => millis,
        };
        deadline.filter(|_| number > 0).ok_or_else(|| invalid_expire(command))
    }
}

/// What the options of a command say about a key's time to live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Expiry<'a> {
    /// Nothing.
    #[default]
    Unsaid,
    /// `KEEPTTL`.
    Keep,
    /// `PERSIST`.
    Persist,
    /// A time, read once all words are known to be right.
    At(TimeUnit, &'a [u8]),
}

impl<'a> Expiry<'a> {
    /// Takes a word of the kind with its value, if the word is one; whether it was.
    pub(super) fn take(
        &mut self,
        word: &'a [u8],
        options: &mut Options<'a>,
    ) -> Result<bool, Refusal> {
        let Some(unit) = TimeUnit::of(word) else { return Ok(false) };
        self.merge(Self::At(unit, options.value()?))?;
        Ok(true)
    }

    /// Takes what another word says: a word may be repeated, and its last value counts, but two
    /// different words are refused.
    pub(super) fn merge(&mut self, other: Self) -> Result<(), Refusal> {
        let agrees = match (*self, other) {
            (Self::Unsaid, _) => true,
            (Self::At(unit, _), Self::At(again, _)) => unit == again,
            (said, other) => said == other,
        };
        *self = other;
        if agrees { Ok(()) } else { Err(SYNTAX) }
    }

    /// What the deadline means for a value that is stored now.
    pub(super) fn lifetime(self, now: UnixMillis, command: &str) -> Result<Lifetime, Refusal> {
        Ok(match self {
            Self::Unsaid | Self::Persist => Lifetime::Forever,
            Self::Keep => Lifetime::Keep,
            Self::At(unit, number) => Lifetime::Until(unit.key_deadline(number, now, command)?),
        })
    }
}
