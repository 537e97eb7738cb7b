//! Fields that are numbers: HINCRBY, HINCRBYFLOAT.
//!
//! Invariant: a result that does not fit leaves the hash as it was; a field keeps its deadline.

use base::long_double::LongDouble;
use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};
use structs::hash::Hash;
use structs::members::{Lifetime, MemberRef, Text};

use super::{limits, live};
use crate::DataCommand;
use crate::arguments::integer;
use crate::declare::{Command, Flags, Group, Spec, exactly};
use crate::errors::{INCREMENT_OVERFLOW, NOT_A_FLOAT};
use crate::keys::{Access, first};

pub(super) const HINCRBY: DataCommand = Command {
    spec: Spec {
        name: "HINCRBY",
        since: "2.0.0",
        summary: "Increments the integer value of a field in a hash by a number. Uses 0 as initial \
            value if the field doesn't exist.",
        ..COUNTER
    },
    subcommands: &[],
    run: hincrby,
};

/// What both have in common.
const COUNTER: Spec = Spec {
    group: Group::Hash,
    syntax: "key field increment",
    complexity: "O(1)",
    arity: exactly(4),
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    keys: &[first(Access::RW.and(Access::ACCESS).and(Access::UPDATE))],
    ..Spec::BASE
};

fn hincrby(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    const NOT_AN_INTEGER: Refusal = Refusal::error("ERR hash value is not an integer");
    let by = integer(args, 3)?;
    let number = present(tx, args)?.map_or(Some(0), |found| found.value.to_integer());
    let sum = number.ok_or(NOT_AN_INTEGER)?.checked_add(by).ok_or(INCREMENT_OVERFLOW)?;
    put(tx, args, Text::Integer(sum), "hincrby")?;
    reply.integer(sum);
    Ok(())
}

pub(super) const HINCRBYFLOAT: DataCommand = Command {
    spec: Spec {
        name: "HINCRBYFLOAT",
        since: "2.6.0",
        syntax: "key field increment:double",
        summary: "Increments the floating point value of a field by a number. Uses 0 as initial \
            value if the field doesn't exist.",
        ..COUNTER
    },
    subcommands: &[],
    run: hincrbyfloat,
};

fn hincrbyfloat(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    const NO_FLOAT_FIELD: Refusal = Refusal::error("ERR hash value is not a float");
    let by = LongDouble::parse(&args[3]).ok_or(NOT_A_FLOAT)?;
    if !by.is_finite() {
        return Err(Refusal::error("ERR value is NaN or Infinity"));
    }
    let found = present(tx, args)?;
    let is_mortal = found.is_some_and(|found| found.deadline.is_some());
    let number = match found {
        Some(found) => LongDouble::parse(found.value.as_bytes(&mut Vec::new())),
        None => Some(LongDouble::from(0)),
    };
    let sum = number.ok_or(NO_FLOAT_FIELD)? + by;
    if !sum.is_finite() {
        return Err(Refusal::error("ERR increment would produce NaN or Infinity"));
    }
    let digits = sum.format_human();
    put(tx, args, Text::Bytes(digits.as_bytes()), "hincrbyfloat")?;
    let value = digits.as_bytes();
    // A server that replays it need not add as we do.
    let (key, field) = (&args[1], &args[2]);
    if is_mortal {
        let effects = tx.effects_mut();
        effects.instead(&[b"HSETEX", key, b"KEEPTTL", b"FIELDS", b"1", field, value]);
    } else {
        // Older servers know this one.
        tx.effects_mut().instead(&[b"HSET", key, field, value]);
    }
    reply.bulk(value);
    Ok(())
}

fn present<'t>(tx: &'t Tx, args: Args<'_>) -> Result<Option<MemberRef<'t>>, Refusal> {
    let hash = tx.peek_view::<Hash>(&args[1])?;
    Ok(hash.and_then(|hash| live(hash, &args[2], tx.expired_until())))
}

fn put(tx: &mut Tx, args: Args<'_>, value: Text<'_>, event: &'static str) -> Result<(), Refusal> {
    let (key, limits) = (&args[1], limits(tx));
    let field = Text::Bytes(&args[2]);
    tx.edit(key, |hash: &mut Hash| hash.set(field, value, Lifetime::Keep, &limits))?;
    tx.effects_mut().add_changes(1);
    tx.member_event(EventClass::Hash, event, key, [&args[2]]);
    Ok(())
}
