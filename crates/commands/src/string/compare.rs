//! Changing a string only if it is what one thinks: DELEX, DIGEST, DELIFEQ, CAS, CAD.
//!
//! Invariant: the comparison and the change happen under one lock; the journal gets the change
//! alone.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};

use super::condition::{Comparison, digest};
use super::effects::store;
use super::expiry::Expiry;
use crate::DataCommand;
use crate::arguments::Options;
use crate::change::{journal_set, remove};
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::errors::{SYNTAX, wrong_arity};
use crate::keys::{Access, first};
use crate::text::charge_scan;

/// What DELEX says about a condition on a list or a hash; the other commands say WRONGTYPE.
const NOT_A_STRING: Refusal =
    Refusal::error("ERR Key should be of string type if conditions are specified");
const UNKNOWN_CONDITION: Refusal =
    Refusal::error("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE");

pub(super) const DELEX: DataCommand = Command {
    spec: Spec {
        name: "DELEX",
        since: "8.4.0",
        group: Group::String,
        syntax: "key [IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest]",
        summary: "Conditionally removes the specified key based on value or digest comparison.",
        complexity: "O(1) for IFEQ/IFNE, O(N) for IFDEQ/IFDNE where N is the length of the string \
                     value.",
        arity: at_least(2),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::DELETE).and(Access::VARIABLE_FLAGS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: delex,
};

fn delex(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let key = &args[1];
    let condition = match args.len() {
        2 => None,
        4 => Some((&args[2], &args[3])),
        _ => return Err(wrong_arity("delex")),
    };
    let holds = match (tx.peek(key)?, condition) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(entry), Some((word, value))) => {
            let text = entry.text().ok_or(NOT_A_STRING)?;
            let comparison = Comparison::named(word).ok_or(UNKNOWN_CONDITION)?;
            comparison(value).holds(tx, text)?
        }
    };
    remove_if(tx, key, holds, reply)
}

pub(super) const DIGEST: DataCommand = Command {
    spec: Spec {
        name: "DIGEST",
        since: "8.4.0",
        group: Group::String,
        syntax: "key",
        summary: "Returns the hash digest of a string value as a hexadecimal string.",
        complexity: "O(N) where N is the length of the string value.",
        arity: exactly(2),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO.and(Access::ACCESS))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: digest_of,
};

fn digest_of(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    match tx.text(&args[1])? {
        Some(text) => {
            charge_scan(tx, text)?;
            reply.bulk(digest(text).as_bytes());
        }
        None => reply.null(),
    }
    Ok(())
}

pub(super) const DELIFEQ: DataCommand = Command {
    spec: Spec {
        name: "DELIFEQ",
        since: "9.0.0",
        group: Group::String,
        syntax: "key value",
        summary: "Delete key if value matches string.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[first(Access::RM.and(Access::DELETE))],
        origin: "valkey",
        ..Spec::BASE
    },
    subcommands: &[],
    run: delifeq,
};

fn delifeq(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let equal = equals(tx, &args[1], &args[2])?;
    remove_if(tx, &args[1], equal == Some(true), reply)
}

pub(super) const CAS: DataCommand = Command {
    spec: Spec {
        name: "CAS",
        since: "2.0.1",
        group: Group::String,
        syntax: "key old-value new-value [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
                 PXAT unix-time-milliseconds]",
        summary: "Sets the string value of a key if its present value equals the one given.",
        complexity: "O(1)",
        arity: at_least(4),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[first(Access::RW.and(Access::ACCESS).and(Access::UPDATE))],
        origin: "kvrocks",
        ..Spec::BASE
    },
    subcommands: &[],
    run: cas,
};

/// Replies 1 if the value was set, 0 if it differs, -1 if there is none.
fn cas(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, value) = (&args[1], &args[3]);
    let mut expiry = Expiry::default();
    let mut options = Options::from(args, 4);
    while let Some(word) = options.word() {
        if !expiry.take(word, &mut options)? {
            return Err(SYNTAX);
        }
    }
    let lifetime = expiry.lifetime(tx.now(), "cas")?;
    let equal = equals(tx, key, &args[2])?;
    if equal == Some(true) {
        store(tx, key, value, lifetime)?;
        journal_set(tx, key, value, lifetime);
    }
    reply.integer(equal.map_or(-1, i64::from));
    Ok(())
}

pub(super) const CAD: DataCommand = Command {
    spec: Spec {
        name: "CAD",
        since: "2.0.1",
        group: Group::String,
        syntax: "key value",
        summary: "Deletes a key if its present string value equals the one given.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::WRITE,
        keys: &[first(Access::RM.and(Access::DELETE))],
        origin: "kvrocks",
        ..Spec::BASE
    },
    subcommands: &[],
    run: cad,
};

/// Replies 1 if the key was deleted, 0 if its value differs, -1 if there is none.
fn cad(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let equal = equals(tx, &args[1], &args[2])?;
    if equal == Some(true) {
        remove(tx, &args[1])?;
    }
    reply.integer(equal.map_or(-1, i64::from));
    Ok(())
}

fn remove_if(tx: &mut Tx, key: &[u8], holds: bool, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    if holds {
        remove(tx, key)?;
    }
    reply.integer(i64::from(holds));
    Ok(())
}

/// Whether a key holds this string; `None` if it does not exist.
fn equals(tx: &Tx, key: &[u8], value: &[u8]) -> Result<Option<bool>, Refusal> {
    let text = tx.peek_text(key)?;
    text.map(|text| Comparison::Equal(value).holds(tx, text)).transpose()
}
