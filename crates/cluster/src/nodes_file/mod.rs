//! The file `nodes.conf`: what a node of Redis or Valkey knows of its cluster, between two runs.
//!
//! Invariant: what is written is read as the same; what is not understood is an error, since a
//! vote that is forgotten may be given twice.

mod read;
#[cfg(test)]
mod tests;
mod write;

use std::net::IpAddr;

pub use self::read::NodesFileError;
use crate::client_address::ClientAddress;
use crate::flags::NodeFlags;
use crate::id::{NodeId, ShardId};
use crate::slots::{Slot, SlotSet};

/// All that the file says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodesFile {
    /// The nodes; exactly one of them is flagged as the one whose file this is.
    pub nodes: Vec<NodeRecord>,
    /// The greatest epoch that was seen.
    pub current_epoch: u64,
    /// The epoch of the last vote.
    pub last_vote_epoch: u64,
    /// What the node has granted to others.
    pub grants: Vec<SlotGrant>,
    /// Nodes that did not claim all their slots when they were last heard, each with the epoch
    /// under which it last did.
    pub claimed_epochs: Vec<(NodeId, u64)>,
}

/// Slots that another node may claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotGrant {
    /// The node.
    pub target: NodeId,
    /// The least epoch that its claim may have.
    pub first_epoch: u64,
    /// The greatest.
    pub last_epoch: u64,
    /// The slots.
    pub slots: SlotSet,
}

/// The variables of ours: servers of other kinds pass over them.
const GRANT_VARIABLE: &str = "grantedSlots";
const CLAIM_VARIABLE: &str = "claimedEpoch";

/// One node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeRecord {
    /// Its name.
    pub id: NodeId,
    /// Its address.
    pub ip: Option<IpAddr>,
    /// Its port for clients without TLS; 0 if there is none.
    pub tcp_port: u16,
    /// Its port for clients with TLS; 0 if there is none.
    pub tls_port: u16,
    /// Its port of the bus.
    pub bus_port: u16,
    /// What stands behind the address.
    pub aux: AuxFields,
    /// Its flags.
    pub flags: NodeFlags,
    /// Its primary.
    pub primary: Option<NodeId>,
    /// Since when a ping is unanswered, in milliseconds of the wall clock; 0 if none is.
    pub ping_sent: u64,
    /// When the last PONG came, in milliseconds of the wall clock.
    pub pong_received: u64,
    /// The epoch of its claims.
    pub config_epoch: u64,
    /// Whether the link to it stood.
    pub is_connected: bool,
    /// Its slots.
    pub slots: SlotSet,
    /// Slots that are on the move from it or to it; only of the node whose file this is.
    pub open_slots: Vec<(Slot, OpenSlot)>,
}

/// What a node's address is followed by.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AuxFields {
    /// The host name that it announces.
    pub hostname: Option<String>,
    /// The name that it announces for people.
    pub human_name: Option<String>,
    /// Its shard.
    pub shard: Option<ShardId>,
    /// Where clients are to come, in Valkey.
    pub client: ClientAddress,
    /// The availability zone, in Valkey.
    pub availability_zone: Option<String>,
}

/// Where a slot is on the move to, or from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenSlot {
    /// Its keys go to this node.
    Migrating(NodeId),
    /// Its keys come from this node.
    Importing(NodeId),
}

/// The words of the flags, in the order in which they are written.
const FLAG_WORDS: [(&str, NodeFlags); 8] = [
    ("myself", NodeFlags::MYSELF),
    ("master", NodeFlags::PRIMARY),
    ("slave", NodeFlags::REPLICA),
    ("fail?", NodeFlags::PFAIL),
    ("fail", NodeFlags::FAIL),
    ("handshake", NodeFlags::HANDSHAKE),
    ("noaddr", NodeFlags::NOADDR),
    ("nofailover", NodeFlags::NOFAILOVER),
];
