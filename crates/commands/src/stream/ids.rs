//! Entry IDs as clients write them, and as they are replied.
//!
//! Invariant: what is accepted is what Redis accepts, down to the leniency of C's `strtoull`.

use base::number::{format_i64, parse_i64};
use keyspace::Refusal;
use proto::Reply;
use structs::stream::EntryId;

const INVALID: Refusal =
    Refusal::error("ERR Invalid stream ID specified as stream command argument");
const INVALID_START: Refusal = Refusal::error("ERR invalid start ID for the interval");
const INVALID_END: Refusal = Refusal::error("ERR invalid end ID for the interval");

/// Redis copies an ID into a buffer of this size.
const LEN_MAX: usize = 127;

/// The ID that a new entry is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewId {
    /// By the clock.
    Auto,
    /// The next of this millisecond.
    NextOf(u64),
    /// This one.
    Exact(EntryId),
}

/// An ID in full, or its milliseconds alone, which mean the first of them.
pub(super) fn exact(text: &[u8]) -> Result<EntryId, Refusal> {
    parse(text, 0).ok_or(INVALID)
}

/// The ID that XADD is given, if it is not `*`.
pub(super) fn of_new(text: &[u8]) -> Result<NewId, Refusal> {
    if let Some(ms) = text.strip_suffix(b"-*") {
        return unsigned(ms).filter(|_| text.len() <= LEN_MAX).map(NewId::NextOf).ok_or(INVALID);
    }
    exact(text).map(NewId::Exact)
}

/// The lower end of an interval: `-`, `+`, an ID, or one to be exceeded.
pub(super) fn start(text: &[u8]) -> Result<EntryId, Refusal> {
    match text.strip_prefix(b"(").filter(|id| !id.is_empty()) {
        Some(id) => exact(id)?.next().ok_or(INVALID_START),
        None => bound(text, 0),
    }
}

/// The upper end of an interval; milliseconds alone mean the last of them.
pub(super) fn end(text: &[u8]) -> Result<EntryId, Refusal> {
    match text.strip_prefix(b"(").filter(|id| !id.is_empty()) {
        Some(id) => parse(id, u64::MAX).ok_or(INVALID)?.previous().ok_or(INVALID_END),
        None => bound(text, u64::MAX),
    }
}

/// An ID, or `-` or `+` for the least and the greatest.
pub(super) fn or_edge(text: &[u8]) -> Result<EntryId, Refusal> {
    bound(text, 0)
}

fn bound(text: &[u8], missing: u64) -> Result<EntryId, Refusal> {
    match text {
        b"-" => Ok(EntryId::MIN),
        b"+" => Ok(EntryId::MAX),
        _ => parse(text, missing).ok_or(INVALID),
    }
}

/// The ID in an argument, or none: what follows a list of IDs is told by that.
pub(super) fn parse(text: &[u8], missing: u64) -> Option<EntryId> {
    if text.len() > LEN_MAX {
        return None;
    }
    let text = text.split(|byte| *byte == 0).next()?;
    match text.iter().position(|byte| *byte == b'-') {
        Some(at) => Some(EntryId::new(unsigned(&text[..at])?, unsigned(&text[at + 1..])?)),
        None => Some(EntryId::new(unsigned(text)?, missing)),
    }
}

/// A number as C reads it, with leading blanks, zeros and a sign.
fn unsigned(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_i64(text) {
        return u64::try_from(number).ok();
    }
    let blanks = text.iter().take_while(|byte| matches!(byte, b'\t'..=b'\r' | b' ')).count();
    let text = &text[blanks..];
    let (is_negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// An ID as text.
pub(super) struct IdText {
    bytes: [u8; 41],
    len: usize,
}

impl IdText {
    pub(super) fn new(id: EntryId) -> Self {
        let mut text = Self { bytes: [0; 41], len: 0 };
        text.push_number(id.ms);
        text.push(b"-");
        text.push_number(id.seq);
        text
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn push_number(&mut self, number: u64) {
        match i64::try_from(number) {
            Ok(number) => self.push(format_i64(number, &mut [0; 20])),
            Err(_) => self.push(number.to_string().as_bytes()),
        }
    }
}

/// Replies an ID.
pub(super) fn reply_id(id: EntryId, reply: &mut Reply<'_>) {
    reply.bulk(IdText::new(id).as_bytes());
}

#[cfg(test)]
mod tests {
    use structs::stream::EntryId;

    use super::{IdText, NewId, end, exact, of_new, start};

    /// What Redis 8.2 accepts and refuses.
    #[test]
    fn ids_are_read_as_c_reads_them() {
        let id = EntryId::new;
        let good: &[(&[u8], EntryId)] = &[
            (b"0", id(0, 0)),
            (b"5-6", id(5, 6)),
            (b"007-08", id(7, 8)),
            (b" 5- 6", id(5, 6)),
            (b"+5-+6", id(5, 6)),
            (b"5-6\0rest", id(5, 6)),
            (b"1--05", id(1, u64::MAX - 4)),
            (b"18446744073709551615-18446744073709551615", EntryId::MAX),
        ];
        for (text, expected) in good {
            assert_eq!(exact(text), Ok(*expected), "{}", text.escape_ascii());
        }
        let bad: &[&[u8]] = &[
            b"",
            b"-",
            b"+",
            b"x",
            b"5-",
            b"5-x",
            b"-5",
            b"5--6",
            b"1-1-1",
            b"5 ",
            b"1-*",
            b"18446744073709551616",
            &[b'1'; 128],
        ];
        for text in bad {
            assert!(exact(text).is_err(), "{}", text.escape_ascii());
        }
        assert_eq!(of_new(b"7-*"), Ok(NewId::NextOf(7)));
        assert!(of_new(b"-*").is_err() && of_new(b"x-*").is_err());
    }

    #[test]
    fn intervals_are_open_or_closed() {
        let id = EntryId::new;
        assert_eq!((start(b"-"), end(b"+")), (Ok(EntryId::MIN), Ok(EntryId::MAX)));
        assert_eq!((start(b"+"), end(b"-")), (Ok(EntryId::MAX), Ok(EntryId::MIN)));
        assert_eq!((start(b"5"), end(b"5")), (Ok(id(5, 0)), Ok(id(5, u64::MAX))));
        assert_eq!((start(b"(5"), end(b"(5")), (Ok(id(5, 1)), Ok(id(5, u64::MAX - 1))));
        assert_eq!(end(b"(5-0"), Ok(id(4, u64::MAX)));
        assert!(start(b"(-").is_err() && end(b"(+").is_err() && start(b"(").is_err());
    }

    #[test]
    fn ids_are_written_in_full() {
        for id in [EntryId::MIN, EntryId::MAX, EntryId::new(5, 6)] {
            assert_eq!(IdText::new(id).as_bytes(), id.to_string().as_bytes());
        }
    }
}
