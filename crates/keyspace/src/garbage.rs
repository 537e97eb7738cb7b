//! What is big enough to be freed elsewhere than on a worker.
//!
//! Invariant: dropping a `Garbage` frees all of it, wherever that happens.

use crate::entry::{EntryBox, EntryTable};

/// From this many bytes on an entry is freed off the workers.
pub(crate) const BIG_ENTRY: usize = 256 * 1024;

/// Something to be dropped.
pub struct Garbage(#[expect(dead_code, reason = "held to be dropped")] Content);

#[expect(dead_code, reason = "held to be dropped")]
enum Content {
    /// A big value.
    Entry(EntryBox),
    /// All tables of a database that was flushed.
    Tables(Vec<EntryTable>),
    /// What a reader held that may be the last one to.
    Held(Box<dyn Send>),
}

impl Garbage {
    pub(crate) fn entry(entry: EntryBox) -> Self {
        Self(Content::Entry(entry))
    }

    pub(crate) fn held(held: Box<dyn Send>) -> Self {
        Self(Content::Held(held))
    }

    pub(crate) fn tables(tables: Vec<EntryTable>) -> Self {
        Self(Content::Tables(tables))
    }
}
