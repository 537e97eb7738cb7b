//! Slots on the move: CLUSTER SETSLOT.
//!
//! Invariants: a slot that is migrating is this node's own, and one that is importing is not; the
//! node that a slot has come to claims it under an epoch of its own, or others would not believe.

use super::admin_error::AdminError;
use super::event::SetSlotAction;
use super::{Cluster, Save};
use crate::id::NodeId;
use crate::nodes_file::OpenSlot;
use crate::slots::{Slot, SlotSet};

impl Cluster {
    /// CLUSTER SETSLOT.
    pub(super) fn set_slot(
        &mut self,
        slot: Slot,
        change: SetSlotAction,
        has_keys: bool,
    ) -> Result<(), AdminError> {
        if !self.is_primary() {
            return Err(AdminError::OnlyPrimaries);
        }
        self.check_not_granted(&[slot].into_iter().collect())?;
        let is_mine = self.my_slots().contains(slot);
        match change {
            SetSlotAction::Migrating(_) if !is_mine => return Err(AdminError::NotOwner(slot)),
            SetSlotAction::Importing(_) if is_mine => return Err(AdminError::AlreadyOwner(slot)),
            SetSlotAction::Migrating(id) => {
                self.check_peer(id)?;
                self.open.insert(slot, OpenSlot::Migrating(id));
            }
            SetSlotAction::Importing(id) => {
                self.check_peer(id)?;
                self.open.insert(slot, OpenSlot::Importing(id));
            }
            SetSlotAction::Stable => _ = self.open.remove(&slot),
            SetSlotAction::Node(id) => {
                self.check_target(id, AdminError::UnknownNode(id))?;
                if is_mine && id != self.me && has_keys {
                    return Err(AdminError::SlotHasKeys(slot));
                }
                if id == self.me && self.open.contains_key(&slot) {
                    self.check_new_epoch()?;
                }
                self.assign(slot, id, has_keys);
            }
        }
        self.save(Save::Synced);
        Ok(())
    }

    /// Slots of others become ones that come here from their owners.
    pub(super) fn import_strays(&mut self, slots: &SlotSet) -> Result<(), AdminError> {
        if !self.is_primary() {
            return Err(AdminError::OnlyPrimaries);
        }
        for slot in slots.iter() {
            if let Some(owner) = self.owner(slot).filter(|owner| *owner != self.me) {
                self.open.entry(slot).or_insert(OpenSlot::Importing(owner));
            }
        }
        self.save(Save::Synced);
        Ok(())
    }

    /// Whether keys of a slot may go to a node, or come from there.
    fn check_peer(&self, id: NodeId) -> Result<(), AdminError> {
        match id == self.me {
            true => Err(AdminError::TargetIsMyself),
            false => self.check_target(id, AdminError::NoSuchPeer(id)),
        }
    }

    pub(super) fn check_target(&self, id: NodeId, unknown: AdminError) -> Result<(), AdminError> {
        let node = self.nodes.get(&id).ok_or(unknown)?;
        if node.is_primary() { Ok(()) } else { Err(AdminError::TargetIsReplica) }
    }

    /// Gives a slot to a node by an order.
    fn assign(&mut self, slot: Slot, id: NodeId, has_keys: bool) {
        let was_mine = self.my_slots().contains(slot);
        if matches!(self.open.get(&slot), Some(OpenSlot::Migrating(_))) && !has_keys {
            self.open.remove(&slot);
        }
        self.mark_migrate_target(id);
        for (other, node) in &mut self.nodes {
            if *other != id {
                node.slots.remove(slot);
                node.unclaimed.remove(slot);
            }
        }
        self.nodes.get_mut(&id).expect("a caller has looked the node up").slots.insert(slot);
        let is_bare = was_mine && id != self.me && self.my_slots().is_empty();
        if is_bare && self.settings.allows_replica_migration {
            self.log(format!(
                "Configuration change detected. Reconfiguring myself as a replica of {id}"
            ));
            self.become_replica(id);
        }
        if id == self.me && self.open.remove(&slot).is_some() {
            if self.bump_epoch() {
                self.log(format!("configEpoch updated after importing slot {slot}"));
            }
            self.broadcast_pong();
        }
    }

    /// Moves that the owners of slots have made pointless are over.
    pub(super) fn close_lost_slots(&mut self) {
        let own = &self.nodes[&self.me].slots;
        self.open.retain(|slot, open| match open {
            OpenSlot::Migrating(_) => own.contains(*slot),
            OpenSlot::Importing(_) => !own.contains(*slot),
        });
    }
}
