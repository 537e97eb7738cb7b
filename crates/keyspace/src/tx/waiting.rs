//! Waiting for keys: joining their queues, and finding which client can be served.
//!
//! Invariant: a transaction that changed a key with waiters knows it by `next_ready`, and does not
//! have to look for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::step_count;

use super::Tx;
use crate::critical_section::CriticalSection;
use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lock::acquisition::{Acquisition, LockScope};
use crate::lock::partition::{PartitionContent, PartitionIndex};
use crate::refusal::Refusal;
use crate::waiting::{QueuedWaiter, WaitQueue, Waiter, WaitingKeys};

impl Tx {
    /// Puts a waiter into the queue of a key of the present database, which is its `nth`.
    pub fn register(&mut self, key: &[u8], waiter: &Arc<Waiter>, nth: u32) -> Result<(), Refusal> {
        let (database, partition) = (self.options.database, self.locate(key).partition());
        let Some(content) = self.grant.content_mut(partition) else {
            return Err(self.refuse_beyond(partition));
        };
        step_count::step();
        self.keyspace.change_waiting(content, |waiting| {
            waiting.add(database, key, waiter, nth);
        });
        Ok(())
    }

    /// Takes a waiter out of the queue of a key of the present database.
    pub fn unregister(&mut self, key: &[u8], waiter: &Arc<Waiter>) -> Result<(), Refusal> {
        let (database, partition) = (self.options.database, self.locate(key).partition());
        let Some(content) = self.grant.content_mut(partition) else {
            return Err(self.refuse_beyond(partition));
        };
        step_count::step();
        if content.waiting().is_some() {
            self.keyspace.change_waiting(content, |waiting| waiting.remove(database, key, waiter));
            content.release_rare();
        }
        Ok(())
    }

    /// Has the waiters of a key of the present database looked at, though nothing was changed.
    pub fn signal_key_as_ready(&mut self, key: &[u8]) {
        let (database, partition) = (self.options.database, self.locate(key).partition());
        let waiting = self.grant.content(partition).and_then(|content| content.waiting());
        if waiting.is_some_and(|waiting| waiting.wakes_on(database, key, false)) {
            self.ready.add(database, key);
        }
    }

    /// Makes a change that nobody waits for: the waiters of its keys are not looked at.
    pub fn without_ready_keys<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let ready = self.ready.len();
        let result = work(self);
        self.ready.truncate(ready);
        result
    }

    /// Whether anybody waits for a key of the granted partitions.
    #[inline]
    #[must_use]
    pub fn any_waiters(&self) -> bool {
        in_grant(self.keyspace, &self.grant)
    }

    /// Whether a key that somebody waits for came, changed or went under this transaction.
    #[inline]
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// A key that came, changed or went under this transaction while somebody waits for it: its
    /// logical database and name. Each is told once per change.
    pub fn next_ready(&mut self) -> Option<(usize, Box<[u8]>)> {
        self.ready.next()
    }

    /// Whether a key of the present database is among those that `next_ready` will tell.
    #[must_use]
    pub fn is_ready(&self, key: &[u8]) -> bool {
        self.ready.has(self.options.database, key)
    }

    /// Takes out the queue of a key of the present database, to serve its waiters; none
    /// where the key is not granted. `put_queue` puts back those that wait on.
    pub fn take_queue(&mut self, key: &[u8]) -> WaitQueue {
        let (database, partition) = (self.options.database, self.locate(key).partition());
        match self.grant.content_mut(partition) {
            Some(content) if content.waiting().is_some() => {
                self.keyspace.change_waiting(content, |waiting| waiting.take(database, key))
            }
            _ => WaitQueue::default(),
        }
    }

    /// Puts those that were taken out of a key's queue into it again.
    pub fn requeue(&mut self, key: &[u8], queued: Vec<QueuedWaiter>) {
        let mut queue = self.take_queue(key);
        queued.into_iter().for_each(|it| queue.join(it));
        self.put_queue(key, queue);
    }

    /// Puts back the queue of a key.
    pub fn put_queue(&mut self, key: &[u8], queue: WaitQueue) {
        let (database, partition) = (self.options.database, self.locate(key).partition());
        let content = self.grant.content_mut(partition).expect("it was taken from there");
        self.keyspace.change_waiting(content, |waiting| waiting.put(database, key, queue));
        content.release_rare();
    }

    /// Notes the keys of one database or of all that have waiters for their deletion, where those
    /// databases are flushed.
    pub(super) fn signal_flushed(&mut self, database: Option<usize>) {
        self.keyspace.flushes.fetch_add(1, Ordering::Relaxed);
        self.signal_where(|_, own, _, queue| {
            database.is_none_or(|database| database == own) && queue.wakes_on(true)
        });
    }

    /// Notes the keys of a database that somebody waits for, after it was swapped: those that are
    /// there now, and those with waiters for their deletion.
    pub(super) fn signal_swapped(&mut self, database: usize) {
        self.keyspace.flushes.fetch_add(1, Ordering::Relaxed);
        let (keyspace, physical) = (self.keyspace, self.keyspace.physical(database));
        self.signal_where(|content, own, key, queue| {
            let is_gone = || {
                let position = keyspace.locate(key).position();
                content.table(physical).is_none_or(|it| it.find(position, key).is_none())
            };
            own == database && queue.wakes_on(!queue.wakes_on_deletion() && is_gone())
        });
    }

    fn signal_where(
        &mut self,
        is_ready: impl Fn(&PartitionContent, usize, &[u8], &WaitQueue) -> bool,
    ) {
        if !self.keyspace.any_waiters() {
            return;
        }
        for index in 0..PARTITIONS as PartitionIndex {
            let Some(content) = self.grant.content(index) else { continue };
            let Some(waiting) = content.waiting() else { continue };
            for (database, key, queue) in waiting.queues() {
                if is_ready(content, database, key, queue) {
                    self.ready.add(database, key);
                }
            }
        }
    }
}

impl Keyspace {
    /// Changes the queues of a partition, and counts what came of it.
    fn change_waiting<R>(
        &self,
        content: &mut PartitionContent,
        change: impl FnOnce(&mut WaitingKeys) -> R,
    ) -> R {
        let section = CriticalSection::begin();
        let before = waiting_keys(content);
        let result = change(content.waiting_mut());
        step_count::step();
        self.note_waiting(before, waiting_keys(content));
        section.end();
        result
    }
}

/// How many keys of a partition somebody waits for.
fn waiting_keys(content: &PartitionContent) -> u32 {
    content.waiting().map_or(0, |waiting| waiting.len() as u32)
}

/// Whether anybody waits for a key of the partitions that are held.
#[inline]
pub(crate) fn in_grant(keyspace: &Keyspace, grant: &Acquisition) -> bool {
    keyspace.any_waiters() && in_partitions(grant)
}

#[cold]
fn in_partitions(grant: &Acquisition) -> bool {
    let waits =
        |index: &PartitionIndex| grant.content(*index).is_some_and(|it| it.waiting().is_some());
    match grant.wanted() {
        LockScope::Partitions(partitions) => partitions.iter().any(waits),
        // The world reaches every partition, so nothing is ever beyond it.
        LockScope::World => false,
    }
}
