//! The map's log as the nodes see it: a list of entries that only grows.
//!
//! What a Raft keeps is taken for granted here: entries have one order, none that was committed is
//! lost, and nothing is committed but by a node that reaches a majority of the voters. What a Raft
//! does not keep is not: an entry that is proposed may be lost, may come late and may come twice,
//! and each node is behind by as much as chance has it.

use crate::map::MapEntry;

#[derive(Default)]
pub(super) struct MapLog {
    pub(super) entries: Vec<MapEntry>,
}

impl MapLog {
    pub(super) fn commit(&mut self, entry: MapEntry) {
        self.entries.push(entry);
    }
}
