//! What a transaction needs beyond its grant: a lock that is free is taken at once, else all is
//! undone and begins again with the union.
//!
//! Invariant: a transaction that holds locks only tries for more, out of their order, and waits for
//! none of them: so there is no cycle. All locks are kept to its end, which keeps it serializable.

use super::read_phase::TxPhase;
use super::{LookupCounters, Tx};
use crate::lock::acquisition::{Acquisition, LockScope, PartitionSet};
use crate::lock::partition::PartitionIndex;
use crate::refusal::Refusal;

/// What a transaction needed beyond its grant.
#[derive(Default)]
pub(super) struct Widening {
    pub(super) partitions: PartitionSet,
    pub(super) world: bool,
}

/// How far a transaction was when one of its commands began.
#[derive(Clone, Debug, Default)]
pub struct CommandStart {
    counted: LookupCounters,
    /// How many changes can be undone.
    changes: u64,
}

impl Tx {
    /// A command begins; how far the transaction is.
    #[inline]
    #[must_use]
    pub fn begin_command(&self) -> CommandStart {
        CommandStart { counted: self.counted.clone(), changes: self.changes_kept() }
    }

    /// Forgets a command that did nothing and may begin again: what it looked up does not count.
    pub fn forget_command(&mut self, begun: &CommandStart) {
        self.counted = begun.counted.clone();
        self.missed.get_mut().clear();
    }

    /// Whether the transaction can begin again for what is beyond its grant.
    #[cold]
    #[must_use]
    pub fn may_widen(&self) -> bool {
        self.undo.is_some() || matches!(self.phase.as_deref(), Some(TxPhase::Read(..)))
    }

    /// After `Refusal::Widen`: these partitions are needed, too, where they are not held.
    #[cold]
    pub fn require_partitions(&mut self, partitions: &[PartitionIndex]) {
        let beyond = self.beyond.get_mut();
        let is_new = |it: &&PartitionIndex| self.grant.content(**it).is_none();
        beyond.partitions.extend(partitions.iter().filter(is_new).copied());
    }

    /// After `Refusal::Widen`, where the command that began there has changed nothing yet: takes
    /// the locks that it needed if all are free right now. Whether the command may begin again.
    #[cold]
    pub fn try_extend(&mut self, begun: &CommandStart) -> bool {
        let is_possible = self.undo.is_some()
            && self.changes_kept() == begun.changes
            && !self.options.heavy
            && self.phase.is_none()
            && !self.beyond.get_mut().world;
        if !is_possible {
            return false;
        }
        let wanted = std::mem::take(&mut self.beyond.get_mut().partitions);
        if !wanted.iter().all(|&partition| self.grant.extend(partition)) {
            self.beyond.get_mut().partitions = wanted;
            return false;
        }
        self.effects.reset();
        self.stale.get_mut().clear();
        // A client may have begun to watch such a key, or to wait for it, while it was not held.
        self.refresh_views();
        true
    }

    /// After `Refusal::Widen`: undoes everything, gives the locks back, and names what to lock for
    /// the next round (the world after too many). The caller begins again with the same time.
    #[must_use]
    pub fn widen(mut self, widenings: u32) -> Acquisition {
        self.roll_back();
        let keyspace = self.keyspace;
        let Widening { partitions: mut union, world } = self.beyond.take();
        let world = world || self.has_world();
        if let LockScope::Partitions(partitions) = self.grant.wanted() {
            union.extend_from_slice(partitions);
        }
        drop(self);
        if world || widenings >= crate::WIDENINGS_MAX {
            return Acquisition::of_world(keyspace);
        }
        Acquisition::of_partitions(keyspace, union)
    }

    #[cold]
    pub(super) fn refuse_beyond(&self, partition: PartitionIndex) -> Refusal {
        self.beyond.borrow_mut().partitions.push(partition);
        Refusal::Widen
    }
}
