//! Keys of hash slots that another node of the cluster serves now.
//!
//! Invariants: what goes is told to replicas and to the log as DEL, and to nobody as an event: the
//! keys live on elsewhere. No key goes of a slot that is served here, and none of a slot that is
//! not noted as one whose keys are copies.

use std::collections::BTreeSet;
use std::thread::sleep;

use keyspace::{Acquisition, PartitionIndex, PartitionSet, Tx, TxOptions};
use persist::entry_notes::EntryNote;
use proto::Args;
use proto::args::encode_command;

use crate::clients::mailbox::PendingWakes;
use crate::commit::publish::commit;
use crate::runtime::background::{BETWEEN_LOOKS, BackgroundAccess, wait_for};
use crate::shared::Shared;

/// So many keys go under one hold of their lock.
const STEP: usize = 128;

/// Notes that what is here of these slots, or comes, is a copy, but where clients may reach it.
pub fn note_copied(server: &Shared, slots: &[PartitionIndex]) {
    note(server, slots, |slot| !has_its_place(server, slot));
}

/// Notes that another node has taken these slots with all that is in them, though the gates do not
/// know it yet.
pub fn note_lost(server: &Shared, slots: &[PartitionIndex]) {
    note(server, slots, |_| true);
}

/// Whether there are keys of a slot here that are copies. Such a slot must not be opened or served.
pub fn has_copies(server: &Shared, slot: PartitionIndex) -> bool {
    server.gates.copied_slots.contain(slot) && server.keyspace.population(slot) > 0
}

fn note(server: &Shared, slots: &[PartitionIndex], is_meant: impl Fn(PartitionIndex) -> bool) {
    let noted = &server.gates.copied_slots;
    let add = |all: &mut BTreeSet<PartitionIndex>| {
        let before = all.len();
        all.extend(slots.iter().filter(|slot| is_meant(**slot)));
        all.len() > before
    };
    noted.change(add, |text| tell(server, text));
}

/// Keys may come to slots that are served here, or open, which are nowhere else: those are noted no
/// more. To be called when the table of the gates has changed.
pub fn forget_copied(server: &Shared) {
    retain_noted(server, |slot| !has_its_place(server, slot));
}

fn retain_noted(server: &Shared, stays: impl Fn(PartitionIndex) -> bool) {
    let noted = &server.gates.copied_slots;
    let retain = |all: &mut BTreeSet<PartitionIndex>| {
        let before = all.len();
        all.retain(|slot| stays(*slot));
        all.len() < before
    };
    noted.change(retain, |text| tell(server, text));
}

/// Tells the log and replicas what is noted by now.
fn tell(server: &Shared, text: &str) {
    let mut record = Vec::new();
    let word = EntryNote::CopiedSlots(text.as_bytes()).word();
    encode_command([EntryNote::COMMAND, &word].into_iter(), &mut record);
    server.journal.append(&record);
}

/// Deletes all keys of those of these slots that are noted, on a background thread with this lane.
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
    // A slot that is brought, by a mark that was set before its note, keeps that.
    let dropped: BTreeSet<PartitionIndex> = slots.iter().copied().collect();
    let is_over = |slot| {
        dropped.contains(&slot)
            && server.keyspace.population(slot) == 0
            && !server.keyspace.importing().contain(slot)
    };
    if !server.gates.replica_role.is_replica() {
        retain_noted(server, |slot| !is_over(slot) && !has_its_place(server, slot));
    }
}

/// Whether keys of a slot are not to be dropped.
fn is_kept(server: &Shared, slot: PartitionIndex) -> bool {
    has_its_place(server, slot)
        || server.keyspace.importing().contain(slot)
        || !server.gates.copied_slots.contain(slot)
}

/// Whether clients may reach keys of a slot here.
fn has_its_place(server: &Shared, slot: PartitionIndex) -> bool {
    let routes = server.gates.routing.table();
    routes.is_served(slot) || routes.open.contains_key(&slot)
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
    for widenings in 0.. {
        // The thread has no leave that a stop of the world waits for.
        let access = (!acquisition.wants_world()).then(|| BackgroundAccess::wait(keyspace));
        wait_for(&mut acquisition);
        // The slot may have come back, or be on its way.
        if is_kept(server, slot) || server.gates.replica_role.is_replica() {
            return false;
        }
        // Asked with the lock: a pause is answered behind what has it.
        if keyspace.settings().holds_expiry(keyspace.clock().now_ms()) {
            drop((acquisition, access));
            sleep(BETWEEN_LOOKS);
            return !server.gates.shutdown_request.is_asked();
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
        acquisition = tx.widen(widenings);
        drop(access);
    }
    unreachable!("the world is wide enough")
}
