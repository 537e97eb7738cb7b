//! Walks: who must see an entry as it was before it changes.
//!
//! A walk (save, full sync, migration) fixes a cut, then visits every partition at leisure. The
//! partition's marks tell which walks have begun a new round there; an entry whose mark differs has
//! not been saved by that walk yet. The only door to a mutable entry (`Tx::before_change`) calls
//! `save` first, so each walk gets every entry exactly once and as it was at the cut.
//!
//! Invariant: with no walk attached all marks of a partition's entries equal the partition's.

use std::sync::RwLock;

use crate::entry::EntryRef;

/// How many walks may run at once: one header bit each.
pub const WALKS: usize = 3;

/// Takes what a walk must save. Called under the entry's lock: it may copy or share, not wait.
pub trait WalkSink: Send + Sync {
    /// The entry as it was at the walk's cut, in its physical database.
    fn save(&self, database: usize, entry: EntryRef<'_>);
}

/// The walks that are attached.
#[derive(Default)]
pub struct Walks {
    sinks: RwLock<[Option<Box<dyn WalkSink>>; WALKS]>,
}

impl Walks {
    /// Attaches or detaches a walk; the world must be stopped.
    pub fn set(&self, walk: usize, sink: Option<Box<dyn WalkSink>>) {
        self.sinks.write().expect("no sink panics")[walk] = sink;
    }

    /// Saves an entry for every walk whose bit is set in `missing`.
    #[cold]
    pub(crate) fn save(&self, missing: u8, database: usize, entry: EntryRef<'_>) {
        let sinks = self.sinks.read().expect("no sink panics");
        for (walk, sink) in sinks.iter().enumerate() {
            if missing & 1 << walk != 0
                && let Some(sink) = sink
            {
                sink.save(database, entry);
            }
        }
    }
}
