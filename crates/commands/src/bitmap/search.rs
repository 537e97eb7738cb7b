//! Many bits of one string: BITCOUNT, BITPOS.
//!
//! Invariant: a range is meant as GETRANGE means it, in bytes or in bits; a search for a clear bit
//! without an end finds the one after the string.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};
use structs::bits::{BitRange, count_ones_in, find_bit};

use super::StringBytes;
use crate::DataCommand;
use crate::arguments::{integer, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::SYNTAX;
use crate::keys::{Access, first};

const BAD_BIT: Refusal = Refusal::error("ERR The bit argument must be 1 or 0.");

/// About what is counted or searched in a nanosecond, cautiously, in bytes.
const SCANNED_BYTES_PER_NS: u64 = 8;

pub(super) const BITCOUNT: DataCommand = Command {
    spec: Spec {
        name: "BITCOUNT",
        since: "2.6.0",
        group: Group::Bitmap,
        syntax: "key [start end [BYTE | BIT]]",
        summary: "Counts the number of set bits (population counting) in a string.",
        complexity: "O(N)",
        arity: at_least(2),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        history: &[("7.0.0", "Added the `BYTE|BIT` option.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: bitcount,
};

fn bitcount(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let range = match args.len() {
        2 => AskedRange::WHOLE,
        4 | 5 => AskedRange { start: integer(args, 2)?, end: integer(args, 3)?, ..unit(args, 4)? },
        _ => return Err(SYNTAX),
    };
    let mut digits = [0; 20];
    let bytes = StringBytes::of(tx.text(&args[1])?, &mut digits);
    // BITPOS has no such rule.
    let is_empty = range.start < 0 && range.end < 0 && range.start > range.end;
    let range = if is_empty { None } else { range.within(bytes.len()) };
    let count = range.map_or(Ok(0), |range| {
        tx.charge((range.end - range.start) / 8 / SCANNED_BYTES_PER_NS)?;
        Ok(count_ones_in(bytes.chunks(range.bytes()), range))
    })?;
    reply.integer(count as i64);
    Ok(())
}

pub(super) const BITPOS: DataCommand = Command {
    spec: Spec {
        name: "BITPOS",
        since: "2.8.7",
        group: Group::Bitmap,
        syntax: "key bit [start [end [BYTE | BIT]]]",
        summary: "Finds the first set (1) or clear (0) bit in a string.",
        complexity: "O(N)",
        arity: at_least(3),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        history: &[("7.0.0", "Added the `BYTE|BIT` option.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: bitpos,
};

fn bitpos(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let bit = match integer(args, 2)? {
        0 => false,
        1 => true,
        _ => return Err(BAD_BIT),
    };
    if args.len() > 6 {
        return Err(SYNTAX);
    }
    let has_end = args.len() > 4;
    let start = if args.len() > 3 { integer(args, 3)? } else { 0 };
    // Redis reads the unit before the end.
    let unit = unit(args, 5)?;
    let end = if has_end { integer(args, 4)? } else { -1 };
    let range = AskedRange { start, end, ..unit };
    let mut digits = [0; 20];
    let Some(text) = tx.text(&args[1])? else {
        reply.integer(if bit { -1 } else { 0 });
        return Ok(());
    };
    let bytes = StringBytes::of(Some(text), &mut digits);
    let Some(range) = range.within(bytes.len()) else {
        reply.integer(-1);
        return Ok(());
    };
    tx.charge((range.end - range.start) / 8 / SCANNED_BYTES_PER_NS)?;
    let found = find_bit(bytes.chunks(range.bytes()), range, bit);
    // Behind the string everything is clear, unless the client said where to stop.
    let behind = (!bit && !has_end).then(|| bytes.len() as u64 * 8);
    reply.integer(found.or(behind).map_or(-1, |place| place as i64));
    Ok(())
}

/// A range as asked for; negative indexes count from the end.
#[derive(Clone, Copy)]
struct AskedRange {
    start: i64,
    end: i64,
    in_bits: bool,
}

impl AskedRange {
    const WHOLE: Self = Self { start: 0, end: -1, in_bits: false };

    /// The bits meant, of a string of so many bytes; none if there are none.
    fn within(self, len: usize) -> Option<BitRange> {
        let total = if self.in_bits { len as i64 * 8 } else { len as i64 };
        let from_front = |index: i64| if index < 0 { (total + index).max(0) } else { index };
        let (start, end) = (from_front(self.start), from_front(self.end).min(total - 1));
        if start > end {
            return None;
        }
        let (start, end) = (start as u64, end as u64 + 1);
        let unit = if self.in_bits { 1 } else { 8 };
        Some(BitRange { start: start * unit, end: end * unit })
    }
}

/// The unit at an index of the arguments, bytes if none is named; the rest is the whole.
fn unit(args: Args<'_>, index: usize) -> Result<AskedRange, Refusal> {
    let in_bits = match args.get(index) {
        None => false,
        Some(word) if is(word, "BIT") => true,
        Some(word) if is(word, "BYTE") => false,
        Some(_) => return Err(SYNTAX),
    };
    Ok(AskedRange { in_bits, ..AskedRange::WHOLE })
}
