//! Places: up to where a link has the stream.
//!
//! Invariants: a place only moves forward, and never beyond what was read there; dropping a place
//! is all that is needed to let go of what only this place needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where a link stands in the stream; what lies behind this place stays in the backlog.
#[derive(Debug)]
pub struct Place {
    offset: Arc<AtomicU64>,
    /// Which stream the offset counts in: a backlog that begins anew has another era.
    era: StreamIdentity,
}

impl Place {
    /// How many bytes of the stream the link has.
    pub fn offset(&self) -> u64 {
        self.offset.load(Ordering::Relaxed)
    }

    /// Moves on by bytes that are sent; no lock is needed. Their memory is free at the backlog's
    /// next change.
    pub fn advance(&mut self, sent: usize) {
        self.offset.fetch_add(sent as u64, Ordering::Relaxed);
    }
}

/// What tells one stream from another; equal to nothing but its own clones.
#[derive(Clone, Debug, Default)]
struct StreamIdentity(Arc<()>);

/// All places of one backlog.
#[derive(Debug, Default)]
pub(super) struct Places {
    offsets: Vec<Arc<AtomicU64>>,
    era: StreamIdentity,
}

impl Places {
    pub(super) fn insert(&mut self, offset: u64) -> Place {
        let offset = Arc::new(AtomicU64::new(offset));
        self.offsets.push(Arc::clone(&offset));
        Place { offset, era: self.era.clone() }
    }

    /// Whether this is one of them, and not of an earlier stream or another backlog.
    pub(super) fn has(&self, place: &Place) -> bool {
        Arc::ptr_eq(&self.era.0, &place.era.0)
    }

    /// The lowest of those that are held.
    pub(super) fn lowest(&self) -> Option<u64> {
        let held = self.offsets.iter().filter(|offset| Arc::strong_count(offset) > 1);
        held.map(|offset| offset.load(Ordering::Relaxed)).min()
    }

    /// Forgets those that nobody holds.
    pub(super) fn sweep(&mut self) {
        self.offsets.retain(|offset| Arc::strong_count(offset) > 1);
    }

    /// Ends them all.
    pub(super) fn clear(&mut self) {
        *self = Places::default();
    }

    pub(super) fn memory(&self) -> usize {
        // An offset with the two counts in front of it.
        self.offsets.capacity() * size_of::<usize>() + self.offsets.len() * 3 * size_of::<usize>()
    }
}
