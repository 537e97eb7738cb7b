//! The target of a move: what a session is that brings slots.
//!
//! Invariant: a move that ends before its claim leaves no key here: what has come is dropped.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use base::hash_slot::HASH_SLOTS;
use cluster::Slot;
use engine::session::BroughtSlots;
use keyspace::PartitionIndex;

use super::{MoveJob, MoveState};
use crate::cluster::start::ClusterContext;

/// Slots on their way to this node.
pub(crate) struct SlotImport {
    start: ClusterContext,
    pub(crate) job: Arc<MoveJob>,
    slots: Box<[bool]>,
    has_claimed: AtomicBool,
    /// When the source was asked for the slots, on the monotonic clock.
    pub(crate) asked_us: AtomicI64,
}

impl SlotImport {
    /// Begins with slots of which there is nothing here; none where there still is something of an
    /// earlier time.
    pub(crate) fn begin(start: ClusterContext, job: Arc<MoveJob>) -> Option<Self> {
        let server = start.server;
        // From here on nothing of theirs is dropped: what is found empty behind this stays so.
        server.gates.routing.keep_brought(job.slots.iter().map(Slot::get), true);
        let has_keys = |slot: Slot| server.keyspace.population(slot.get()) > 0;
        if job.slots.iter().any(has_keys) {
            server.gates.routing.keep_brought(job.slots.iter().map(Slot::get), false);
            job.set(server, MoveState::Failed, "Slots have keys of an earlier time");
            return None;
        }
        Some(Self::new(start, job))
    }

    fn new(start: ClusterContext, job: Arc<MoveJob>) -> Self {
        let is_of_it = |slot: u16| Slot::new(slot).is_some_and(|slot| job.slots.contains(slot));
        let slots = (0..HASH_SLOTS).map(is_of_it).collect();
        Self {
            start,
            job,
            slots,
            has_claimed: AtomicBool::new(false),
            asked_us: AtomicI64::new(0),
        }
    }

    /// The slots are this node's: what has come stays.
    pub(crate) fn note_claimed(&self) {
        self.has_claimed.store(true, Ordering::Relaxed);
        self.job.set(self.start.server, MoveState::Success, "");
    }
}

impl BroughtSlots for SlotImport {
    fn contain(&self, slot: PartitionIndex) -> bool {
        self.slots.get(usize::from(slot)).copied().unwrap_or(false)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn note_error(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line).trim_end().to_owned();
        self.job.end(format!("A command of the source failed: {line}"));
    }
}

impl Drop for SlotImport {
    fn drop(&mut self) {
        let slots = self.job.slots.iter().map(Slot::get);
        self.start.server.gates.routing.keep_brought(slots, false);
        if self.has_claimed.load(Ordering::Relaxed) {
            return;
        }
        let state = if self.job.is_cancelled() { MoveState::Cancelled } else { MoveState::Failed };
        let why = self.job.ending().unwrap_or("Connection to source lost");
        self.job.set(self.start.server, state, why);
        let slots = self.job.slots.iter().map(Slot::get).collect();
        self.start.node.drop_slots(slots);
    }
}
