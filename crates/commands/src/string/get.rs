//! Reading one string whole, and what goes with it: GET, GETDEL, GETEX, GETSET, STRLEN.
//!
//! Invariant: a missing key is a null, a key of another type a WRONGTYPE.

use keyspace::{Lifetime, Refusal, Tx};
use proto::{Args, Reply};

use super::effects::store;
use super::expiry::Expiry;
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::change::{expire, journal_set, persist, remove};
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::SYNTAX;
use crate::keys::{Access, first};
use crate::text::reply_text;

pub(super) const GET: DataCommand = Command {
    spec: Spec {
        name: "GET",
        since: "1.0.0",
        group: Group::String,
        syntax: "key",
        summary: "Returns the string value of a key.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: get,
};

fn get(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    reply_value(tx, &args[1], reply)?;
    Ok(())
}

pub(super) const GETDEL: DataCommand = Command {
    spec: Spec {
        name: "GETDEL",
        since: "6.2.0",
        group: Group::String,
        syntax: "key",
        summary: "Returns the string value of a key after deleting the key.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::ACCESS).and(Access::DELETE))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: getdel,
};

fn getdel(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    if reply_value(tx, &args[1], reply)? {
        remove(tx, &args[1])?;
    }
    Ok(())
}

pub(super) const GETEX: DataCommand = Command {
    spec: Spec {
        name: "GETEX",
        since: "6.2.0",
        group: Group::String,
        syntax: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
                 PXAT unix-time-milliseconds | PERSIST]",
        summary: "Returns the string value of a key after setting its expiration time.",
        complexity: "O(1)",
        arity: at_least(2),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::ACCESS).and(Access::UPDATE))
            .noted("RW and UPDATE because it changes the TTL")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: getex,
};

fn getex(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    let mut expiry = Expiry::default();
    let mut options = Options::from(args, 2);
    while let Some(word) = options.word() {
        if is(word, "PERSIST") {
            expiry.merge(Expiry::Persist)?;
        } else if !expiry.take(word, &mut options)? {
            return Err(SYNTAX);
        }
    }
    // The time is read after the key: a missing key hides a wrong time.
    if !reply_value(tx, key, reply)? {
        return Ok(());
    }
    match expiry {
        Expiry::At(unit, number) => expire(tx, key, unit.key_deadline(number, tx.now(), "getex")?)?,
        Expiry::Persist => {
            persist(tx, key)?;
        }
        Expiry::Unsaid | Expiry::Keep => {}
    }
    Ok(())
}

pub(super) const GETSET: DataCommand = Command {
    spec: Spec {
        name: "GETSET",
        since: "1.0.0",
        group: Group::String,
        syntax: "key value",
        summary: "Returns the previous string value of a key after setting it to a new value.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::ACCESS).and(Access::UPDATE))],
        deprecated: Some(("6.2.0", "`SET` with the `!GET` argument")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: getset,
};

fn getset(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, value) = (&args[1], &args[2]);
    reply_value(tx, key, reply)?;
    store(tx, key, value, Lifetime::Forever)?;
    journal_set(tx, key, value, Lifetime::Forever);
    Ok(())
}

pub(super) const STRLEN: DataCommand = Command {
    spec: Spec {
        name: "STRLEN",
        since: "2.2.0",
        group: Group::String,
        syntax: "key",
        summary: "Returns the length of a string value.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO)],
        ..Spec::BASE
    },
    subcommands: &[],
    run: strlen,
};

fn strlen(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    reply.integer(tx.text(&args[1])?.map_or(0, |text| text.len() as i64));
    Ok(())
}

/// Replies the string at a key or a null; whether there is a string.
#[inline]
pub(super) fn reply_value(tx: &Tx, key: &[u8], reply: &mut Reply<'_>) -> Result<bool, Refusal> {
    match tx.text(key)? {
        Some(text) => {
            reply_text(text, reply);
            Ok(true)
        }
        None => {
            reply.null();
            Ok(false)
        }
    }
}
