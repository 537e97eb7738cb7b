//! Slots that go over whole, with all their keys: the source grants, the target claims.
//!
//! Invariants: a source that has granted slots does not claim them, and gives them to the target
//! whatever the epochs are, as either may have taken another one meanwhile; a target that has
//! claimed slots does not give them back for what the source said before its grant. A source that
//! claims slots again does so under an epoch above that of any claim that was granted. What is
//! granted is on disk before the target hears of it: a source that starts with a grant does not
//! serve those slots before it has heard the claim, or claims them again.

use super::admin_error::AdminError;
use super::event::Millis;
use super::{Cluster, Save};
use crate::id::NodeId;
use crate::slots::SlotSet;

/// So far above all epochs that a source has heard of is the one by which it claims again what it
/// had granted. The target's claim is one above all that the target had heard of, long before: the
/// target may have written it down, and may tell of it when it starts again.
const ABOVE_CLAIMS: u64 = 16;

/// What was agreed on and is not known to all yet.
#[derive(Default, Debug)]
pub(super) struct Handovers {
    /// Slots that this node grants, by those that may claim them.
    granted: Vec<(NodeId, SlotSet)>,
    /// Slots that this node has claimed, by those that granted them, and until when what these said
    /// before may still be under way.
    claimed: Vec<(NodeId, SlotSet, Millis)>,
    /// Until when claims may come of what the node had granted before it started.
    held_until: Option<Millis>,
}

impl Handovers {
    /// All slots that are granted.
    pub(super) fn granted(&self) -> SlotSet {
        self.granted.iter().fold(SlotSet::empty(), |all, (_, slots)| all.or(slots))
    }

    /// What a node had granted that starts now, and until when that may be claimed.
    pub(super) fn restored(granted: Vec<(NodeId, SlotSet)>, until: Millis) -> Self {
        let held_until = (!granted.is_empty()).then_some(until);
        Self { granted, held_until, ..Self::default() }
    }

    /// What is granted, as the file has it.
    pub(super) fn grants(&self) -> Vec<(NodeId, SlotSet)> {
        self.granted.clone()
    }

    /// The slots that a node may claim whatever its epoch is.
    pub(super) fn granted_to(&self, target: NodeId) -> SlotSet {
        let of_target = self.granted.iter().filter(|(id, _)| *id == target);
        of_target.fold(SlotSet::empty(), |all, (_, slots)| all.or(slots))
    }

    /// Slots of which a node's word does not count, as it granted them.
    pub(super) fn claimed_from(&self, source: NodeId, now: Millis) -> SlotSet {
        let of_source = self.claimed.iter().filter(|(id, _, until)| *id == source && now < *until);
        of_source.fold(SlotSet::empty(), |all, (_, slots, _)| all.or(slots))
    }

    /// A node claims these slots itself: what it granted of the rest is known to it.
    pub(super) fn settle_claims(&mut self, source: NodeId, claimed: &SlotSet, now: Millis) {
        self.claimed.retain(|(id, slots, until)| {
            now < *until && (*id != source || !slots.and(claimed).is_empty())
        });
    }

    /// Slots are granted no more.
    pub(super) fn withdraw(&mut self, slots: &SlotSet) {
        self.granted.iter_mut().for_each(|(_, granted)| *granted = granted.minus(slots));
        self.granted.retain(|(_, granted)| !granted.is_empty());
    }
}

impl Cluster {
    /// Lets another primary claim slots, whose writers are held.
    pub(super) fn grant(&mut self, slots: &SlotSet, to: NodeId) -> Result<(), AdminError> {
        self.check_target(to, AdminError::UnknownNode(to))?;
        if !self.is_primary() {
            return Err(AdminError::OnlyPrimaries);
        }
        if let Some(slot) = slots.minus(self.my_slots()).iter().next() {
            return Err(AdminError::NotOwner(slot));
        }
        self.handovers.granted.push((to, slots.clone()));
        self.save(Save::Synced);
        self.broadcast_pong();
        Ok(())
    }

    /// Claims slots again that were granted and not taken.
    pub(super) fn withdraw(&mut self, slots: &SlotSet) {
        let granted = self.handovers.granted().and(slots).and(self.my_slots());
        self.handovers.withdraw(slots);
        if !granted.is_empty() {
            self.current_epoch += ABOVE_CLAIMS;
            self.own_mut().config_epoch = self.current_epoch;
            self.save(Save::Synced);
            self.log(format!("Granted slots were not claimed; configEpoch {}", self.current_epoch));
        }
        self.broadcast_pong();
    }

    /// Slots of this node that are not served, as they were granted before it started.
    pub fn held_slots(&self) -> SlotSet {
        match self.handovers.held_until {
            Some(_) => self.handovers.granted().and(self.my_slots()),
            None => SlotSet::empty(),
        }
    }

    /// Claims what was granted before the node started, once no other claim of it comes any more.
    pub(super) fn run_handovers(&mut self) {
        if self.handovers.held_until.is_some_and(|until| self.now() >= until) {
            self.handovers.held_until = None;
            self.withdraw(&self.handovers.granted());
        }
    }

    /// Takes slots that another primary gives, under an epoch above all that were seen.
    pub(super) fn claim(&mut self, slots: &SlotSet, from: NodeId) -> Result<(), AdminError> {
        if !self.is_primary() {
            return Err(AdminError::OnlyPrimaries);
        }
        let source = self.nodes.get(&from).ok_or(AdminError::UnknownNode(from))?;
        if let Some(slot) = slots.minus(&source.slots).iter().next() {
            return Err(AdminError::GivenByAnother(slot));
        }
        self.mark_migrate_target(self.me);
        let source = self.nodes.get_mut(&from).expect("the node was just read");
        source.slots = source.slots.minus(slots);
        source.unclaimed = source.unclaimed.minus(slots);
        let own = self.own_mut();
        own.slots = own.slots.or(slots);
        self.current_epoch += 1;
        self.own_mut().config_epoch = self.current_epoch;
        let until = self.now() + self.settings.node_timeout;
        self.handovers.claimed.push((from, slots.clone(), until));
        self.close_lost_slots();
        self.save(Save::Synced);
        self.log(format!("Slots of node {from} have come; configEpoch {}", self.current_epoch));
        self.broadcast_pong();
        Ok(())
    }
}
