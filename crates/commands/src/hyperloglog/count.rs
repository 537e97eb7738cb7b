//! PFADD, PFCOUNT, PFMERGE.
//!
//! Invariant: a count that was computed for one key is kept in its string, as in Redis, so that the
//! next PFCOUNT reads it.

use keyspace::{EventClass, Lifetime, NewText, Refusal, Text, Tx};
use proto::{Args, Reply};
use structs::hyperloglog::{self, Adder, RegisterUpdate, Registers};

use super::{FOREIGN, load, refusal};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::keys::{Access, all_from, first};

/// About what it takes to find a key and to merge 16 bytes of its registers, in nanoseconds.
const MERGE_NS: u64 = 100;
const MERGE_16_NS: u64 = 5;

pub(super) const PFADD: DataCommand = Command {
    spec: Spec {
        name: "PFADD",
        since: "2.8.9",
        group: Group::HyperLogLog,
        syntax: "key [element [element ...]]",
        summary: "Adds elements to a HyperLogLog key. Creates the key if it doesn't exist.",
        complexity: "O(1) to add every element.",
        arity: at_least(2),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
        keys: &[first(Access::RW.and(Access::INSERT))],
        ..Spec::BASE
    },
    subcommands: &[],
    run: pfadd,
};

fn pfadd(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (key, elements) = (&args[1], args.skip(2));
    let (changes, mut bytes) = (tx.effects().changes(), load(tx, key)?);
    let sparse_max = tx.keyspace().settings().containers.hyperloglog_sparse_bytes.get();
    let created = bytes.is_none();
    let bytes = bytes.get_or_insert_with(hyperloglog::new);
    let mut updated = u64::from(created);
    let mut adder = Adder::new(bytes, sparse_max);
    for element in elements.iter() {
        updated += u64::from(adder.add(RegisterUpdate::of(element)).map_err(refusal)?);
    }
    if updated > 0 {
        hyperloglog::forget_count(bytes).map_err(refusal)?;
        store(tx, key, bytes)?;
        tx.event(EventClass::String, "pfadd", key);
        tx.effects_mut().set_changes(changes + updated);
    }
    reply.integer(i64::from(updated > 0));
    Ok(())
}

pub(super) const PFCOUNT: DataCommand = Command {
    spec: Spec {
        name: "PFCOUNT",
        since: "2.8.9",
        group: Group::HyperLogLog,
        syntax: "key [key ...]",
        summary: "Returns the approximated cardinality of the set(s) observed by the HyperLogLog \
                  key(s).",
        complexity: "O(1) with a very small average constant time when called with a single key. \
                     O(N) with N being the number of keys, and much bigger constant times, when \
                     called with multiple keys.",
        arity: at_least(2),
        flags: Flags::READONLY.and(Flags::MAY_REPLICATE),
        keys: &[all_from(1, Access::RW.and(Access::ACCESS)).noted(
            "RW because it may change the internal representation of the key, and propagate to \
             replicas",
        )],
        ..Spec::BASE
    },
    subcommands: &[],
    run: pfcount,
};

fn pfcount(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let keys = args.skip(1);
    if keys.len() > 1 {
        reply.integer(union(tx, keys)?.count() as i64);
        return Ok(());
    }
    let key = &args[1];
    let count = match tx.text(key)? {
        None => 0,
        Some(Text::Inline(bytes)) => match hyperloglog::cached_count(bytes).map_err(refusal)? {
            Some(count) => count,
            None => count_and_keep(tx, key)?,
        },
        Some(_) => return Err(FOREIGN),
    };
    reply.integer(count as i64);
    Ok(())
}

/// Counts, and writes the count into the string: a change for replicas as well.
fn count_and_keep(tx: &mut Tx, key: &[u8]) -> Result<u64, Refusal> {
    let mut bytes = load(tx, key)?.unwrap_or_else(hyperloglog::new);
    let count = hyperloglog::count(&bytes).map_err(refusal)?;
    hyperloglog::cache_count(&mut bytes, count).map_err(refusal)?;
    store(tx, key, &bytes)?;
    Ok(count)
}

pub(super) const PFMERGE: DataCommand = Command {
    spec: Spec {
        name: "PFMERGE",
        since: "2.8.9",
        group: Group::HyperLogLog,
        syntax: "destkey [sourcekey [sourcekey ...]]",
        summary: "Merges one or more HyperLogLog values into a single key.",
        complexity: "O(N) to merge N HyperLogLogs, but with high constant times.",
        arity: at_least(2),
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::OPTIMISTIC),
        keys: &[
            first(Access::RW.and(Access::ACCESS).and(Access::INSERT)),
            all_from(2, Access::RO.and(Access::ACCESS)),
        ],
        ..Spec::BASE
    },
    subcommands: &[],
    run: pfmerge,
};

fn pfmerge(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let (destination, sparse_max) =
        (&args[1], tx.keyspace().settings().containers.hyperloglog_sparse_bytes.get());
    let bytes = tx.compute(|tx| {
        let union = union(tx, args.skip(1))?;
        let mut bytes = load(tx, destination)?.unwrap_or_else(hyperloglog::new);
        union.store(&mut bytes, sparse_max).map_err(refusal)?;
        Ok(bytes)
    })?;
    store(tx, destination, &bytes)?;
    // As Redis names it.
    tx.event(EventClass::String, "pfadd", destination);
    reply.ok();
    Ok(())
}

/// The registers of several keys together.
fn union(tx: &Tx, keys: Args<'_>) -> Result<Registers, Refusal> {
    let mut cost = keys.len() as u64 * MERGE_NS;
    tx.charge(cost)?;
    let mut registers = Registers::default();
    for key in keys.iter() {
        match tx.text(key)? {
            None => {}
            Some(Text::Inline(bytes)) => {
                cost += bytes.len() as u64 / 16 * MERGE_16_NS;
                tx.charge(cost)?;
                registers.merge(bytes).map_err(refusal)?;
            }
            Some(_) => return Err(FOREIGN),
        }
    }
    Ok(registers)
}

pub(super) fn store(tx: &mut Tx, key: &[u8], bytes: &[u8]) -> Result<(), Refusal> {
    tx.put_text(key, NewText::Bytes { bytes, raw: true }, Lifetime::Keep)?;
    Ok(())
}
