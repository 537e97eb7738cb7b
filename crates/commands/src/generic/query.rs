//! Asking about keys: EXISTS, TYPE, TOUCH.
//!
//! Invariant: only TOUCH is an access to the key; the others leave its access clock alone.

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};

use super::{SHARDED_SUM, charge_keys};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least, exactly};
use crate::keys::{Access, all_from, first};
use crate::prefetch::for_each_key;

pub(super) const EXISTS: DataCommand = Command {
    spec: Spec {
        name: "EXISTS",
        since: "1.0.0",
        group: Group::Generic,
        syntax: "key [key ...]",
        summary: "Determines whether one or more keys exist.",
        complexity: "O(N) where N is the number of keys to check.",
        arity: at_least(2),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[all_from(1, Access::RO)],
        tips: SHARDED_SUM,
        history: &[("3.0.3", "Accepts multiple `key` arguments.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: exists,
};

fn exists(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let keys = args.skip(1);
    charge_keys(tx, keys)?;
    let mut found = 0;
    for_each_key(tx, keys.iter(), |tx, key| {
        found += i64::from(tx.lookup_no_touch(key)?.is_some());
        Ok(())
    })?;
    reply.integer(found);
    Ok(())
}

pub(super) const TYPE: DataCommand = Command {
    spec: Spec {
        name: "TYPE",
        since: "1.0.0",
        group: Group::Generic,
        syntax: "key",
        summary: "Determines the type of value stored at a key.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[first(Access::RO)],
        ..Spec::BASE
    },
    subcommands: &[],
    run: type_of,
};

fn type_of(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let entry = tx.lookup_no_touch(&args[1])?;
    reply.simple(entry.map_or("none", |entry| entry.kind().name()));
    Ok(())
}

pub(super) const TOUCH: DataCommand = Command {
    spec: Spec {
        name: "TOUCH",
        since: "3.2.1",
        group: Group::Generic,
        syntax: "key [key ...]",
        summary: "Returns the number of existing keys out of those specified after updating the \
            time they were last accessed.",
        complexity: "O(N) where N is the number of keys that will be touched.",
        arity: at_least(2),
        flags: Flags::READONLY.and(Flags::FAST),
        keys: &[all_from(1, Access::RO)],
        tips: SHARDED_SUM,
        ..Spec::BASE
    },
    subcommands: &[],
    run: touch,
};

fn touch(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let keys = args.skip(1);
    charge_keys(tx, keys)?;
    let mut found = 0;
    for_each_key(tx, keys.iter(), |tx, key| {
        found += i64::from(tx.touch(key)?);
        Ok(())
    })?;
    reply.integer(found);
    Ok(())
}
