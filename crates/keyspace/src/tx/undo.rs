//! Undo: what a transaction that may widen keeps, to put everything back.
//!
//! Invariant: putting the images back restores every key the transaction changed, deadline, access
//! clock and marks included. Each key has one image, of the time before its first change, so a loop
//! over one key costs one copy; a long value's image is its root.

use std::collections::HashMap;

use super::{Counted, Tx};
use crate::entry::EntryBox;
use crate::keyspace::Location;
use crate::lock::partition::PartitionIndex;

/// Images of changed keys.
#[derive(Default)]
pub(super) struct UndoLog {
    /// By partition and physical database.
    images: HashMap<(PartitionIndex, usize), Images>,
}

/// By key; `None` for a key that was absent.
type Images = HashMap<Box<[u8]>, Option<EntryBox>>;

impl UndoLog {
    /// Keeps a key's image unless there is one.
    pub(super) fn remember(
        &mut self,
        partition: PartitionIndex,
        physical: usize,
        key: &[u8],
        image: impl FnOnce() -> Option<EntryBox>,
    ) {
        let images = self.images.entry((partition, physical)).or_default();
        if !images.contains_key(key) {
            images.insert(key.into(), image());
        }
    }

    /// Lets all images go: what was changed is final.
    #[inline]
    pub(super) fn forget(&mut self) {
        if !self.images.is_empty() {
            self.images.clear();
        }
    }
}

impl Tx {
    /// Whether it has changed nothing yet that it could undo.
    pub fn is_unchanged(&self) -> bool {
        self.undo.as_ref().is_none_or(|undo| undo.images.is_empty())
    }

    /// What it looked up so far.
    pub fn counted(&self) -> Counted {
        self.counted.clone()
    }

    /// Undoes everything and keeps the locks: the transaction begins again where it is, after so
    /// many lookups.
    pub fn start_over(&mut self, counted: Counted) {
        self.roll_back();
        self.counted = counted;
        self.undo = Some(UndoLog::default());
        self.ready.clear();
    }

    /// Puts back everything the transaction changed, and forgets its effects.
    pub(super) fn roll_back(&mut self) {
        let log = self.undo.take().expect("only undoable transactions meet undeclared keys");
        let home = self.physical;
        for ((partition, physical), images) in log.images {
            self.physical = physical;
            for (key, image) in images {
                self.put_back(partition, &key, image);
            }
        }
        self.physical = home;
        self.effects.reset();
        self.counted = Counted::default();
        self.stale.borrow_mut().clear();
        self.missed.borrow_mut().clear();
        self.altered.forget();
    }

    fn put_back(&mut self, partition: PartitionIndex, key: &[u8], image: Option<EntryBox>) {
        let location = Location::new(partition, self.keyspace.locate(key).position());
        let mut door = self.door(location).expect("what was changed is still granted");
        let place = door.find(key).map(|(place, _)| place);
        match (place, image) {
            (Some(place), Some(entry)) => door.replace(place, entry),
            (Some(place), None) => {
                let entry = door.remove(place);
                self.discard(entry);
            }
            (None, Some(entry)) => door.insert(entry),
            (None, None) => {}
        }
    }
}
