//! The entries of the map's log.
//!
//! Invariant: an entry whose making took something for granted of a shard names the version of the
//! shard for which that held.

use std::fmt;

use cluster::{NodeId, ShardId, SlotSet};

use super::NodeAddress;
use crate::position::{ShardVersion, Term};

/// An entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MapEntry {
    /// A node is of the cluster, or has another address.
    AddNode {
        /// The node.
        node: NodeId,
        /// Where it is.
        address: NodeAddress,
    },
    /// A node is of the cluster no more.
    RemoveNode {
        /// The node.
        node: NodeId,
    },
    /// A shard of one member, whose data are the shard's.
    CreateShard {
        /// The shard, by a name that was drawn for it and none had before.
        shard: ShardId,
        /// The member.
        founder: NodeId,
    },
    /// A shard without slots goes.
    RemoveShard {
        /// The shard.
        shard: ShardId,
        /// For which version.
        version: ShardVersion,
    },
    /// A node follows a shard, to become a member.
    Join {
        /// The shard.
        shard: ShardId,
        /// The node.
        node: NodeId,
    },
    /// A node that is no member yet follows no more.
    Leave {
        /// The shard.
        shard: ShardId,
        /// The node.
        node: NodeId,
    },
    /// A node that follows is a member. Only the primary asks for that.
    Admit {
        /// The shard.
        shard: ShardId,
        /// The node.
        node: NodeId,
        /// For which version.
        version: ShardVersion,
    },
    /// A node is no member any more. Only the primary asks for that.
    Dismiss {
        /// The shard.
        shard: ShardId,
        /// The node.
        node: NodeId,
        /// For which version.
        version: ShardVersion,
    },
    /// A member is the primary of a term that a majority has promised.
    Elect {
        /// The shard.
        shard: ShardId,
        /// The member.
        primary: NodeId,
        /// The term.
        term: Term,
        /// For which version.
        version: ShardVersion,
    },
    /// Slots of nobody are a shard's.
    AssignSlots {
        /// The shard.
        shard: ShardId,
        /// The slots.
        slots: SlotSet,
    },
    /// Slots go from a shard to another one, which has all their data. Only the primary that gives
    /// them asks for that, and serves them no more from before.
    MoveSlots {
        /// The slots.
        slots: SlotSet,
        /// The shard that has them.
        from: ShardId,
        /// For which version of it.
        from_version: ShardVersion,
        /// The shard that gets them.
        to: ShardId,
        /// For which version of it.
        to_version: ShardVersion,
    },
}

/// Why an entry changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapRefusal {
    /// The node is not of the cluster.
    UnknownNode,
    /// There is no such shard.
    UnknownShard,
    /// The node is in a shard.
    NodeInShard,
    /// The shard is there already.
    ShardExists,
    /// The shard has slots.
    ShardHasSlots,
    /// The node does not follow the shard, or is a member already.
    NotJoining,
    /// The node is no member of the shard.
    NotMember,
    /// The node is the primary.
    IsPrimary,
    /// The shard has no primary yet.
    NoPrimary,
    /// The shard has changed since the entry was made.
    OldVersion,
    /// The shard is in that term, or in a later one.
    OldTerm,
    /// Slots are another shard's.
    SlotsTaken,
    /// Slots are not those of the shard that gives them.
    SlotsElsewhere,
    /// Slots would go to where they are.
    SameShard,
}

impl fmt::Display for MapRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            MapRefusal::UnknownNode => "the node is not of the cluster",
            MapRefusal::UnknownShard => "there is no such shard",
            MapRefusal::NodeInShard => "the node is in a shard",
            MapRefusal::ShardExists => "the shard is there already",
            MapRefusal::ShardHasSlots => "the shard has slots",
            MapRefusal::NotJoining => "the node does not join the shard",
            MapRefusal::NotMember => "the node is no member of the shard",
            MapRefusal::IsPrimary => "the node is the primary",
            MapRefusal::NoPrimary => "the shard has no primary yet",
            MapRefusal::OldVersion => "the shard has changed meanwhile",
            MapRefusal::OldTerm => "the term is over",
            MapRefusal::SlotsTaken => "slots are another shard's",
            MapRefusal::SlotsElsewhere => "slots are not the shard's",
            MapRefusal::SameShard => "slots would go to where they are",
        })
    }
}

impl std::error::Error for MapRefusal {}
