//! The target of a move: what a session is that brings slots.
//!
//! Invariant: a move that ends before its claim leaves no key here: what has come is dropped, once
//! no mark keeps it. The slots are noted as ones whose keys are copies before the first key comes.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use base::hash_slot::HASH_SLOTS;
use cluster::Slot;
use engine::reclaim::slots::note_copied;
use engine::session::ImportingSlots;
use keyspace::PartitionIndex;

use super::{MoveJob, MoveState};
use crate::cluster::start::ClusterContext;

const LOST: &str = "Connection to source lost";

/// Slots on their way to this node.
pub(crate) struct SlotImport {
    start: ClusterContext,
    pub(crate) job: Arc<MoveJob>,
    slots: Box<[bool]>,
    /// Whether the slots are marked as brought no more.
    is_over: AtomicBool,
    /// When the source was asked for the slots, on the monotonic clock.
    pub(crate) asked_us: AtomicI64,
}

impl SlotImport {
    /// Begins with slots of which there is nothing here; none where there still is something of an
    /// earlier time.
    pub(crate) fn begin(start: ClusterContext, job: Arc<MoveJob>) -> Option<Self> {
        const NOT_EMPTY: &str = "Slots have keys of an earlier time";
        let server = start.server;
        let slots: Vec<PartitionIndex> = job.slots.iter().map(Slot::get).collect();
        let has_keys = || slots.iter().any(|slot| server.keyspace.population(*slot) > 0);
        // A mark would keep them here: it ends a drop that is under way.
        if has_keys() {
            job.set(server, MoveState::Failed, NOT_EMPTY);
            start.node.drop_slots(slots);
            return None;
        }
        let import = Self::mark(start, job);
        // What is found empty behind the mark stays so.
        if has_keys() {
            import.job.end(NOT_EMPTY.to_owned());
            return None;
        }
        note_copied(server, &slots);
        Some(import)
    }

    /// From here on nothing of the slots is dropped.
    fn mark(start: ClusterContext, job: Arc<MoveJob>) -> Self {
        job.slots.iter().for_each(|slot| start.server.keyspace.importing().mark(slot.get()));
        let is_of_it = |slot: u16| Slot::new(slot).is_some_and(|slot| job.slots.contains(slot));
        let slots = (0..HASH_SLOTS).map(is_of_it).collect();
        Self { start, job, slots, is_over: AtomicBool::new(false), asked_us: AtomicI64::new(0) }
    }

    /// The slots are this node's: what has come stays, and what of it is over goes. With the world
    /// stopped.
    pub(crate) fn note_claimed(&self) {
        self.unmark();
        self.job.note_keys(self.job.key_count(self.start.server));
        self.job.set(self.start.server, MoveState::Success, "");
    }

    /// Leaves the slots to this node, once.
    fn unmark(&self) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            let importing = self.start.server.keyspace.importing();
            self.job.slots.iter().for_each(|slot| importing.unmark(slot.get()));
        }
    }
}

impl ImportingSlots for SlotImport {
    fn are_underway(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn contain(&self, slot: PartitionIndex) -> bool {
        self.slots.get(usize::from(slot)).copied().unwrap_or(false)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn note_end(&self) {
        self.job.end(LOST.to_owned());
    }

    fn note_error(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line).trim_end().to_owned();
        self.job.end(format!("A command of the source failed: {line}"));
    }
}

impl Drop for SlotImport {
    fn drop(&mut self) {
        let slots: Vec<PartitionIndex> = self.job.slots.iter().map(Slot::get).collect();
        self.unmark();
        let state = if self.job.is_cancelled() { MoveState::Cancelled } else { MoveState::Failed };
        let why = self.job.ending().unwrap_or(LOST);
        self.job.set(self.start.server, state, why);
        // What is served here stays. A slot that was claimed may be another's again by now, and its
        // keys have met the mark.
        self.start.node.drop_slots(slots);
    }
}
