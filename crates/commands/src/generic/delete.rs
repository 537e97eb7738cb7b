//! Removing keys: DEL, UNLINK.
//!
//! Invariant: big values are freed elsewhere whichever of the two is called, so they differ in
//! name only.

use keyspace::{EventClass, Refusal, Tx};
use proto::{Args, Reply};

use super::{SHARDED_SUM, charge_keys};
use crate::DataCommand;
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::keys::{Access, all_from};
use crate::prefetch::for_each_key;

pub(super) const DEL: DataCommand = Command {
    spec: Spec {
        name: "DEL",
        since: "1.0.0",
        group: Group::Generic,
        syntax: "key [key ...]",
        summary: "Deletes one or more keys.",
        complexity: "O(N) where N is the number of keys that will be removed. When a key to \
            remove holds a value other than a string, the individual complexity for this key is \
            O(M) where M is the number of elements in the list, set, sorted set or hash. Removing \
            a single key that holds a string value is O(1).",
        arity: at_least(2),
        flags: Flags::WRITE,
        keys: &[all_from(1, Access::RM.and(Access::DELETE))],
        tips: SHARDED_SUM,
        ..Spec::BASE
    },
    subcommands: &[],
    run: delete,
};

pub(super) const UNLINK: DataCommand = Command {
    spec: Spec {
        name: "UNLINK",
        since: "4.0.0",
        group: Group::Generic,
        syntax: "key [key ...]",
        summary: "Asynchronously deletes one or more keys.",
        complexity: "O(1) for each key removed regardless of its size. Then the command does O(N) \
            work in a different thread in order to reclaim memory, where N is the number of \
            allocations the deleted objects where composed of.",
        arity: at_least(2),
        flags: Flags::WRITE.and(Flags::FAST),
        keys: &[all_from(1, Access::RM.and(Access::DELETE))],
        tips: SHARDED_SUM,
        ..Spec::BASE
    },
    subcommands: &[],
    run: delete,
};

fn delete(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let keys = args.skip(1);
    charge_keys(tx, keys)?;
    let mut removed = 0;
    for_each_key(tx, keys.iter(), |tx, key| {
        if tx.delete(key)? {
            tx.event(EventClass::Generic, "del", key);
            removed += 1;
        }
        Ok(())
    })?;
    reply.integer(removed);
    Ok(())
}
