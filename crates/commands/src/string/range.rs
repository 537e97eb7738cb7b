//! Parts of strings: GETRANGE, SUBSTR, SETRANGE, APPEND, PREPEND.
//!
//! Invariant: a string never becomes longer than the setting allows; reading a part of a long
//! string copies nothing, and writing one touches that part alone (save PREPEND, which moves all).

use std::ops::Range;
use std::sync::atomic::Ordering;

use keyspace::{EventClass, INLINE_MAX, Lifetime, NewText, Refusal, Text, Tx};
use proto::{Args, Reply};
use structs::blob::Blob;

use crate::DataCommand;
use crate::arguments::integer;
use crate::change::journal_set;
use crate::declare::{Command, Flags, Group, Spec, exactly};
use crate::errors::TOO_LONG;
use crate::keys::{Access, first};
use crate::text::{charge_scan, reply_range};

const OFFSET_OUT_OF_RANGE: Refusal = Refusal::error("ERR offset is out of range");

const RANGE_COMPLEXITY: &str = "O(N) where N is the length of the returned string. The complexity \
    is ultimately determined by the returned length, but because creating a substring from an \
    existing string is very cheap, it can be considered O(1) for small strings.";

pub(super) const GETRANGE: DataCommand = Command {
    spec: Spec {
        name: "GETRANGE",
        since: "2.4.0",
        group: Group::String,
        syntax: "key start end",
        summary: "Returns a substring of the string stored at a key.",
        complexity: RANGE_COMPLEXITY,
        arity: exactly(4),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: getrange,
};

pub(super) const SUBSTR: DataCommand = Command {
    spec: Spec {
        name: "SUBSTR",
        since: "1.0.0",
        group: Group::String,
        syntax: "key start end",
        summary: "Returns a substring from a string value.",
        complexity: RANGE_COMPLEXITY,
        arity: exactly(4),
        flags: Flags::READONLY,
        keys: &[first(Access::RO.and(Access::ACCESS))],
        deprecated: Some(("2.0.0", "`GETRANGE`")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: getrange,
};

fn getrange(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (start, end) = (integer(args, 2)?, integer(args, 3)?);
    let text = tx.text(&args[1])?.unwrap_or(Text::Inline(b""));
    reply_range(text, resolve(start, end, text.len()), reply);
    Ok(())
}

/// The bytes that two inclusive indexes stand for; negative ones count from the end.
fn resolve(start: i64, end: i64, len: usize) -> Range<usize> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let from_front = |index: i64| match usize::try_from(index) {
        Ok(index) => index,
        Err(_) => len.saturating_sub(usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let (start, end) = (from_front(start), from_front(end).saturating_add(1).min(len));
    if start < end { start..end } else { 0..0 }
}

pub(super) const SETRANGE: DataCommand = Command {
    spec: Spec {
        name: "SETRANGE",
        since: "2.2.0",
        group: Group::String,
        syntax: "key offset value",
        summary: "Overwrites a part of a string value with another by an offset. Creates the key \
                  if it doesn't exist.",
        complexity: "O(1), not counting the time taken to copy the new string in place. Usually, \
                     this string is very small so the amortized complexity is O(1). Otherwise, \
                     complexity is O(M) with M being the length of the value argument.",
        arity: exactly(4),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[first(Access::RW.and(Access::UPDATE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: setrange,
};

fn setrange(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, value) = (&args[1], &args[3]);
    let offset = usize::try_from(integer(args, 2)?).map_err(|_| OFFSET_OUT_OF_RANGE)?;
    let mut len = tx.peek_text(key)?.map_or(0, |text| text.len());
    if !value.is_empty() {
        check_length(tx, offset, value.len())?;
        len = tx.write_text(key, offset, value)?;
        tx.event(EventClass::String, "setrange", key);
    }
    reply.integer(len as i64);
    Ok(())
}

pub(super) const APPEND: DataCommand = Command {
    spec: Spec {
        name: "APPEND",
        since: "2.0.0",
        group: Group::String,
        syntax: "key value",
        summary: "Appends a string to the value of a key. Creates the key if it doesn't exist.",
        complexity: "O(1). The amortized time complexity is O(1) assuming the appended value is \
                     small and the already present value is of any size, since the dynamic string \
                     library used by Redis will double the free space available on every \
                     reallocation.",
        arity: exactly(3),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::INSERT))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: append,
};

fn append(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, value) = (&args[1], &args[2]);
    let len = match tx.peek_text(key)? {
        Some(text) => {
            check_length(tx, text.len(), value.len())?;
            tx.append_text(key, value)?
        }
        None => {
            tx.put_text(key, NewText::from_client(value), Lifetime::Keep)?;
            value.len()
        }
    };
    tx.event(EventClass::String, "append", key);
    reply.integer(len as i64);
    Ok(())
}

pub(super) const PREPEND: DataCommand = Command {
    spec: Spec {
        name: "PREPEND",
        since: "1.0.0",
        group: Group::String,
        syntax: "key value",
        summary: "Prepends a string to the value of a key. Creates the key if it doesn't exist.",
        complexity: "O(N) where N is the length of the resulting string.",
        arity: exactly(3),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::INSERT))],
        origin: "dragonfly",
        ..Spec::BASE
    },
    subcommands: &[],
    run: prepend,
};

fn prepend(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, value) = (&args[1], &args[2]);
    let text = tx.peek_text(key)?.unwrap_or(Text::Inline(b""));
    check_length(tx, text.len(), value.len())?;
    charge_scan(tx, text)?;
    let len = value.len() + text.len();
    if len > INLINE_MAX {
        let mut whole = Blob::from_slice(value);
        match text {
            Text::Large(blob) => blob.chunks(0..blob.len()).for_each(|chunk| whole.append(chunk)),
            short => whole.append(short.contiguous(&mut Vec::new())),
        }
        tx.put_text(key, NewText::Large(whole), Lifetime::Keep)?;
    } else {
        let whole = [value, text.contiguous(&mut Vec::new())].concat();
        tx.put_text(key, NewText::from_bytes(&whole, true), Lifetime::Keep)?;
    }
    tx.event(EventClass::String, "prepend", key);
    journal_whole(tx, key)?;
    reply.integer(len as i64);
    Ok(())
}

/// Journals the value that a key has now, for commands that others do not know.
fn journal_whole(tx: &mut Tx, key: &[u8]) -> Result<(), Refusal> {
    if tx.effects().is_recorded() {
        let mut whole = Vec::new();
        if let Some(text) = tx.peek_text(key)? {
            whole.extend_from_slice(text.contiguous(&mut Vec::new()));
        }
        journal_set(tx, key, &whole, Lifetime::Keep);
    }
    Ok(())
}

/// Refuses a string that would become too long.
fn check_length(tx: &Tx, before: usize, added: usize) -> Result<(), Refusal> {
    let limit = tx.keyspace().settings().max_string.load(Ordering::Relaxed);
    let len = (before as u64).checked_add(added as u64);
    if len.is_some_and(|len| len <= limit) { Ok(()) } else { Err(TOO_LONG) }
}
