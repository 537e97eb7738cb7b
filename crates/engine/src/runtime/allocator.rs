//! The allocator of the process, as the server speaks to it.
//!
//! Invariant: the server never names an allocator; before `allocate_by` these calls do nothing.

use std::sync::OnceLock;

/// How the allocator of the process is told what to do with what nobody uses.
pub struct Allocator {
    /// Gives back what the calling thread holds.
    pub purge: fn(),
    /// Whether all threads give back at once what becomes free, and do not keep it for a moment in
    /// case it is wanted again.
    pub purge_at_once: fn(bool),
}

static ALLOCATOR: OnceLock<Allocator> = OnceLock::new();

/// Says what the allocator of the process is. Without that nothing is given back here; what is said
/// later does not count.
pub fn allocate_by(allocator: Allocator) {
    let _ = ALLOCATOR.set(allocator);
}

/// Gives back what the calling thread does not use.
pub(crate) fn purge() {
    if let Some(allocator) = ALLOCATOR.get() {
        (allocator.purge)();
    }
}

/// Whether all threads give back at once what becomes free from now on.
pub(crate) fn purge_at_once(at_once: bool) {
    if let Some(allocator) = ALLOCATOR.get() {
        (allocator.purge_at_once)(at_once);
    }
}
