//! What the log's records take until the disk has them, what slow replicas have still to get, and
//! what a replica holds of a stream until it can be applied: memory that no key's removal frees.
//!
//! Invariant: whatever is noted as taken is noted as freed once.

use std::sync::atomic::{AtomicUsize, Ordering};

static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// What the backlog keeps for slow replicas alone.
static REPLICAS: AtomicUsize = AtomicUsize::new(0);

/// What is held of our primary's stream until its data are loaded.
static HELD: AtomicUsize = AtomicUsize::new(0);

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

/// Bytes of our primary's stream that are held until its data are loaded.
pub fn held() -> usize {
    HELD.load(Ordering::Relaxed)
}

/// So many bytes of our primary's stream are held.
pub fn note_held(bytes: usize) {
    HELD.store(bytes, Ordering::Relaxed);
}

/// All that no key's removal frees.
pub fn not_counted() -> usize {
    buffered() + kept_for_replicas() + held()
}

/// A buffer of this many bytes is there from now on.
pub fn note_taken(bytes: usize) {
    TAKEN.fetch_add(bytes, Ordering::Relaxed);
}

/// A buffer of this many bytes is gone.
pub fn note_freed(bytes: usize) {
    TAKEN.fetch_sub(bytes, Ordering::Relaxed);
}
