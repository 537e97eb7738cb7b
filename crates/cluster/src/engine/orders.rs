//! What operators ask for, as far as the engine decides on it.
//!
//! Invariant: an order that is refused has changed nothing.

use super::event::{Forcing, Order};
use super::handshake::MeetingPlace;
use super::order_error::OrderError;
use super::{Cluster, Save};
use crate::id::NodeId;
use crate::slots::SlotSet;

impl Cluster {
    pub(super) fn carry_out(&mut self, order: &Order) -> Result<(), OrderError> {
        match order {
            Order::Meet { ip, port, bus_port } => {
                self.meet(MeetingPlace { ip: *ip, port: *port, bus_port: *bus_port }, true);
                Ok(())
            }
            Order::AddSlots(slots) => self.add_slots(slots),
            Order::DelSlots(slots) => self.delete_slots(slots),
            Order::SetConfigEpoch(epoch) => self.set_config_epoch(*epoch),
            Order::Replicate(id, has_keys) => self.replicate(*id, *has_keys),
            Order::Failover(forcing) => self.fail_over(*forcing),
            Order::SetSlot { slot, change, has_keys } => self.set_slot(*slot, *change, *has_keys),
            Order::Claim { slots, from } => self.claim(slots, *from),
            Order::FlushSlots(has_keys) => self.flush_slots(*has_keys),
            Order::BumpEpoch => {
                self.bump_epoch();
                Ok(())
            }
            Order::Forget(id) => self.order_forget(*id),
            Order::Reset { is_hard, has_keys } => self.reset(*is_hard, *has_keys),
            Order::Save => {
                self.save(Save::Synced);
                Ok(())
            }
        }
    }

    fn add_slots(&mut self, slots: &SlotSet) -> Result<(), OrderError> {
        if let Some(slot) = slots.iter().find(|slot| self.owner(*slot).is_some()) {
            return Err(OrderError::Busy(slot));
        }
        self.invite_replicas(self.me);
        let own = self.own_mut();
        own.slots = own.slots.or(slots);
        self.open.retain(|slot, _| !slots.contains(*slot));
        self.save(Save::Synced);
        Ok(())
    }

    fn flush_slots(&mut self, has_keys: bool) -> Result<(), OrderError> {
        if has_keys {
            return Err(OrderError::HasKeys);
        }
        let own = self.own_mut();
        (own.slots, own.unclaimed) = (SlotSet::empty(), SlotSet::empty());
        self.save(Save::Synced);
        Ok(())
    }

    fn delete_slots(&mut self, slots: &SlotSet) -> Result<(), OrderError> {
        if let Some(slot) = slots.iter().find(|slot| self.owner(*slot).is_none()) {
            return Err(OrderError::Unassigned(slot));
        }
        for node in self.nodes.values_mut() {
            node.slots = node.slots.minus(slots);
            node.unclaimed = node.unclaimed.minus(slots);
        }
        self.save(Save::Synced);
        Ok(())
    }

    fn set_config_epoch(&mut self, epoch: u64) -> Result<(), OrderError> {
        if self.nodes.len() > 1 {
            return Err(OrderError::KnowsOthers);
        }
        if self.own().config_epoch != 0 {
            return Err(OrderError::EpochIsSet);
        }
        self.own_mut().config_epoch = epoch;
        self.current_epoch = self.current_epoch.max(epoch);
        self.save(Save::Synced);
        Ok(())
    }

    fn replicate(&mut self, id: NodeId, has_keys: bool) -> Result<(), OrderError> {
        let Some(node) = self.nodes.get(&id) else { return Err(OrderError::UnknownNode(id)) };
        if id == self.me {
            return Err(OrderError::Myself);
        }
        if !node.is_primary() {
            return Err(OrderError::NotPrimary);
        }
        if self.is_primary() && (has_keys || !self.my_slots().is_empty()) {
            return Err(OrderError::NotEmpty);
        }
        self.become_replica(id);
        Ok(())
    }

    fn fail_over(&mut self, forcing: Forcing) -> Result<(), OrderError> {
        if self.is_primary() {
            return Err(OrderError::NotReplica);
        }
        let primary = self.own().primary().and_then(|primary| self.nodes.get(&primary));
        let primary = primary.ok_or(OrderError::NoPrimary)?;
        let is_reached = primary.outbound.is_some_and(|outbound| outbound.is_connected);
        if forcing == Forcing::Agreed && (primary.has_failed() || !is_reached) {
            return Err(OrderError::PrimaryDown);
        }
        self.begin_manual(forcing);
        Ok(())
    }
}
