//! Undo: what a transaction that may widen keeps, to put everything back.
//!
//! Invariant: applying the images in reverse order restores every key the transaction changed,
//! deadline, access clock and marks included. A long value's image is its root, so it costs O(1).

use super::Tx;
use crate::entry::EntryBox;
use crate::keyspace::Location;
use crate::lock::partition::PartitionIndex;

/// Images of changed keys, oldest first.
#[derive(Default)]
pub(super) struct UndoLog {
    images: Vec<PreImage>,
}

struct PreImage {
    partition: PartitionIndex,
    physical: usize,
    image: Image,
}

enum Image {
    Absent(Box<[u8]>),
    Present(EntryBox),
}

impl UndoLog {
    pub(super) fn remember(&mut self, partition: PartitionIndex, physical: usize, entry: EntryBox) {
        self.images.push(PreImage { partition, physical, image: Image::Present(entry) });
    }

    pub(super) fn remember_absent(
        &mut self,
        partition: PartitionIndex,
        physical: usize,
        key: &[u8],
    ) {
        self.images.push(PreImage { partition, physical, image: Image::Absent(key.into()) });
    }
}

impl Tx {
    /// Puts back everything the transaction changed, and forgets its effects.
    pub(super) fn roll_back(&mut self) {
        let log = self.undo.take().expect("only undoable transactions meet undeclared keys");
        let home = self.physical;
        for PreImage { partition, physical, image } in log.images.into_iter().rev() {
            self.physical = physical;
            let key = match &image {
                Image::Absent(key) => key,
                Image::Present(entry) => entry.borrow().key(),
            };
            let location = Location { partition, position: self.keyspace.locate(key).position };
            let mut door = self.door(location).expect("what was changed is still granted");
            let place = door.find(key).map(|(place, _)| place);
            match (place, image) {
                (Some(place), Image::Present(entry)) => door.replace(place, entry),
                (Some(place), Image::Absent(_)) => drop(door.remove(place)),
                (None, Image::Present(entry)) => door.insert(entry),
                (None, Image::Absent(_)) => {}
            }
        }
        self.physical = home;
        self.effects.forget();
        self.stale.borrow_mut().clear();
    }
}
