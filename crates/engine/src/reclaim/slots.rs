//! Keys of hash slots that another node of the cluster serves now.
//!
//! Invariants: what goes is told to replicas and to the log as DEL, and to nobody as an event: the
//! keys live on elsewhere. No key goes of a slot that is served here.

use keyspace::{Acquisition, PartitionIndex, PartitionSet, Tx, TxOptions};
use proto::Args;

use crate::clients::mailbox::PendingWakes;
use crate::commit::publish::commit;
use crate::runtime::background::{BackgroundAccess, wait_for};
use crate::shared::Shared;

/// So many keys go under one hold of their lock.
const STEP: usize = 128;

/// Deletes all keys of these slots, on a background thread with this lane.
pub fn drop_slots(server: &'static Shared, slots: &[PartitionIndex], lane: usize) {
    let wakes = PendingWakes::default();
    let is_wanted =
        |slot: PartitionIndex| server.keyspace.population(slot) > 0 && !is_kept(server, slot);
    for &slot in slots.iter().filter(|slot| is_wanted(**slot)) {
        for database in 0..server.keyspace.database_count() {
            while drop_some(server, slot, (lane, database), &wakes) {
                server.mailboxes.wake(&wakes);
            }
        }
    }
    server.mailboxes.wake(&wakes);
}

/// Whether keys of a slot have their place here.
fn is_kept(server: &Shared, slot: PartitionIndex) -> bool {
    let routes = server.gates.routing.table();
    routes.is_served(slot)
        || routes.open.contains_key(&slot)
        || server.keyspace.importing().contain(slot)
}

/// Deletes a few keys; whether there may be more.
fn drop_some(
    server: &'static Shared,
    slot: PartitionIndex,
    (lane, database): (usize, usize),
    wakes: &PendingWakes,
) -> bool {
    let keyspace = server.keyspace;
    let only = PartitionSet::from_iter([slot]);
    let mut acquisition = Acquisition::of_partitions(keyspace, only);
    for round in 0.. {
        // The thread has no leave that a stop of the world waits for.
        let access = (!acquisition.wants_world()).then(|| BackgroundAccess::wait(keyspace));
        wait_for(&mut acquisition);
        // The slot may have come back, or be on its way.
        if is_kept(server, slot) || server.gates.replica_role.is_replica() {
            return false;
        }
        let internal = TxOptions::internal(lane, keyspace.clock().now_ms());
        let options = TxOptions { database, heavy: true, sees_expired: true, ..internal };
        let mut tx = Tx::begin(acquisition, options);
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        tx.walk(slot, 0, STEP, |entry| keys.push(entry.key().into()));
        for key in &keys {
            tx.delete(key).expect("the partition of the key is held");
        }
        let words: Vec<&[u8]> =
            std::iter::once(b"DEL".as_slice()).chain(keys.iter().map(|key| &**key)).collect();
        if !keys.is_empty() {
            tx.effects_mut().instead(&words);
        }
        if commit(server, wakes, &mut tx, Args::default()).is_ok() {
            return !keys.is_empty();
        }
        acquisition = tx.widen(round);
        drop(access);
    }
    unreachable!("the world is wide enough")
}
