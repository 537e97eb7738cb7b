//! Undo: what a transaction that may be begun again keeps, to put everything back.
//!
//! Invariants: putting the images back restores every key the transaction changed, deadline, access
//! clock and marks included. Each key has one image, of the time before its first change, so a loop
//! over one key costs one copy; a long value's image is its root. A database that is flushed is its
//! own image: its tables are kept as they were, and leave when all is final.

use std::collections::HashMap;

use base::step_count;

use super::modified::ModifiedMark;
use super::mutation::MutationSummary;
use super::world::FlushedDatabase;
use super::{LookupCounters, Tx};
use crate::entry::EntryBox;
use crate::keyspace::Location;
use crate::lock::partition::PartitionIndex;

/// Images of what was changed.
#[derive(Default)]
pub(super) struct UndoLog {
    /// Of the keys that were changed since databases were flushed or swapped last.
    images: Images,
    /// What was flushed and swapped, in its order.
    databases: Vec<DatabaseChange>,
    /// How many changes came here so far.
    changes: u64,
}

/// By partition and physical database, then by key; `None` for a key that was absent.
type Images = HashMap<(PartitionIndex, usize), HashMap<Box<[u8]>, Option<EntryBox>>>;

/// A change of whole databases.
struct DatabaseChange {
    /// Of the keys that were changed before it.
    images: Images,
    operation: DatabaseOperation,
}

enum DatabaseOperation {
    Flushed(FlushedDatabase),
    /// Two logical databases.
    Swapped(usize, usize),
}

/// Where a transaction stood when it had changed nothing.
#[derive(Clone, Debug, Default)]
pub struct UndoPoint {
    counted: LookupCounters,
    modified: ModifiedMark,
    ready: usize,
}

impl UndoLog {
    /// Keeps a key's image unless there is one.
    pub(super) fn remember(
        &mut self,
        partition: PartitionIndex,
        physical: usize,
        key: &[u8],
        image: impl FnOnce() -> Option<EntryBox>,
    ) {
        step_count::step();
        self.changes += 1;
        let images = self.images.entry((partition, physical)).or_default();
        if !images.contains_key(key) {
            images.insert(key.into(), image());
        }
    }

    /// Keeps what was flushed.
    pub(super) fn remember_flush(&mut self, flushed: FlushedDatabase) {
        self.turn(DatabaseOperation::Flushed(flushed));
    }

    /// Keeps which databases were exchanged.
    pub(super) fn remember_swap(&mut self, one: usize, other: usize) {
        self.turn(DatabaseOperation::Swapped(one, other));
    }

    fn turn(&mut self, operation: DatabaseOperation) {
        self.changes += 1;
        let images = std::mem::take(&mut self.images);
        self.databases.push(DatabaseChange { images, operation });
    }

    fn is_empty(&self) -> bool {
        self.images.is_empty() && self.databases.is_empty()
    }
}

impl Tx {
    /// Whether the transaction can be undone.
    #[must_use]
    pub fn is_undoable(&self) -> bool {
        self.undo.is_some()
    }

    /// How many changes it made that can be undone.
    #[inline]
    pub(super) fn changes_kept(&self) -> u64 {
        self.undo.as_ref().map_or(0, |undo| undo.changes)
    }

    /// Where the transaction stands, to be returned to; `None` where something was changed before,
    /// which cannot be told from what comes, or nothing can be undone.
    #[must_use]
    pub fn mark(&self) -> Option<UndoPoint> {
        let is_new = self.undo.as_ref().is_some_and(UndoLog::is_empty);
        is_new.then(|| UndoPoint {
            counted: self.counted.clone(),
            modified: self.modified.mark(),
            ready: self.ready.len(),
        })
    }

    /// Undoes everything since then and keeps the locks.
    pub fn return_to(&mut self, mark: UndoPoint) {
        self.roll_back();
        self.undo = Some(UndoLog::default());
        let UndoPoint { counted, modified, ready } = mark;
        self.counted = counted;
        self.modified.return_to(modified);
        self.ready.truncate(ready);
    }

    /// What the transaction changed is final: observers of the data know it. Nothing of that can be
    /// undone any more.
    #[inline]
    pub fn seal(&mut self) {
        if self.made.touched {
            self.seal_changes();
        }
    }

    fn seal_changes(&mut self) {
        self.made.touched = false;
        if let Some(undo) = &mut self.undo
            && !undo.is_empty()
        {
            let UndoLog { databases, .. } = std::mem::take(undo);
            for turn in databases {
                if let DatabaseOperation::Flushed(flushed) = turn.operation {
                    flushed.release(self.keyspace);
                }
            }
        }
        if std::mem::take(&mut self.has_flushed_all) {
            self.keyspace.note_flush();
        }
    }

    /// Puts back everything the transaction changed, and forgets its effects.
    pub(super) fn roll_back(&mut self) {
        let log = self.undo.take().expect("only undoable transactions meet undeclared keys");
        let (home, ready) = (self.options.database, self.ready.len());
        self.put_all_back(log.images);
        for turn in log.databases.into_iter().rev() {
            match turn.operation {
                DatabaseOperation::Flushed(flushed) => self.reattach(flushed),
                DatabaseOperation::Swapped(one, other) => {
                    self.keyspace.databases().swap(one, other);
                }
            }
            self.put_all_back(turn.images);
        }
        self.physical = self.keyspace.physical(home);
        self.effects.reset();
        self.counted = LookupCounters::default();
        self.stale.borrow_mut().clear();
        self.missed.borrow_mut().clear();
        // To put a key back is no change to clients that wait for it.
        self.ready.truncate(ready);
        (self.made, self.has_flushed_all) = (MutationSummary::default(), false);
    }

    fn put_all_back(&mut self, images: Images) {
        for ((partition, physical), images) in images {
            self.physical = physical;
            for (key, image) in images {
                self.put_back(partition, &key, image);
            }
        }
    }

    fn put_back(&mut self, partition: PartitionIndex, key: &[u8], image: Option<EntryBox>) {
        step_count::step();
        let location = Location::new(partition, self.keyspace.locate(key).position());
        let mut mutation = self.mutation(location).expect("what was changed is still granted");
        let place = mutation.find(key).map(|(place, _)| place);
        match (place, image) {
            (Some(place), Some(entry)) => {
                let is_sticky = entry.borrow().is_sticky();
                mutation.replace(place, entry);
                let (place, entry) = mutation.find(key).expect("it was just put there");
                if entry.is_sticky() != is_sticky {
                    mutation.set_sticky(place, is_sticky);
                }
            }
            (Some(place), None) => {
                let entry = mutation.remove(place);
                self.discard(entry);
            }
            (None, Some(entry)) => mutation.insert(entry),
            (None, None) => {}
        }
    }
}

/// A change is told to nobody in a panic, or as a unit is dropped on its way. The change is undone;
/// where that cannot be after a panic, memory is not what the log says, and the process must not go
/// on with it.
impl Drop for Tx {
    #[inline]
    fn drop(&mut self) {
        if self.made.touched {
            self.end_unsealed();
        }
    }
}

impl Tx {
    #[cold]
    fn end_unsealed(&mut self) {
        if self.undo.is_some() {
            return self.roll_back();
        }
        if !std::thread::panicking() {
            // What is not sealed by its owner is not in the log. This crate's own tests keep none.
            if cfg!(all(debug_assertions, not(test))) {
                self.keyspace.abort("a transaction has changed data, and nobody has sealed it");
            }
            return self.seal();
        }
        self.keyspace.abort("a command failed half way, and what it changed cannot be undone");
    }
}
