//! What the log's records take until the disk has them, and what slow replicas have still to get:
//! memory that no key's removal frees.
//!
//! Invariant: whatever is noted as taken is noted as freed once.

use std::sync::atomic::{AtomicUsize, Ordering};

static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// What the backlog keeps for slow replicas alone.
static REPLICAS: AtomicUsize = AtomicUsize::new(0);

/// So many pieces are kept when there is nothing to do.
pub const PIECES_KEPT: usize = 4;

/// What these take, with those of the writer.
const KEPT: usize = (PIECES_KEPT + 2) * (256 << 10);

/// Bytes that the log's records take, beyond what is always kept for them.
pub fn buffered() -> usize {
    TAKEN.load(Ordering::Relaxed).saturating_sub(KEPT)
}

/// Bytes that the backlog keeps for slow replicas alone.
pub fn kept_for_replicas() -> usize {
    REPLICAS.load(Ordering::Relaxed)
}

/// The backlog keeps so many bytes for slow replicas alone.
pub fn note_kept_for_replicas(bytes: usize) {
    REPLICAS.store(bytes, Ordering::Relaxed);
}

/// All that no key's removal frees.
pub fn not_counted() -> usize {
    buffered() + kept_for_replicas()
}

/// A buffer of this many bytes is there from now on.
pub fn note_taken(bytes: usize) {
    TAKEN.fetch_add(bytes, Ordering::Relaxed);
}

/// A buffer of this many bytes is gone.
pub fn note_freed(bytes: usize) {
    TAKEN.fetch_sub(bytes, Ordering::Relaxed);
}
