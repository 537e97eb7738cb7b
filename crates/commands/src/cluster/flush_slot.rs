//! CLUSTER FLUSHSLOT (Valkey): deletes the keys of one slot, in all databases.
//!
//! Invariants: nothing but the slot is locked, and its keys go at one moment; the journal gets them
//! as DEL, which replicas of all kinds know. Big values are freed elsewhere whichever of SYNC and
//! ASYNC is asked for.

use base::hash_slot::hash_slot;
use keyspace::{EventClass, PARTITIONS, PartitionIndex, Refusal, Tx};
use proto::{Args, Reply};

use super::{DISABLED, slot};
use crate::DataCommand;
use crate::arguments::is;
use crate::declare::{Command, Databases, Flags, Group, LockPlan, Spec, at_least};
use crate::errors::SYNTAX;
use crate::generic::KEY_COST_NS;

/// So many keys stand in one command of the journal.
const KEYS_IN_COMMAND: usize = 1024;

/// The subcommand FLUSHSLOT of the container CLUSTER, most others of which are no data commands.
pub(crate) const FLUSHSLOT: DataCommand = Command {
    spec: Spec {
        name: "FLUSHSLOT",
        since: "9.0.0",
        group: Group::Cluster,
        syntax: "slot [ASYNC | SYNC]",
        summary: "Removes all keys from the target slot.",
        complexity: "O(N) where N is the number of keys in the target slot",
        arity: at_least(3),
        flags: Flags::WRITE.and(Flags::ADMIN).and(Flags::NO_ASYNC_LOADING),
        plan: LockPlan::Visits,
        databases: Databases::All,
        categories: &["@keyspace"],
        origin: "valkey",
        ..Spec::BASE
    },
    subcommands: &[],
    run: flush_slot,
};

fn flush_slot(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    const WRONG: Refusal = Refusal::error(
        "ERR unknown subcommand or wrong number of arguments for 'FLUSHSLOT'. Try CLUSTER HELP.",
    );
    const IMPORTING: Refusal = Refusal::error("ERR Slot import in progress.");
    let (by_slot, replays) = (tx.keyspace().is_by_hash_slot(), tx.replays());
    if !by_slot && !replays {
        return Err(DISABLED);
    }
    if args.len() > 4 {
        return Err(WRONG);
    }
    let slot = slot(&args[2])?;
    if args.get(3).is_some_and(|mode| !is(mode, "ASYNC") && !is(mode, "SYNC")) {
        return Err(SYNTAX);
    }
    if by_slot {
        tx.visit(slot)?;
        // The other server alone says what becomes of what it brings.
        if tx.keyspace().importing().contain(slot) && !replays {
            return Err(IMPORTING);
        }
        tx.charge(tx.keyspace().population(slot) as u64 * KEY_COST_NS)?;
        remove_expired(tx, slot);
        delete_keys(tx, slot, |_| true);
    } else {
        // What a primary or a log of a cluster says to a server that is none of its nodes.
        tx.require_world()?;
        for partition in 0..PARTITIONS as PartitionIndex {
            delete_keys(tx, partition, |key| hash_slot(key) == slot);
        }
    }
    reply.ok();
    Ok(())
}

/// Removes what is over, which no walk comes by, and which counts as a key of the slot.
fn remove_expired(tx: &mut Tx, slot: PartitionIndex) {
    let mut place = Some((0, 0));
    while let Some(from) = place {
        place = tx.sweep_expired(slot, from, usize::MAX).next;
    }
}

/// Deletes those keys of a held partition that are meant, in all databases.
fn delete_keys(tx: &mut Tx, partition: PartitionIndex, is_meant: impl Fn(&[u8]) -> bool) {
    let home = tx.database();
    for database in 0..tx.keyspace().database_count() {
        tx.switch_database(database);
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        tx.walk(partition, 0, usize::MAX, |entry| {
            if is_meant(entry.key()) {
                keys.push(entry.key().into());
            }
        });
        for key in &keys {
            if tx.delete(key).expect("the partition of the key is held") {
                tx.event(EventClass::Generic, "del", key);
            }
        }
        journal_deletions(tx, home, &keys);
    }
    tx.switch_database(home);
}

/// Journals that keys of the present database went; the command's own database is `home`.
fn journal_deletions(tx: &mut Tx, home: usize, keys: &[Box<[u8]>]) {
    if keys.is_empty() || !tx.effects().is_recorded() {
        return;
    }
    let database = tx.database();
    if database != home {
        journal_select(tx, database);
    }
    for some in keys.chunks(KEYS_IN_COMMAND) {
        let words: Vec<&[u8]> =
            std::iter::once(b"DEL".as_slice()).chain(some.iter().map(|key| &**key)).collect();
        tx.effects_mut().instead(&words);
    }
    if database != home {
        journal_select(tx, home);
    }
}

fn journal_select(tx: &mut Tx, database: usize) {
    tx.effects_mut().instead(&[b"SELECT", database.to_string().as_bytes()]);
}
