//! Many strings at once: MGET, MSET, MSETNX, MSETEX, GAT.
//!
//! Invariant: all keys are locked before the first is touched, so others see all changes or none;
//! a key that is named twice is treated twice, in order.

use base::number::parse_i64;
use keyspace::{EntryRef, Lifetime, Refusal, Tx};
use proto::{Args, Reply};

use super::condition::Condition;
use super::effects::store;
use super::expiry::Expiry;
use crate::DataCommand;
use crate::arguments::{Options, integer, is};
use crate::change::{expire, journal_set, persist, remove};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::{SYNTAX, invalid_expire, wrong_arity};
use crate::keys::{Access, all_from, counted, range};
use crate::prefetch::{for_each, for_each_key};
use crate::text::reply_text;

const INVALID_NUMKEYS: Refusal = Refusal::error("ERR invalid numkeys value");
/// So many bytes are copied to a reply in a nanosecond, as its memory is new.
const BYTES_PER_NS: u64 = 2;

const WRONG_PAIRS: Refusal = Refusal::error("ERR wrong number of key-value pairs");

pub(super) const MGET: DataCommand = Command {
    spec: Spec {
        name: "MGET",
        since: "1.0.0",
        group: Group::String,
        syntax: "key [key ...]",
        summary: "Atomically returns the string values of one or more keys.",
        complexity: "O(N) where N is the number of keys to retrieve.",
        arity: at_least(2),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[all_from(1, Access::RO.and(Access::ACCESS))],
        tips: &["request_policy:multi_shard"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: mget,
};

fn mget(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let before = reply.copied();
    reply.array(args.len() - 1);
    for_each_key(tx, args.skip(1).iter(), |tx, key| {
        reply_string_or_null(tx, key, reply)?;
        // The bytes that the values take are not known before the values are there.
        tx.charge((reply.copied() - before) as u64 / BYTES_PER_NS)
    })
}

pub(super) const MSET: DataCommand = Command {
    spec: Spec {
        name: "MSET",
        since: "1.0.1",
        group: Group::String,
        syntax: "key value [key value ...]",
        summary: "Atomically creates or modifies the string values of one or more keys.",
        complexity: "O(N) where N is the number of keys to set.",
        arity: at_least(3),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[range(1, -1, 2, Access::OW.and(Access::UPDATE))],
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: mset,
};

fn mset(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let pairs = all_pairs(args, "mset")?;
    store_pairs(tx, pairs, Lifetime::Forever)?;
    reply.ok();
    Ok(())
}

pub(super) const MSETNX: DataCommand = Command {
    spec: Spec {
        name: "MSETNX",
        since: "1.0.1",
        group: Group::String,
        syntax: "key value [key value ...]",
        summary: "Atomically modifies the string values of one or more keys only when all keys \
                  don't exist.",
        complexity: "O(N) where N is the number of keys to set.",
        arity: at_least(3),
        flags: Flags::WRITE.and(Flags::DENYOOM),
        keys: &[range(1, -1, 2, Access::OW.and(Access::INSERT))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: msetnx,
};

fn msetnx(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let pairs = all_pairs(args, "msetnx")?;
    let allowed = all_hold(tx, pairs, Condition::Absent)?;
    if allowed {
        store_pairs(tx, pairs, Lifetime::Forever)?;
    }
    reply.integer(i64::from(allowed));
    Ok(())
}

pub(super) const MSETEX: DataCommand = Command {
    spec: Spec {
        name: "MSETEX",
        since: "8.4.0",
        group: Group::String,
        syntax: "numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | \
                 EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
        summary: "Atomically sets multiple string keys with a shared expiration in a single \
                  operation. Supports flexible argument parsing where condition and expiration \
                  flags can appear in any order.",
        complexity: "O(N) where N is the number of keys to set.",
        arity: at_least(4),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS),
        keys: &[counted(1, 2, Access::OW.and(Access::UPDATE))],
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: msetex,
};

fn msetex(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let count = parse_i64(&args[1]).and_then(|count| i32::try_from(count).ok());
    let count = count.and_then(|count| usize::try_from(count).ok()).filter(|&count| count > 0);
    let end = 2 + 2 * count.ok_or(INVALID_NUMKEYS)?;
    if end > args.len() {
        return Err(WRONG_PAIRS);
    }
    let (mut condition, mut expiry) = (Condition::Always, Expiry::default());
    let mut options = Options::from(args, end);
    while let Some(word) = options.word() {
        if is(word, "KEEPTTL") {
            expiry.merge(Expiry::Keep)?;
        } else if is(word, "NX") || is(word, "XX") {
            condition.take(word, &mut options)?;
        } else if !expiry.take(word, &mut options)? {
            return Err(SYNTAX);
        }
    }
    let lifetime = expiry.lifetime(tx.now(), "msetex")?;
    let pairs = args.slice(2..end);
    let allowed = all_hold(tx, pairs, condition)?;
    if allowed {
        store_pairs(tx, pairs, lifetime)?;
        for (key, value) in each_pair(pairs) {
            journal_set(tx, key, value, lifetime);
        }
    }
    reply.integer(i64::from(allowed));
    Ok(())
}

pub(super) const GAT: DataCommand = Command {
    spec: Spec {
        name: "GAT",
        since: "1.31.0",
        group: Group::String,
        syntax: "expiration key [key ...]",
        summary: "Returns the string values of keys after giving them a time to live, as \
                  memcached's command of this name does.",
        complexity: "O(N) where N is the number of keys to retrieve.",
        arity: at_least(3),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[all_from(2, Access::RW.and(Access::ACCESS).and(Access::UPDATE))],
        origin: "dragonfly",
        ..Spec::BASE
    },
    subcommands: &[],
    run: gat,
};

/// memcached takes longer times than this for Unix times.
const LONGEST_RELATIVE_SECONDS: i64 = 60 * 60 * 24 * 30;

/// The time is memcached's: 0 is never, a negative one has passed, up to 30 days are seconds from
/// now, more is a Unix time (its documentation, `protocol.txt`, "Expiration times").
fn gat(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let seconds = integer(args, 1)?;
    let millis = seconds.checked_mul(1000).ok_or_else(|| invalid_expire("gat"))?;
    let keys = args.skip(2);
    reply.array(keys.len());
    for key in keys.iter() {
        if !reply_string_or_null(tx, key, reply)? {
            continue;
        }
        match seconds {
            0 => {
                persist(tx, key)?;
            }
            ..0 => remove(tx, key)?,
            1..=LONGEST_RELATIVE_SECONDS => expire(tx, key, tx.now() + millis)?,
            _ => expire(tx, key, millis)?,
        }
    }
    Ok(())
}

/// Replies the string at a key; a null for a missing key or one of another type. Whether it was a
/// string.
fn reply_string_or_null(tx: &Tx, key: &[u8], reply: &mut Reply<'_>) -> Result<bool, Refusal> {
    let text = tx.read(key)?.and_then(EntryRef::text);
    match text {
        Some(text) => reply_text(text, reply),
        None => reply.null(),
    }
    Ok(text.is_some())
}

/// The arguments behind the name, which must be pairs.
fn all_pairs<'a>(args: Args<'a>, command: &str) -> Result<Args<'a>, Refusal> {
    let pairs = args.skip(1);
    if pairs.len().is_multiple_of(2) { Ok(pairs) } else { Err(wrong_arity(command)) }
}

fn each_pair(pairs: Args<'_>) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
    pairs.iter().step_by(2).zip(pairs.skip(1).iter().step_by(2))
}

fn all_hold(tx: &mut Tx, pairs: Args<'_>, condition: Condition<'_>) -> Result<bool, Refusal> {
    let mut all = true;
    for_each(
        tx,
        each_pair(pairs),
        |(key, _)| key,
        |tx, (key, _)| {
            all = all && condition.holds(tx, key)?;
            Ok(())
        },
    )?;
    Ok(all)
}

fn store_pairs(tx: &mut Tx, pairs: Args<'_>, lifetime: Lifetime) -> Result<(), Refusal> {
    for_each(
        tx,
        each_pair(pairs),
        |(key, _)| key,
        |tx, (key, value)| store(tx, key, value, lifetime),
    )
}
