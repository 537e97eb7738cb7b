//! The keys of a MIGRATE under their locks: copied, and taken away once the target has them.
//!
//! Invariants: a key is taken away only while it is what was copied, by a watch that is entered in
//! the same hold of its lock in which the copy is made; the watch is off the key when the parcel is
//! gone, whichever way it goes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::number::format_i64;
use base::time::UnixMillis;
use engine::admission::readmission::Readmission;
use engine::clients::mailbox::PendingWakes;
use engine::clients::unregistration::Unregistration;
use engine::commit::publish::commit;
use engine::runtime::background::{BackgroundAccess, wait_for_client, wait_while};
use engine::shared::Shared;
use keyspace::{Acquisition, EntryBox, EventClass, Refusal, Tx, Watch};
use proto::Args;
use proto::args::encode_command;

use super::request::MigrateRequest;

/// So long the locks of keys that the target has are waited for at a time.
const PATIENCE_US: i64 = 100_000;

/// A key that was copied under its lock.
pub(super) struct CopiedKey {
    server: &'static Shared,
    /// Which argument the key is.
    pub(super) index: usize,
    key: (usize, Box<[u8]>),
    deadline: Option<UnixMillis>,
    /// The value, until it is packed.
    copy: Option<EntryBox>,
    /// Broken when the key is no longer what was copied; `None` for a key that stays, and once it
    /// is off the key.
    watch: Option<Arc<Watch>>,
}

/// What became of keys that the target has.
pub(super) enum Deletion {
    /// A gate is shut for a while, or others have the locks: nothing.
    Held,
    /// The keys are gone but for those that changed, which are told by their arguments.
    Done { changed: Vec<usize> },
}

/// Copies those of the keys that are there, as they are at one moment.
pub(super) fn copy(
    server: &'static Shared,
    order: &MigrateRequest,
    keys: &[usize],
    lane: usize,
) -> Result<Vec<CopiedKey>, Refusal> {
    let keyspace = server.keyspace;
    // A command that takes such a lock later finds that changes are heeded.
    let watch = |_: &usize| (!order.copies).then(|| Watch::of_all(keyspace));
    let watches: Vec<_> = keys.iter().map(watch).collect();
    let _access = BackgroundAccess::for_client(keyspace)?;
    let wanted = order.partitions(server, keys.iter().copied());
    let mut acquisition = Acquisition::of_partitions(keyspace, wanted);
    wait_for_client(keyspace, &mut acquisition)?;
    acquisition.time_hold();
    let mut tx = Tx::begin(acquisition, order.options(server, lane));
    let mut parcels = Vec::new();
    for (&index, watch) in keys.iter().zip(watches) {
        let key = order.key(index);
        let Some(entry) = tx.read(key)? else { continue };
        let deadline = entry.deadline();
        let copy = Some(entry.duplicate(key, deadline));
        if let Some(watch) = &watch {
            tx.watch(key, watch);
        }
        let key = (order.options.database, key.into());
        parcels.push(CopiedKey { server, index, key, deadline, copy, watch });
    }
    let wakes = PendingWakes::default();
    // What was over may go now. Where a transaction waits for that which needs more locks, the key
    // goes later.
    if commit(server, &wakes, &mut tx, Args::default()).is_err() {
        drop(tx.widen(0));
    } else {
        drop(tx);
    }
    server.mailboxes.wake(&wakes);
    Ok(parcels)
}

/// Deletes keys that the target has, unless they changed.
pub(super) fn delete(
    server: &'static Shared,
    order: &MigrateRequest,
    parcels: &mut [CopiedKey],
    lane: usize,
) -> Result<Deletion, Refusal> {
    let keyspace = server.keyspace;
    let readmission = Readmission::beside_slots(server, order.subject.as_ref(), order.request());
    let wanted = order.partitions(server, parcels.iter().map(|parcel| parcel.index));
    let mut acquisition = Acquisition::of_partitions(keyspace, wanted);
    for widenings in 0.. {
        // The thread has no leave that a stop of the world waits for.
        let wants_world = acquisition.wants_world();
        let access = (!wants_world).then(|| BackgroundAccess::for_client(keyspace)).transpose();
        // The target has the keys, so this is not given up; but others want the thread, too.
        let until_us = keyspace.clock().monotonic_us() + PATIENCE_US;
        let is_wanted = || wants_world || keyspace.clock().monotonic_us() < until_us;
        if access.is_err() || !wait_while(&mut acquisition, is_wanted) {
            return Ok(Deletion::Held);
        }
        acquisition.time_hold();
        if readmission.hold(None)? {
            return Ok(Deletion::Held);
        }
        let mut tx = Tx::begin(acquisition, order.options(server, lane));
        let changed = delete_unchanged(&mut tx, parcels)?;
        let wakes = PendingWakes::default();
        if commit(server, &wakes, &mut tx, Args::default()).is_err() {
            acquisition = tx.widen(widenings);
            drop(access);
            continue;
        }
        parcels.iter_mut().for_each(|parcel| parcel.unwatch(&mut tx));
        drop(tx);
        drop(access);
        server.mailboxes.wake(&wakes);
        return Ok(Deletion::Done { changed });
    }
    unreachable!("the world is wide enough")
}

/// Deletes those that did not change; the others, by their arguments.
fn delete_unchanged(tx: &mut Tx, parcels: &[CopiedKey]) -> Result<Vec<usize>, Refusal> {
    let mut words: Vec<&[u8]> = vec![b"DEL"];
    let mut changed = Vec::new();
    for parcel in parcels {
        let key = &*parcel.key.1;
        let is_changed = parcel.watch.as_ref().is_none_or(|watch| watch.is_broken());
        let is_there = tx.exists(key)?;
        let is_over = parcel.deadline.is_some_and(|deadline| tx.is_over_at(deadline));
        if is_changed && (is_there || !is_over) {
            changed.push(parcel.index);
        } else if tx.delete(key)? {
            tx.event(EventClass::Generic, "del", key);
            words.push(key);
        }
    }
    if words.len() > 1 {
        tx.effects_mut().instead(&words);
    }
    Ok(changed)
}

impl CopiedKey {
    /// Appends the command that makes the key at the target; nothing where its time is over, and
    /// then the answer is no.
    pub(super) fn pack(&mut self, order: &MigrateRequest, out: &mut Vec<u8>) -> bool {
        let keyspace = self.server.keyspace;
        let left = self.deadline.map(|deadline| deadline - keyspace.clock().now_ms());
        let Some(copy) = self.copy.take().filter(|_| left.is_none_or(|left| left > 0)) else {
            return false;
        };
        let compresses = keyspace.settings().compresses_dumps.load(Ordering::Relaxed);
        let payload = persist::dump::dump(copy.borrow(), compresses);
        keyspace.lazy_free(copy);
        let millis = &mut [0; 20];
        let millis = format_i64(left.unwrap_or(0), millis);
        // In a cluster the slot is not the target's yet.
        let is_routed = self.server.gates.routing.is_on();
        let word: &[u8] = if is_routed { b"RESTORE-ASKING" } else { b"RESTORE" };
        let words = [word, &*self.key.1, millis, &payload, b"REPLACE"];
        let count = if order.replaces { words.len() } else { words.len() - 1 };
        encode_command(words[..count].iter().copied(), out);
        true
    }

    /// Takes the watch off the key, whose lock is held.
    fn unwatch(&mut self, tx: &mut Tx) {
        if let Some(watch) = self.watch.take() {
            tx.unwatch(self.key.0, &self.key.1, &watch);
        }
    }
}

impl Drop for CopiedKey {
    fn drop(&mut self) {
        if let Some(copy) = self.copy.take() {
            self.server.keyspace.lazy_free(copy);
        }
        if let Some(watch) = self.watch.take() {
            let keys = Arc::new([std::mem::take(&mut self.key)]);
            drop(Unregistration::of_watch(&self.server.unregistrar, watch, keys));
        }
    }
}
