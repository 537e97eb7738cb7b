//! The owners of slots: claims, their epochs, and telling those that are behind.
//!
//! Invariant: a slot goes to another node only by a claim of a greater epoch, when its owner has
//! let it go, or has granted it (`slot_handover.rs`), so that all tables come to the same end.

use super::admin_error::AdminError;
use super::event::Action;
use super::node::{Node, Role};
use super::{Cluster, Save, is_primary_header};
use crate::id::NodeId;
use crate::message::{Body, Header};
use crate::nodes_file::OpenSlot;
use crate::slots::SlotSet;

impl Cluster {
    /// Takes the claims of a header.
    pub(super) fn process_slot_claims(&mut self, header: &Header) {
        let id = header.sender;
        let represented_node = if is_primary_header(header) { Some(id) } else { header.primary };
        let Some(claimer) = represented_node.filter(|claimer| self.nodes.contains_key(claimer))
        else {
            return;
        };
        if is_primary_header(header) {
            let now = self.now();
            let node = self.nodes.get_mut(&id).expect("a caller has looked the sender up");
            let unclaimed = node.slots.minus(&header.slots);
            if node.unclaimed.is_empty() {
                node.unclaimed_since = now;
            }
            if header.config_epoch < node.config_epoch {
                // An older word, or a question, takes nothing back.
                node.unclaimed = unclaimed.or(&node.unclaimed.and(&node.slots));
            } else {
                if unclaimed.is_empty() {
                    node.claimed_epoch = header.config_epoch;
                }
                node.unclaimed = unclaimed;
            }
            self.handovers.settle_claims(id, &header.slots, now);
        }
        if self.nodes[&claimer].slots == header.slots {
            return;
        }
        // What a node claims under no epoch that has had one is a question (`slot_handover.rs`).
        let asks = header.config_epoch == 0 && self.nodes[&id].config_epoch > 0;
        if is_primary_header(header) && !asks {
            self.update_slot_owners(id, header.config_epoch, &header.slots);
        }
        self.correct(id, header);
    }

    /// Gives a primary what it claims, as far as its epoch is above those of the owners.
    pub(super) fn update_slot_owners(&mut self, claimer: NodeId, epoch: u64, claimed: &SlotSet) {
        let gone = self.handovers.claimed_from(claimer, self.now());
        let claimed = &claimed.minus(&self.awaited_from_others(claimer)).minus(&gone);
        let granted = self.handovers.granted_to(claimer, epoch);
        let mut gained = claimed.clone();
        for node in self.nodes.values() {
            gained = gained.minus(&node.slots);
        }
        let mine = self.own().primary().unwrap_or(self.me);
        let mut lost = SlotSet::empty();
        let time = self.settings.node_timeout;
        for (id, node) in &mut self.nodes {
            if *id == claimer {
                continue;
            }
            let wanted = node.slots.and(claimed);
            let mut given = wanted.and(&node.slots_open_to(epoch, time));
            if *id == self.me {
                given = given.or(&wanted.and(&granted));
            }
            if given.is_empty() {
                continue;
            }
            node.slots = node.slots.minus(&given);
            node.unclaimed = node.unclaimed.minus(&given);
            if *id == mine {
                lost = given.clone();
            }
            gained = gained.or(&given);
        }
        self.settle_grants(&granted.and(claimed), &lost);
        if gained.is_empty() {
            return;
        }
        self.mark_migrate_target(claimer);
        let node = self.nodes.get_mut(&claimer).expect("a caller has looked the claimer up");
        node.slots = node.slots.or(&gained);
        for (slot, open) in &mut self.open {
            if let OpenSlot::Importing(peer) = open
                && gained.contains(*slot)
            {
                // What is to come from the old primary comes from the one in its place.
                *peer = claimer;
            }
        }
        self.close_lost_slots();
        self.save(Save::Synced);
        if !lost.is_empty() {
            let is_all = *claimed == lost;
            self.handle_lost_slots(claimer, mine, lost, is_all);
        }
    }

    /// Slots that come here, and from another shard than the claimer's. These are nobody's to take
    /// before an operator says so; a replica that takes the place of the old owner has them.
    fn awaited_from_others(&self, claimer: NodeId) -> SlotSet {
        let awaited = self.open.iter().filter_map(|(slot, open)| match open {
            OpenSlot::Importing(peer) if !self.is_same_shard(*peer, claimer) => Some(*slot),
            _ => None,
        });
        awaited.collect()
    }

    fn is_same_shard(&self, one: NodeId, other: NodeId) -> bool {
        let shard = |id: NodeId| self.nodes.get(&id).map(|node| node.shard);
        one == other || (shard(one).is_some() && shard(one) == shard(other))
    }

    /// This shard has lost slots. With the last of them it goes over to their new owner, if that
    /// has taken its primary's place: is of this shard, or has nothing else. To another shard it
    /// goes if the operator allows that.
    fn handle_lost_slots(&mut self, claimer: NodeId, mine: NodeId, lost: SlotSet, is_all: bool) {
        let is_bare = self.nodes.get(&mine).is_none_or(|node| node.slots.is_empty());
        let is_successor = is_all || self.is_same_shard(mine, claimer);
        let follows = is_successor || self.settings.allows_replica_migration;
        if is_bare && claimer != self.me && follows {
            self.log(format!(
                "Configuration change detected. Reconfiguring myself as a replica of {claimer}"
            ));
            self.become_replica(claimer);
        } else if mine == self.me {
            self.actions.push(Action::DeleteSlotKeys { slots: lost });
        }
    }

    /// Tells a sender that claims, for itself or its primary, what a later claim has taken. That
    /// may be one of its primary, which a replica has missed.
    pub(super) fn correct(&mut self, sender: NodeId, header: &Header) {
        let asks = header.config_epoch == 0;
        let later = self
            .nodes
            .iter()
            .filter(|(id, node)| **id != sender && node.config_epoch > header.config_epoch);
        let held = later.flat_map(|(id, node)| {
            self.claims_of(*id, node, asks).into_iter().map(|(epoch, slots)| (*id, epoch, slots))
        });
        let mut told: Vec<_> =
            held.filter(|(_, _, slots)| !slots.and(&header.slots).is_empty()).collect();
        told.truncate(if asks { told.len() } else { 1 });
        for (owner, config_epoch, slots) in told {
            self.send_to(sender, &Body::Update { config_epoch, owner, slots }, false);
        }
    }

    /// What a node claims, each time under the epoch of these claims. To a question also what it
    /// has granted since counts, as it was claimed.
    fn claims_of(&self, id: NodeId, node: &Node, asks: bool) -> Vec<(u64, SlotSet)> {
        if !asks {
            return vec![(node.config_epoch, node.firm_slots(self.settings.node_timeout))];
        }
        let (epoch, unclaimed) = if id == self.me {
            let granted = self.handovers.granted_slots();
            (self.own_claim_epoch(&granted), granted)
        } else {
            (node.claimed_epoch, node.unclaimed.clone())
        };
        vec![(node.config_epoch, node.slots.minus(&unclaimed)), (epoch, node.slots.and(&unclaimed))]
    }

    /// Under which epoch this node claimed these slots last. Slots that it has granted it claims no
    /// more, whatever epoch it has taken since.
    pub(super) fn own_claim_epoch(&self, slots: &SlotSet) -> u64 {
        let epoch = self.own().config_epoch;
        self.handovers.first_reserved(slots).map_or(epoch, |first| epoch.min(first - 1))
    }

    /// A node tells of a claim that this one has missed. Where that epoch is known already, the
    /// owner itself is believed, whose headers do not claim what it has granted, and anybody of
    /// whom this node asks.
    pub(super) fn process_update(
        &mut self,
        sender: NodeId,
        (owner, epoch): (NodeId, u64),
        slots: &SlotSet,
    ) {
        let is_awaited = !self.handovers.granted_to(owner, epoch).and(slots).is_empty();
        let now = self.now();
        let Some(node) = self.nodes.get_mut(&owner) else { return };
        if owner == sender && !node.unclaimed.and(slots).is_empty() {
            node.unclaimed_since = now;
        }
        if epoch <= node.config_epoch && slots.minus(&node.slots).is_empty() {
            return;
        }
        let is_own = owner == sender && epoch == node.config_epoch;
        let is_news = epoch > node.config_epoch || is_own || is_awaited;
        if owner == self.me || !is_news {
            return;
        }
        node.role = Role::Primary;
        node.config_epoch = node.config_epoch.max(epoch);
        self.current_epoch = self.current_epoch.max(epoch);
        self.save(Save::Synced);
        self.update_slot_owners(owner, epoch, slots);
        if let Some(node) = self.nodes.get_mut(&owner)
            && owner != sender
            && node.slots.minus(slots).is_empty()
        {
            node.claimed_epoch = epoch;
        }
    }

    /// Of two primaries with one epoch, the one with the smaller name takes a new one. A node whose
    /// claims are not confirmed hears first what it has lost (`confirmation.rs`): under a new epoch
    /// that would be its own again. The collision is there still behind that.
    pub(super) fn resolve_epoch_collision(&mut self, header: &Header) {
        let own = self.own();
        if !own.is_primary()
            || !is_primary_header(header)
            || header.config_epoch != own.config_epoch
            || header.sender <= self.me
            || self.state.has_just_begun(self.now())
            || !self.is_confirmed()
            || self.confirmation.was_cut_off()
        {
            return;
        }
        self.current_epoch += 1;
        self.own_mut().config_epoch = self.current_epoch;
        self.save(Save::Synced);
        self.log(format!(
            "WARNING: configEpoch collision with node {}. configEpoch set to {}",
            header.sender, self.current_epoch
        ));
        self.broadcast_pong();
    }

    /// CLUSTER BUMPEPOCH.
    pub(super) fn order_new_epoch(&mut self) -> Result<(), AdminError> {
        self.check_new_epoch()?;
        self.bump_epoch();
        Ok(())
    }

    /// Whether a new epoch may be taken without asking anybody, if one is needed.
    pub(super) fn check_new_epoch(&self) -> Result<(), AdminError> {
        match self.is_highest() || self.is_confirmed() {
            true => Ok(()),
            false => Err(AdminError::Unconfirmed),
        }
    }

    /// Whether this node has an epoch, and no other one a greater.
    fn is_highest(&self) -> bool {
        let highest = self.nodes.values().map(|node| node.config_epoch).max().unwrap_or(0);
        let own = self.own().config_epoch;
        own != 0 && own == highest
    }

    /// Takes a new epoch without asking anybody; whether one was needed.
    pub(super) fn bump_epoch(&mut self) -> bool {
        if self.is_highest() {
            return false;
        }
        self.current_epoch += 1;
        self.own_mut().config_epoch = self.current_epoch;
        self.save(Save::Synced);
        true
    }
}
