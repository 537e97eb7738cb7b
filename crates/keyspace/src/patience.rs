//! How long a thread waits for what others hold, where a client waits for the thread.
//!
//! Invariant: a wait that has lost patience holds nothing, and takes nothing more.

use crate::keyspace::Keyspace;
use crate::lock::partition::PartitionIndex;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason<'a> {
    /// The world, or leave for heavy work while somebody else wants the world.
    World,
    /// Any of these, held by others.
    Partitions(&'a [PartitionIndex]),
}

/// Whether to wait on for something that has been waited for since a time on the monotonic clock in
/// microseconds.
pub(crate) type WaitsOn = dyn Fn(WaitReason<'_>, i64) -> bool + Send + Sync;

/// The patience of one wait, which begins with the first look at it.
#[derive(Default)]
pub struct Patience {
    began_us: Option<i64>,
}

impl Patience {
    /// Whether the patience lasts; for ever where the keyspace was told nothing of it.
    pub fn lasts(&mut self, keyspace: &Keyspace, obstacle: WaitReason<'_>) -> bool {
        let began_us = *self.began_us.get_or_insert_with(|| keyspace.clock().monotonic_us());
        keyspace.waits_on().is_none_or(|waits_on| waits_on(obstacle, began_us))
    }
}
