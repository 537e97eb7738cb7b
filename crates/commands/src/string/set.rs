//! Storing one string: SET, SETNX, SETEX, PSETEX.
//!
//! Invariant: what a command with conditions or times did goes to the journal as a plain SET.

use keyspace::{Lifetime, Refusal, Tx};
use proto::{Args, Reply};

use super::condition::Condition;
use super::effects::store;
use super::expiry::Expiry;
use super::get::reply_value;
use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::change::journal_set;
use crate::declare::{Command, Flags, Group, Role, Spec, at_least, exactly};
use crate::errors::SYNTAX;
use crate::keys::{Access, first};
use crate::time_unit::TimeUnit;

pub(super) const SET: DataCommand = Command {
    spec: Spec {
        name: "SET",
        role: Role::StoreText,
        since: "1.0.0",
        group: Group::String,
        syntax: "key value [NX | XX | IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | \
                 IFDNE ifdne-digest] [GET] [EX seconds | PX milliseconds | \
                 EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
        summary: "Sets the string value of a key, ignoring its type. The key is created if it \
                  doesn't exist.",
        complexity: "O(1)",
        arity: at_least(3),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[first(
            Access::RW.and(Access::ACCESS).and(Access::UPDATE).and(Access::VARIABLE_FLAGS),
        )
        .noted("RW and ACCESS due to the optional `GET` argument")],
        history: &[
            ("2.6.12", "Added the `EX`, `PX`, `NX` and `XX` options."),
            ("6.0.0", "Added the `KEEPTTL` option."),
            ("6.2.0", "Added the `GET`, `EXAT` and `PXAT` option."),
            ("7.0.0", "Allowed the `NX` and `GET` options to be used together."),
            ("8.4.0", "Added 'IFEQ', 'IFNE', 'IFDEQ', 'IFDNE' options."),
        ],
        ..Spec::BASE
    },
    subcommands: &[],
    run: set,
};

#[inline]
fn set(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    if args.len() > 3 {
        return set_with_options(tx, args, reply);
    }
    store(tx, &args[1], &args[2], Lifetime::Forever)?;
    reply.ok();
    Ok(())
}

fn set_with_options(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, value) = (&args[1], &args[2]);
    let options = SetOptions::read(args)?;
    let lifetime = options.expiry.lifetime(tx.now(), "set")?;
    if options.get {
        reply_value(tx, key, reply)?;
    }
    let allowed = options.condition.holds(tx, key)?;
    if allowed {
        store(tx, key, value, lifetime)?;
        journal_set(tx, key, value, lifetime);
    }
    if !options.get {
        if allowed { reply.ok() } else { reply.null() }
    }
    Ok(())
}

#[derive(Default)]
struct SetOptions<'a> {
    condition: Condition<'a>,
    get: bool,
    expiry: Expiry<'a>,
}

impl<'a> SetOptions<'a> {
    fn read(args: Args<'a>) -> Result<Self, Refusal> {
        let mut read = Self::default();
        let mut options = Options::from(args, 3);
        while let Some(word) = options.word() {
            if is(word, "GET") {
                read.get = true;
            } else if is(word, "KEEPTTL") {
                read.expiry.merge(Expiry::Keep)?;
            } else if !read.condition.take(word, &mut options)?
                && !read.expiry.take(word, &mut options)?
            {
                return Err(SYNTAX);
            }
        }
        Ok(read)
    }
}

pub(super) const SETNX: DataCommand = Command {
    spec: Spec {
        name: "SETNX",
        since: "1.0.0",
        group: Group::String,
        syntax: "key value",
        summary: "Set the string value of a key only when the key doesn't exist.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        keys: &[first(Access::OW.and(Access::INSERT))],
        deprecated: Some(("2.6.12", "`SET` with the `NX` argument")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: setnx,
};

fn setnx(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let absent = tx.lookup_write(&args[1])?.is_none();
    if absent {
        store(tx, &args[1], &args[2], Lifetime::Forever)?;
    }
    reply.integer(i64::from(absent));
    Ok(())
}

pub(super) const SETEX: DataCommand = Command {
    spec: Spec {
        name: "SETEX",
        since: "2.0.0",
        group: Group::String,
        syntax: "key seconds value",
        summary: "Sets the string value and expiration time of a key. Creates the key if it \
                  doesn't exist.",
        complexity: "O(1)",
        arity: exactly(4),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[first(Access::OW.and(Access::UPDATE))],
        deprecated: Some(("2.6.12", "`SET` with the `EX` argument")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: setex,
};

fn setex(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    store_for(tx, args, TimeUnit::Seconds, "setex", reply)
}

pub(super) const PSETEX: DataCommand = Command {
    spec: Spec {
        name: "PSETEX",
        since: "2.6.0",
        group: Group::String,
        syntax: "key milliseconds value",
        summary: "Sets both string value and expiration time in milliseconds of a key. The key is \
                  created if it doesn't exist.",
        complexity: "O(1)",
        arity: exactly(4),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[first(Access::OW.and(Access::UPDATE))],
        deprecated: Some(("2.6.12", "`SET` with the `PX` argument")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: psetex,
};

fn psetex(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    store_for(tx, args, TimeUnit::Millis, "psetex", reply)
}

fn store_for(
    tx: &mut Tx,
    args: Args<'_>,
    unit: TimeUnit,
    command: &str,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let (key, value) = (&args[1], &args[3]);
    let lifetime = Lifetime::Until(unit.key_deadline(&args[2], tx.now(), command)?);
    store(tx, key, value, lifetime)?;
    journal_set(tx, key, value, lifetime);
    reply.ok();
    Ok(())
}
