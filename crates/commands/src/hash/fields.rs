//! The words `FIELDS numfields field [field ...]` of the commands that came with Redis 7.4 and
//! later, and the times beside them.
//!
//! Invariant: what comes out names at least one field, and a deadline lies between 1970 and
//! `DEADLINE_MAX`; all else is refused in the words of Redis 8.2.

use base::number::{format_i64, parse_i64};
use base::time::UnixMillis;
use keyspace::{Outcome, Refusal, Tx};
use proto::Args;
use structs::hash::HashRef;

use super::{live, note_removed};
use crate::arguments::is;
use crate::errors::{NOT_AN_INTEGER, invalid_expire};

/// The latest time that a field may expire at: what Redis has 46 bits for.
const DEADLINE_MAX: UnixMillis = (1 << 46) - 1;

/// Reads the words from `index` on, which are the last ones. `bad_count` refuses a number that is
/// none or not positive.
pub(super) fn parse<'a>(
    args: Args<'a>,
    index: usize,
    bad_count: Refusal,
) -> Result<Args<'a>, Refusal> {
    const MISSING: Refusal =
        Refusal::error("ERR Mandatory argument FIELDS is missing or not at the right position");
    const MISMATCH: Refusal =
        Refusal::error("ERR The `numfields` parameter must match the number of arguments");
    args.get(index).filter(|word| is(word, "FIELDS")).ok_or(MISSING)?;
    let count = args.get(index + 1).and_then(parse_i64).filter(|count| *count > 0);
    let count = count.ok_or(bad_count)?;
    let fields = args.skip(index + 2);
    if fields.len() as i64 == count { Ok(fields) } else { Err(MISMATCH) }
}

/// What most of the commands say to a number of fields that is none.
pub(super) const NOT_POSITIVE: Refusal =
    Refusal::error("ERR Number of fields must be a positive integer");

/// How a time is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Millis,
    UnixSeconds,
    UnixMillis,
}

impl Unit {
    /// The unit that an option word stands for.
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        Some(match word {
            _ if is(word, "EX") => Self::Seconds,
            _ if is(word, "PX") => Self::Millis,
            _ if is(word, "EXAT") => Self::UnixSeconds,
            _ if is(word, "PXAT") => Self::UnixMillis,
            _ => return None,
        })
    }

    /// The deadline that a client's number means, which may be over; `command` is who refuses it.
    pub(super) fn deadline(
        self,
        number: Option<&[u8]>,
        now: UnixMillis,
        command: &str,
    ) -> Result<UnixMillis, Refusal> {
        let number = number.and_then(parse_i64).ok_or(NOT_AN_INTEGER)?;
        if number < 0 {
            return Err(Refusal::error("ERR invalid expire time, must be >= 0"));
        }
        let unit = if matches!(self, Self::Seconds | Self::UnixSeconds) { 1000 } else { 1 };
        let from = if matches!(self, Self::Seconds | Self::Millis) { now } else { 0 };
        let deadline = number.checked_mul(unit).and_then(|millis| millis.checked_add(from));
        deadline.filter(|deadline| *deadline <= DEADLINE_MAX).ok_or_else(|| invalid_expire(command))
    }
}

/// Tells of fields that are gone because a command gave them a time that is over.
pub(super) fn note_overdue(tx: &mut Tx, key: &[u8], fields: &[&[u8]], outcome: Outcome) {
    note_removed(tx, key, fields.len(), outcome);
    let words = [b"HDEL".as_slice(), key].into_iter().chain(fields.iter().copied());
    tx.effects_mut().instead(&words.collect::<Vec<_>>());
}

/// Journals a command about some fields: `head`, then how many and which.
pub(super) fn journal(tx: &mut Tx, head: &[&[u8]], fields: &[&[u8]]) {
    let mut number = [0; 20];
    let number = format_i64(fields.len() as i64, &mut number);
    tx.effects_mut().instead(&[head, &[b"FIELDS", number], fields].concat());
}

/// The deadline of a field that is there: `None` for one that is not, `Some(None)` for one that
/// never expires.
pub(super) fn deadline_of(
    hash: HashRef<'_>,
    field: &[u8],
    now: UnixMillis,
) -> Option<Option<UnixMillis>> {
    live(hash, field, now).map(|found| found.deadline)
}
