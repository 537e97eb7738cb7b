//! Strings and help on their way to the client.
//!
//! Invariant: a long string is pinned, not copied: its tree's root goes into the reply.

use std::ops::Range;

use base::SharedBytes;
use base::long_double::LongDouble;
use base::number::format_i64;
use keyspace::{Refusal, Text, Tx};
use proto::{Reply, Resp};
use structs::blob::Blob;
use structs::members;

/// Replies a string value.
#[inline]
pub fn reply_text(text: Text<'_>, reply: &mut Reply<'_>) {
    match text {
        Text::Integer(number) => reply.bulk_integer(number),
        Text::Inline(bytes) => reply.bulk(bytes),
        Text::Large(blob) => reply.bulk_shared(Box::new(blob.clone())),
    }
}

/// Replies an element, a member, a field or a value of a container.
#[inline]
pub fn reply_member(text: members::Text<'_>, reply: &mut Reply<'_>) {
    match text {
        members::Text::Bytes(bytes) => reply.bulk(bytes),
        members::Text::Integer(number) => reply.bulk_integer(number),
        members::Text::Long(long) => reply.bulk_shared(Box::new(long.clone())),
    }
}

/// Replies a part of a string value; the range lies within it.
pub fn reply_range(text: Text<'_>, range: Range<usize>, reply: &mut Reply<'_>) {
    match text {
        Text::Integer(number) => reply.bulk(&format_i64(number, &mut [0; 20])[range]),
        Text::Inline(bytes) => reply.bulk(&bytes[range]),
        Text::Large(blob) => reply.bulk_shared(Box::new(BlobRange { blob: blob.clone(), range })),
    }
}

/// Replies a float with all its digits: in RESP2 as a bulk string.
pub fn reply_long_double(number: LongDouble, reply: &mut Reply<'_>) {
    let digits = number.format_human();
    match reply.resp() {
        Resp::Two => reply.bulk(digits.as_bytes()),
        Resp::Three => reply.raw(format!(",{digits}\r\n").as_bytes()),
    }
}

/// Replies what `HELP` of a container prints: its subcommands, then `HELP` itself.
pub fn reply_help(container: &str, lines: &[&str], reply: &mut Reply<'_>) {
    reply.array(lines.len() + 3);
    reply.simple(format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().chain(&["HELP", "    Print this help."]).for_each(|line| reply.simple(line));
}

/// Charges a transaction for one look at all bytes of a string.
#[inline]
pub fn charge_scan(tx: &Tx, text: Text<'_>) -> Result<(), Refusal> {
    match text {
        Text::Large(blob) => tx.charge(blob.len() as u64 / SCANNED_BYTES_PER_NS),
        Text::Integer(_) | Text::Inline(_) => Ok(()),
    }
}

/// What comparing and hashing get through, cautiously.
const SCANNED_BYTES_PER_NS: u64 = 4;

/// A part of a long string.
struct BlobRange {
    blob: Blob,
    range: Range<usize>,
}

impl SharedBytes for BlobRange {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn chunk_at(&self, offset: usize) -> &[u8] {
        let Some(left) = self.range.len().checked_sub(offset) else { return &[] };
        let chunk = self.blob.chunk_at(self.range.start + offset);
        &chunk[..chunk.len().min(left)]
    }
}
