//! What is big enough to be freed elsewhere than on a worker.
//!
//! Invariant: dropping a `Garbage` frees all of it, wherever that happens.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::entry::{EntryBox, EntryTable};

/// From this many bytes on an entry is freed off the workers.
pub(crate) const BIG_ENTRY: usize = 256 * 1024;

/// What values take that are about to be freed.
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Bytes that are still in use and are about to be freed: big values on their way.
#[must_use]
pub fn garbage_bytes() -> usize {
    BYTES.load(Ordering::Relaxed)
}

/// Something to be dropped.
pub struct Garbage {
    #[expect(dead_code, reason = "held to be dropped")]
    content: Content,
    /// Says that it is gone, after it is.
    #[expect(dead_code, reason = "held to be dropped")]
    weight: Weight,
}

/// So many bytes are about to be freed.
struct Weight(usize);

impl Weight {
    fn new(bytes: usize) -> Self {
        BYTES.fetch_add(bytes, Ordering::Relaxed);
        Self(bytes)
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

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
        let weight = Weight::new(entry.borrow().memory());
        Self { content: Content::Entry(entry), weight }
    }

    pub(crate) fn held(held: Box<dyn Send>) -> Self {
        Self { content: Content::Held(held), weight: Weight::new(0) }
    }

    pub(crate) fn tables(tables: Vec<EntryTable>, bytes: usize) -> Self {
        Self { content: Content::Tables(tables), weight: Weight::new(bytes) }
    }
}
