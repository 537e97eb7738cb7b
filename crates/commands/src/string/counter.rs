//! Strings that are numbers: INCR, INCRBY, DECR, DECRBY, INCRBYFLOAT.
//!
//! Invariant: a result that does not fit leaves the key as it was.

use base::long_double::LongDouble;
use keyspace::{EventClass, Lifetime, NewText, Refusal, Text, Tx};
use proto::{Args, Reply};

use crate::DataCommand;
use crate::arguments::integer;
use crate::change::journal_set;
use crate::declare::{Command, Flags, Group, Spec, exactly};
use crate::errors::{INCREMENT_OVERFLOW, NOT_A_FLOAT, NOT_AN_INTEGER};
use crate::keys::{Access, KeySpec, first};

const DECREMENT_OVERFLOW: Refusal = Refusal::error("ERR decrement would overflow");
/// A float that is none any more.
pub(super) const NOT_FINITE: Refusal =
    Refusal::error("ERR increment would produce NaN or Infinity");

/// The key of a counter.
pub(super) const COUNTER: &[KeySpec] = &[first(Access::RW.and(Access::ACCESS).and(Access::UPDATE))];
/// The flags of a counter.
pub(super) const COUNTER_FLAGS: Flags = Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST);

pub(super) const INCR: DataCommand = Command {
    spec: Spec {
        name: "INCR",
        since: "1.0.0",
        group: Group::String,
        syntax: "key",
        summary: "Increments the integer value of a key by one. Uses 0 as initial value if the \
                  key doesn't exist.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: COUNTER_FLAGS,
        keys: COUNTER,
        ..Spec::BASE
    },
    subcommands: &[],
    run: incr,
};

fn incr(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    add(tx, &args[1], 1, reply)
}

pub(super) const INCRBY: DataCommand = Command {
    spec: Spec {
        name: "INCRBY",
        since: "1.0.0",
        group: Group::String,
        syntax: "key increment",
        summary: "Increments the integer value of a key by a number. Uses 0 as initial value if \
                  the key doesn't exist.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: COUNTER_FLAGS,
        keys: COUNTER,
        ..Spec::BASE
    },
    subcommands: &[],
    run: incrby,
};

fn incrby(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    add(tx, &args[1], integer(args, 2)?, reply)
}

pub(super) const DECR: DataCommand = Command {
    spec: Spec {
        name: "DECR",
        since: "1.0.0",
        group: Group::String,
        syntax: "key",
        summary: "Decrements the integer value of a key by one. Uses 0 as initial value if the \
                  key doesn't exist.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: COUNTER_FLAGS,
        keys: COUNTER,
        ..Spec::BASE
    },
    subcommands: &[],
    run: decr,
};

fn decr(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    add(tx, &args[1], -1, reply)
}

pub(super) const DECRBY: DataCommand = Command {
    spec: Spec {
        name: "DECRBY",
        since: "1.0.0",
        group: Group::String,
        syntax: "key decrement",
        summary: "Decrements a number from the integer value of a key. Uses 0 as initial value if \
                  the key doesn't exist.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: COUNTER_FLAGS,
        keys: COUNTER,
        ..Spec::BASE
    },
    subcommands: &[],
    run: decrby,
};

fn decrby(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let by = integer(args, 2)?.checked_neg().ok_or(DECREMENT_OVERFLOW)?;
    add(tx, &args[1], by, reply)
}

#[inline]
fn add(tx: &mut Tx, key: &[u8], by: i64, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let mut sum = 0;
    tx.update_text(key, |text| {
        sum = integer_of(text)?.checked_add(by).ok_or(INCREMENT_OVERFLOW)?;
        Ok(NewText::Integer(sum))
    })?;
    tx.event(EventClass::String, "incrby", key);
    reply.integer(sum);
    Ok(())
}

/// The integer that a counter holds, 0 if it does not exist.
#[inline]
pub(super) fn integer_of(text: Option<Text<'_>>) -> Result<i64, Refusal> {
    text.map_or(Ok(0), |text| text.as_integer().ok_or(NOT_AN_INTEGER))
}

pub(super) const INCRBYFLOAT: DataCommand = Command {
    spec: Spec {
        name: "INCRBYFLOAT",
        since: "2.6.0",
        group: Group::String,
        syntax: "key increment:double",
        summary: "Increment the floating point value of a key by a number. Uses 0 as initial \
                  value if the key doesn't exist.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: COUNTER_FLAGS,
        keys: COUNTER,
        ..Spec::BASE
    },
    subcommands: &[],
    run: incrbyfloat,
};

fn incrbyfloat(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    let number = float_of(tx.peek_text(key)?)?;
    let by = LongDouble::parse(&args[2]).ok_or(NOT_A_FLOAT)?;
    let sum = number + by;
    if !sum.is_finite() {
        return Err(NOT_FINITE);
    }
    let digits = sum.format_human();
    tx.put_text(key, NewText::from_bytes(digits.as_bytes(), false), Lifetime::Keep)?;
    tx.event(EventClass::String, "incrbyfloat", key);
    journal_set(tx, key, digits.as_bytes(), Lifetime::Keep);
    reply.bulk(digits.as_bytes());
    Ok(())
}

/// The float that a counter holds, 0 if it does not exist.
pub(super) fn float_of(text: Option<Text<'_>>) -> Result<LongDouble, Refusal> {
    let number = match text {
        None => Some(LongDouble::from(0)),
        Some(Text::Integer(number)) => Some(LongDouble::from(number)),
        Some(Text::Inline(bytes)) => LongDouble::parse(bytes),
        Some(Text::Large(_)) => None,
    };
    number.ok_or(NOT_A_FLOAT)
}
