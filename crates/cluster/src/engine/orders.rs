//! What operators ask for, as far as the engine decides on it.
//!
//! Invariant: an order that is refused has changed nothing; the texts are those of real servers.

use std::fmt;

use super::event::{Forcing, Order};
use super::{Cluster, Save};
use crate::id::NodeId;
use crate::slots::{Slot, SlotSet};

/// Why an order is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrderError {
    /// A slot has an owner.
    Busy(Slot),
    /// A slot has no owner.
    Unassigned(Slot),
    /// There are other nodes.
    KnowsOthers,
    /// The epoch was set before.
    EpochIsSet,
    /// There is no such node.
    UnknownNode(NodeId),
    /// The node is this one.
    Myself,
    /// The node is a replica.
    NotPrimary,
    /// This node has slots or keys.
    NotEmpty,
    /// This node is a primary.
    NotReplica,
    /// The primary is in no table.
    NoPrimary,
    /// The primary does not answer.
    PrimaryDown,
}

impl fmt::Display for OrderError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            OrderError::Busy(slot) => return write!(formatter, "Slot {slot} is already busy"),
            OrderError::Unassigned(slot) => {
                return write!(formatter, "Slot {slot} is already unassigned");
            }
            OrderError::UnknownNode(id) => return write!(formatter, "Unknown node {id}"),
            OrderError::KnowsOthers => {
                "The user can assign a config epoch only when the node does not know any other \
                 node."
            }
            OrderError::EpochIsSet => "Node config epoch is already non-zero",
            OrderError::Myself => "Can't replicate myself",
            OrderError::NotPrimary => "I can only replicate a master, not a replica.",
            OrderError::NotEmpty => {
                "To set a master the node must be empty and without assigned slots."
            }
            OrderError::NotReplica => "You should send CLUSTER FAILOVER to a replica",
            OrderError::NoPrimary => "I'm a replica but my master is unknown to me",
            OrderError::PrimaryDown => {
                "Master is down or failed, please use CLUSTER FAILOVER FORCE"
            }
        };
        formatter.write_str(text)
    }
}

impl std::error::Error for OrderError {}

impl Cluster {
    pub(super) fn carry_out(&mut self, order: &Order) -> Result<(), OrderError> {
        match order {
            Order::Meet { ip, bus_port } => {
                self.meet(*ip, *bus_port, true);
                Ok(())
            }
            Order::AddSlots(slots) => self.add_slots(slots),
            Order::DelSlots(slots) => self.delete_slots(slots),
            Order::SetConfigEpoch(epoch) => self.set_config_epoch(*epoch),
            Order::Replicate(id, has_keys) => self.replicate(*id, *has_keys),
            Order::Failover(forcing) => self.fail_over(*forcing),
        }
    }

    fn add_slots(&mut self, slots: &SlotSet) -> Result<(), OrderError> {
        if let Some(slot) = slots.iter().find(|slot| self.owner(*slot).is_some()) {
            return Err(OrderError::Busy(slot));
        }
        let own = self.own_mut();
        own.slots = own.slots.or(slots);
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
