//! The bitmap family: bits of strings.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`; a bit is read and
//! written where it lies, so that one bit of a long string costs what one of a short one does.

mod bit;
mod combine;
mod field;
mod search;
#[cfg(test)]
mod tests;

use std::ops::Range;

use base::number::{format_i64, parse_i64};
use keyspace::{Refusal, Text, Tx};
use structs::blob::Blob;

use crate::DataCommand;

/// All commands of the family.
pub const COMMANDS: &[&DataCommand] = &[
    &search::BITCOUNT,
    &field::BITFIELD,
    &field::BITFIELD_RO,
    &combine::BITOP,
    &search::BITPOS,
    &bit::GETBIT,
    &bit::SETBIT,
];

const BAD_OFFSET: Refusal = Refusal::error("ERR bit offset is not an integer or out of range");

/// Writes a byte that is there already: whatever writes bits leaves a plain string behind in Redis,
/// even where all of them were so, and be it a number.
fn rewrite(tx: &mut Tx, key: &[u8], place: usize, byte: u8) -> Result<(), Refusal> {
    if matches!(tx.peek_text(key)?, Some(Text::Large(_))) {
        return Ok(());
    }
    let before = tx.effects().changes();
    tx.write_text(key, place, &[byte])?;
    tx.effects_mut().set_changes(before);
    Ok(())
}

/// A string as bytes, wherever they lie.
#[derive(Clone, Copy)]
enum StringBytes<'a> {
    Short(&'a [u8]),
    Long(&'a Blob),
}

impl<'a> StringBytes<'a> {
    /// The bytes of a string; a number is spelled out into `digits`.
    fn of(text: Option<Text<'a>>, digits: &'a mut [u8; 20]) -> Self {
        match text {
            None => Self::Short(b""),
            Some(Text::Integer(number)) => Self::Short(format_i64(number, digits)),
            Some(Text::Inline(bytes)) => Self::Short(bytes),
            Some(Text::Large(blob)) => Self::Long(blob),
        }
    }

    fn len(self) -> usize {
        match self {
            Self::Short(bytes) => bytes.len(),
            Self::Long(blob) => blob.len(),
        }
    }

    fn byte_at(self, offset: usize) -> Option<u8> {
        match self {
            Self::Short(bytes) => bytes.get(offset).copied(),
            Self::Long(blob) => blob.byte_at(offset),
        }
    }

    /// What lies in one piece from an offset on; empty at the end.
    fn chunk_at(self, offset: usize) -> &'a [u8] {
        match self {
            Self::Short(bytes) => bytes.get(offset..).unwrap_or_default(),
            Self::Long(blob) if offset < blob.len() => blob.chunk_at(offset),
            Self::Long(_) => b"",
        }
    }

    /// The pieces of a range that lies within.
    fn chunks(self, range: Range<usize>) -> impl Iterator<Item = &'a [u8]> {
        let (mut at, end) = (range.start, range.end.min(self.len()));
        std::iter::from_fn(move || {
            let chunk = (at < end).then(|| self.chunk_at(at))?;
            let chunk = &chunk[..chunk.len().min(end - at)];
            at += chunk.len();
            Some(chunk)
        })
    }
}

/// A bit offset below the limit that strings have.
fn bit_offset(tx: &Tx, argument: &[u8]) -> Result<u64, Refusal> {
    let offset = parse_i64(argument).and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|&offset| fits(tx, offset)).ok_or(BAD_OFFSET)
}

/// Whether a string may be so long as to have this bit.
fn fits(tx: &Tx, offset: u64) -> bool {
    offset / 8 < tx.keyspace().settings().max_string.load(std::sync::atomic::Ordering::Relaxed)
}
