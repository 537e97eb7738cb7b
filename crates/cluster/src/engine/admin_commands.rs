//! What operators ask for, as far as the engine decides on it.
//!
//! Invariant: an order that is refused has changed nothing.

use super::admin_error::AdminError;
use super::event::{AdminCommand, FailoverMode};
use super::handshake::MeetAddress;
use super::{Cluster, Save};
use crate::id::{NodeId, ShardId};
use crate::slots::SlotSet;

impl Cluster {
    pub(super) fn execute_admin(&mut self, order: &AdminCommand) -> Result<(), AdminError> {
        match order {
            AdminCommand::Meet { ip, port, bus_port } => {
                self.meet(MeetAddress { ip: *ip, port: *port, bus_port: *bus_port }, true);
                Ok(())
            }
            AdminCommand::AddSlots(slots) => self.add_slots(slots),
            AdminCommand::DelSlots(slots) => self.delete_slots(slots),
            AdminCommand::SetConfigEpoch(epoch) => self.set_config_epoch(*epoch),
            AdminCommand::Replicate(id, has_keys) => self.replicate(*id, *has_keys),
            AdminCommand::ReplicateNoOne => {
                self.replicate_no_one();
                Ok(())
            }
            AdminCommand::Failover(forcing) => self.fail_over(*forcing),
            AdminCommand::SetSlot { slot, change, has_keys } => {
                self.set_slot(*slot, *change, *has_keys)
            }
            AdminCommand::ImportStrays(slots) => self.import_strays(slots),
            AdminCommand::Grant { slots, to, names_epochs } => {
                self.grant(slots, *to, *names_epochs)
            }
            AdminCommand::Withdraw(slots) => {
                self.withdraw(slots);
                Ok(())
            }
            AdminCommand::Revoke(slots) => {
                self.revoke(slots);
                Ok(())
            }
            AdminCommand::Claim { slots, from, epochs } => self.claim(slots, *from, *epochs),
            AdminCommand::FlushSlots(has_keys) => self.flush_slots(*has_keys),
            AdminCommand::BumpEpoch => self.order_new_epoch(),
            AdminCommand::Forget(id) => self.forget_node(*id),
            AdminCommand::Reset { is_hard, has_keys } => self.reset(*is_hard, *has_keys),
            AdminCommand::Save => {
                self.save(Save::Synced);
                Ok(())
            }
        }
    }

    fn add_slots(&mut self, slots: &SlotSet) -> Result<(), AdminError> {
        if let Some(slot) = slots.iter().find(|slot| self.owner(*slot).is_some()) {
            return Err(AdminError::Busy(slot));
        }
        self.mark_migrate_target(self.me);
        let own = self.own_mut();
        own.slots = own.slots.or(slots);
        self.open.retain(|slot, _| !slots.contains(*slot));
        self.save(Save::Synced);
        Ok(())
    }

    fn flush_slots(&mut self, has_keys: bool) -> Result<(), AdminError> {
        if has_keys {
            return Err(AdminError::HasKeys);
        }
        self.check_not_granted(self.my_slots())?;
        let own = self.own_mut();
        (own.slots, own.unclaimed) = (SlotSet::empty(), SlotSet::empty());
        self.save(Save::Synced);
        Ok(())
    }

    fn delete_slots(&mut self, slots: &SlotSet) -> Result<(), AdminError> {
        if let Some(slot) = slots.iter().find(|slot| self.owner(*slot).is_none()) {
            return Err(AdminError::Unassigned(slot));
        }
        self.check_not_granted(slots)?;
        for node in self.nodes.values_mut() {
            node.slots = node.slots.minus(slots);
            node.unclaimed = node.unclaimed.minus(slots);
        }
        self.open.retain(|slot, _| !slots.contains(*slot));
        self.save(Save::Synced);
        Ok(())
    }

    fn set_config_epoch(&mut self, epoch: u64) -> Result<(), AdminError> {
        if self.nodes.len() > 1 {
            return Err(AdminError::KnowsOthers);
        }
        if self.own().config_epoch != 0 {
            return Err(AdminError::EpochIsSet);
        }
        self.own_mut().config_epoch = epoch;
        self.current_epoch = self.current_epoch.max(epoch);
        self.save(Save::Synced);
        Ok(())
    }

    fn replicate(&mut self, id: NodeId, has_keys: bool) -> Result<(), AdminError> {
        let Some(node) = self.nodes.get(&id) else { return Err(AdminError::UnknownNode(id)) };
        if id == self.me {
            return Err(AdminError::Myself);
        }
        if !node.is_primary() {
            return Err(AdminError::NotPrimary);
        }
        if self.is_primary() && (has_keys || !self.my_slots().is_empty()) {
            return Err(AdminError::NotEmpty);
        }
        self.become_replica(id);
        Ok(())
    }

    /// A primary stays what it is.
    fn replicate_no_one(&mut self) {
        if self.is_primary() {
            return;
        }
        self.become_primary();
        self.own_mut().shard = ShardId(NodeId::random(&mut self.random));
        self.broadcast_pong();
    }

    pub(super) fn fail_over(&mut self, forcing: FailoverMode) -> Result<(), AdminError> {
        if self.is_primary() {
            return Err(AdminError::NotReplica);
        }
        let primary = self.own().primary().and_then(|primary| self.nodes.get(&primary));
        let primary = primary.ok_or(AdminError::NoPrimary)?;
        let is_reached = primary.outbound.is_some_and(|outbound| outbound.is_connected);
        if forcing == FailoverMode::Agreed && (primary.has_failed() || !is_reached) {
            return Err(AdminError::PrimaryDown);
        }
        let is_forced = matches!(forcing, FailoverMode::Force | FailoverMode::Inherited);
        if is_forced && self.has_foreign_data {
            return Err(AdminError::NothingOfPrimary);
        }
        self.begin_manual(forcing);
        Ok(())
    }
}
