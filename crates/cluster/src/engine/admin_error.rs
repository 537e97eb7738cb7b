//! Why an order of an operator is refused.
//!
//! Invariant: the texts are those of real servers.

use std::fmt;

use crate::id::NodeId;
use crate::slots::Slot;

/// Why an order is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdminError {
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
    /// This replica has none of its primary's data yet.
    NothingOfPrimary,
    /// There are keys.
    HasKeys,
    /// Slots are on the move only between primaries.
    OnlyPrimaries,
    /// A slot is another node's.
    NotOwner(Slot),
    /// A slot is not the node's that gives it.
    GivenByAnother(Slot),
    /// A slot is this node's.
    AlreadyOwner(Slot),
    /// There is no such node that a slot could move to or from.
    NoSuchPeer(NodeId),
    /// Slots go to primaries.
    TargetIsReplica,
    /// A slot moves from this node or to it, and the other end would be this node, too.
    TargetIsMyself,
    /// A slot is granted to another node.
    Granted,
    /// A node that is to claim slots does not know of this node's epoch yet.
    TargetIsBehind,
    /// A new epoch would make claims newer of which it is not known whether they stand.
    Unconfirmed,
    /// What is to be promised cannot be written down.
    NotSaved,
    /// The keys of a slot are still here.
    SlotHasKeys(Slot),
    /// This node cannot forget itself.
    ForgetMyself,
    /// A replica cannot forget its primary.
    ForgetPrimary,
    /// A primary with keys is not reset.
    ResetHasKeys,
}

impl fmt::Display for AdminError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminError::Busy(slot) => write!(out, "Slot {slot} is already busy"),
            AdminError::Unassigned(slot) => write!(out, "Slot {slot} is already unassigned"),
            AdminError::UnknownNode(id) => write!(out, "Unknown node {id}"),
            AdminError::GivenByAnother(slot) => write!(out, "Slot {slot} is another node's by now"),
            AdminError::NotOwner(slot) => write!(out, "I'm not the owner of hash slot {slot}"),
            AdminError::AlreadyOwner(slot) => {
                write!(out, "I'm already the owner of hash slot {slot}")
            }
            AdminError::NoSuchPeer(id) => write!(out, "I don't know about node {id}"),
            AdminError::SlotHasKeys(slot) => write!(
                out,
                "Can't assign hashslot {slot} to a different node while I still hold keys for \
                 this hash slot."
            ),
            AdminError::KnowsOthers => out.write_str(
                "The user can assign a config epoch only when the node does not know any other \
                 node.",
            ),
            AdminError::EpochIsSet => out.write_str("Node config epoch is already non-zero"),
            AdminError::Myself => out.write_str("Can't replicate myself"),
            AdminError::NotPrimary => {
                out.write_str("I can only replicate a master, not a replica.")
            }
            AdminError::NotEmpty => {
                out.write_str("To set a master the node must be empty and without assigned slots.")
            }
            AdminError::NotReplica => {
                out.write_str("You should send CLUSTER FAILOVER to a replica")
            }
            AdminError::NoPrimary => out.write_str("I'm a replica but my master is unknown to me"),
            AdminError::PrimaryDown => {
                out.write_str("Master is down or failed, please use CLUSTER FAILOVER FORCE")
            }
            AdminError::NothingOfPrimary => out.write_str(
                "This replica has none of its master's data yet: wait, or give these up by \
                 CLUSTER FAILOVER TAKEOVER",
            ),
            AdminError::HasKeys => out.write_str("DB must be empty to perform CLUSTER FLUSHSLOTS."),
            AdminError::OnlyPrimaries => out.write_str("Please use SETSLOT only with masters."),
            AdminError::TargetIsReplica => out.write_str("Target node is not a master"),
            AdminError::TargetIsMyself => out.write_str("Target node is myself"),
            AdminError::Granted => out.write_str("Slot export in progress."),
            AdminError::TargetIsBehind => {
                out.write_str("The target does not know the epoch of the source yet")
            }
            AdminError::Unconfirmed => out.write_str(
                "A majority of the masters has not answered yet since this node began, stood \
                 still or got slots: wait, or give up those that are gone by CLUSTER FORGET",
            ),
            AdminError::NotSaved => out.write_str("The cluster configuration file is not written"),
            AdminError::ForgetMyself => out.write_str("I tried hard but I can't forget myself..."),
            AdminError::ForgetPrimary => out.write_str("Can't forget my master!"),
            AdminError::ResetHasKeys => {
                out.write_str("CLUSTER RESET can't be called with master nodes containing keys")
            }
        }
    }
}

impl std::error::Error for AdminError {}
