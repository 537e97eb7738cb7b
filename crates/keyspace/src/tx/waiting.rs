//! Waiting for keys: standing in their queues, and finding who can be served.
//!
//! Invariant: a transaction that changed a key somebody waits for knows it by `next_ready`; nobody
//! has to look for it.

use std::sync::Arc;

use super::{NamedKey, Tx};
use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lock::acquisition::{Acquisition, Wanted};
use crate::lock::partition::{Content, PartitionIndex};
use crate::refusal::Refusal;
use crate::waiting::{Queue, Waiter};

impl Tx {
    /// Stands a waiter in the queue of a key of the present database.
    pub fn register(&mut self, key: &[u8], waiter: &Arc<Waiter>) -> Result<(), Refusal> {
        let (database, partition) = (self.options.database, self.locate(key).partition());
        let Some(content) = self.grant.content_mut(partition) else {
            return Err(self.refuse_beyond(partition));
        };
        let before = waiting_keys(content);
        content.waiting_mut().add(database, key, waiter);
        self.keyspace.note_waiting(before, waiting_keys(content));
        Ok(())
    }

    /// Takes a waiter out of the queue of a key of the present database.
    pub fn unregister(&mut self, key: &[u8], waiter: &Arc<Waiter>) -> Result<(), Refusal> {
        let (database, partition) = (self.options.database, self.locate(key).partition());
        let Some(content) = self.grant.content_mut(partition) else {
            return Err(self.refuse_beyond(partition));
        };
        let before = waiting_keys(content);
        if before > 0 {
            content.waiting_mut().remove(database, key, waiter);
            self.keyspace.note_waiting(before, waiting_keys(content));
            content.release_rare();
        }
        Ok(())
    }

    /// Has those looked at who wait for a key of the present database, though nothing was changed.
    pub fn rouse(&mut self, key: &[u8]) {
        let (database, partition) = (self.options.database, self.locate(key).partition());
        let waiting = self.grant.content(partition).and_then(|content| content.waiting());
        if waiting.is_some_and(|waiting| waiting.heeds(database, key, false)) {
            self.ready.push((database, key.into()));
        }
    }

    /// Whether anybody waits for a key of the granted partitions.
    #[inline]
    #[must_use]
    pub fn meets_waiters(&self) -> bool {
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
        (!self.ready.is_empty()).then(|| self.ready.remove(0))
    }

    /// Takes out the queue of a key of the present database, to serve those who stand in it; none
    /// where the key is not granted. `put_queue` puts back who waits on.
    pub fn take_queue(&mut self, key: &[u8]) -> Queue {
        let (database, partition) = (self.options.database, self.locate(key).partition());
        match self.grant.content_mut(partition) {
            Some(content) if content.waiting().is_some() => {
                let before = waiting_keys(content);
                let queue = content.waiting_mut().take(database, key);
                self.keyspace.note_waiting(before, waiting_keys(content));
                queue
            }
            _ => Queue::default(),
        }
    }

    /// Puts back the queue of a key.
    pub fn put_queue(&mut self, key: &[u8], queue: Queue) {
        let (database, partition) = (self.options.database, self.locate(key).partition());
        let content = self.grant.content_mut(partition).expect("it was taken from there");
        let before = waiting_keys(content);
        content.waiting_mut().put(database, key, queue);
        self.keyspace.note_waiting(before, waiting_keys(content));
        content.release_rare();
    }

    /// Notes all keys that somebody waits for, of one database or of all, where that is flushed
    /// or swapped.
    pub(super) fn rouse_database(&mut self, database: Option<usize>, gone: bool) {
        if !self.keyspace.any_waiters() {
            return;
        }
        for index in 0..PARTITIONS as PartitionIndex {
            let waiting = self.grant.content(index).and_then(|content| content.waiting());
            let Some(waiting) = waiting else { continue };
            let heeded = waiting.keys().filter(|&(of, key)| {
                database.is_none_or(|database| database == of) && waiting.heeds(of, key, gone)
            });
            self.ready.extend(heeded.map(|(of, key)| -> NamedKey { (of, key.into()) }));
        }
    }
}

/// How many keys of a partition somebody waits for.
fn waiting_keys(content: &Content) -> u32 {
    content.waiting().map_or(0, |waiting| waiting.len() as u32)
}

/// Whether anybody waits for a key of the partitions that are held.
#[inline]
pub(super) fn in_grant(keyspace: &Keyspace, grant: &Acquisition) -> bool {
    keyspace.any_waiters() && in_partitions(grant)
}

#[cold]
fn in_partitions(grant: &Acquisition) -> bool {
    let waits =
        |index: &PartitionIndex| grant.content(*index).is_some_and(|it| it.waiting().is_some());
    match grant.wanted() {
        Wanted::Partitions(partitions) => partitions.iter().any(waits),
        // The world reaches every partition, so nothing is ever beyond it.
        Wanted::World => false,
    }
}
