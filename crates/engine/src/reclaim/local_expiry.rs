//! Keys of a writable replica that its own clients gave deadlines: they go when these are over, and
//! no follower of the data is told.
//!
//! Invariant: one cycle is under way at most, and holds one partition at a time.

use std::sync::atomic::Ordering;

use keyspace::{EntryRef, LocalKey, Tx, TxOptions};
use proto::Args;

use crate::clients::mailbox::PendingWakes;
use crate::commit::publish::commit;
use crate::runtime::background::BackgroundAccess;
use crate::shared::Shared;

/// Begins a cycle if there are such keys; called by the slow clock.
pub fn tick(server: &'static Shared) {
    let local = server.keyspace.local_deadlines();
    if local.is_empty() || server.gates.replica_role.is_expiring.swap(true, Ordering::Acquire) {
        return;
    }
    server.threads.background.spawn_visit(move |lane| {
        expire_cycle(server, lane);
        server.gates.replica_role.is_expiring.store(false, Ordering::Release);
    });
}

fn expire_cycle(server: &'static Shared, lane: usize) {
    let (keyspace, wakes) = (server.keyspace, PendingWakes::default());
    let mut access = BackgroundAccess::wait(keyspace);
    for key in keyspace.local_deadlines().all() {
        let grant = access.acquire(keyspace.locate(&key.1).partition());
        // Asked with the lock: a pause that comes behind that waits for it.
        if server.gates.loading.is_on()
            || keyspace.settings().holds_expiry(keyspace.clock().now_ms())
        {
            break;
        }
        let internal = TxOptions::internal(lane, keyspace.clock().now_ms());
        let tx = Tx::begin(grant, TxOptions { database: key.0, heavy: true, ..internal });
        expire_local(server, tx, &key, &wakes);
    }
    server.mailboxes.wake(&wakes);
}

fn expire_local(server: &Shared, mut tx: Tx, key: &LocalKey, wakes: &PendingWakes) {
    const HELD: &str = "its partition is held";
    let is_over = tx.expire_if_due(&key.1).expect(HELD);
    let deadline = tx.peek(&key.1).expect(HELD).and_then(EntryRef::deadline);
    if is_over || deadline.is_none() {
        server.keyspace.local_deadlines().forget(key);
    }
    if is_over && commit(server, wakes, &mut tx, Args::default()).is_err() {
        // A waiter for the key needs more locks: the next cycle comes to the key again.
        server.keyspace.local_deadlines().note_again(key);
        drop(tx.widen(0));
    }
}
