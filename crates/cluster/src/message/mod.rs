//! Messages of the cluster bus: their types, and the layout that reader and writer share.
//!
//! Invariant: every packet that is written here is read here, and means the same.

mod error;
mod extension;
mod packet_reader;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::net::IpAddr;

pub use self::error::{FramingError, PacketError};
pub use self::extension::Extensions;
pub(crate) use self::extension::{is_hostname, is_word};
pub use self::packet_reader::{Limits, PacketReader, ReceivedPacket};
pub use self::write::{write_light_packet, write_packet};
use crate::flags::NodeFlags;
use crate::id::NodeId;
use crate::slots::SlotSet;

/// What every packet begins with.
const SIGNATURE: &[u8; 4] = b"RCmb";
/// The version of the protocol.
const VERSION: u16 = 1;
/// The length of the header.
const HEADER_LEN: usize = 2256;
/// The length of Valkey's light header.
const LIGHT_HEADER_LEN: usize = 16;
/// The bit of the type that says that the header is a light one.
const LIGHT_BIT: u16 = 0x8000;
/// The length of what is said of one node in gossip.
const GOSSIP_LEN: usize = 104;
/// The length of an address as text.
const IP_LEN: usize = 46;
/// No epoch is above this: one forged packet could use all of them up.
pub const EPOCH_MAX: u64 = 1 << 48;

/// The type of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MessageType {
    /// Asks for a PONG, and gossips.
    Ping,
    /// Answers a PING or a MEET, or tells of a change.
    Pong,
    /// A PING that asks to be taken in.
    Meet,
    /// A node is down.
    Fail,
    /// A message of pub/sub.
    Publish,
    /// A replica asks for a vote.
    AuthRequest,
    /// A primary gives its vote.
    AuthAck,
    /// A slot that the receiver claims is another node's.
    Update,
    /// A replica asks its primary to hold its writers.
    ManualFailoverStart,
    /// A message of a module.
    Module,
    /// A message of a sharded channel.
    PublishShard,
}

impl MessageType {
    /// All types, by their number on the bus.
    pub const ALL: [MessageType; 11] = [
        MessageType::Ping,
        MessageType::Pong,
        MessageType::Meet,
        MessageType::Fail,
        MessageType::Publish,
        MessageType::AuthRequest,
        MessageType::AuthAck,
        MessageType::Update,
        MessageType::ManualFailoverStart,
        MessageType::Module,
        MessageType::PublishShard,
    ];

    fn from_number(number: u16) -> Option<MessageType> {
        MessageType::ALL.get(usize::from(number)).copied()
    }

    fn number(self) -> u16 {
        self as u16
    }

    /// The name of the type, as CLUSTER INFO and the log have it.
    pub fn name(self) -> &'static str {
        match self {
            MessageType::Ping => "ping",
            MessageType::Pong => "pong",
            MessageType::Meet => "meet",
            MessageType::Fail => "fail",
            MessageType::Publish => "publish",
            MessageType::AuthRequest => "auth-req",
            MessageType::AuthAck => "auth-ack",
            MessageType::Update => "update",
            MessageType::ManualFailoverStart => "mfstart",
            MessageType::Module => "module",
            MessageType::PublishShard => "publishshard",
        }
    }
}

/// What a packet says beside its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageFlags {
    /// The sender holds its writers for a manual failover.
    pub is_paused: bool,
    /// A vote is asked for though the primary is up.
    pub forces_ack: bool,
    /// The sender reads extensions.
    pub supports_extensions: bool,
}

/// What every node says of itself in every packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The sender.
    pub sender: NodeId,
    /// The greatest epoch that the sender has seen.
    pub current_epoch: u64,
    /// The epoch of the sender's claims, or of its primary's.
    pub config_epoch: u64,
    /// How far the sender's stream of replication is.
    pub offset: u64,
    /// The slots of the sender, or of its primary.
    pub slots: SlotSet,
    /// The sender's primary, if the sender is a replica that has one.
    pub primary: Option<NodeId>,
    /// The address that the sender announces.
    pub ip: Option<IpAddr>,
    /// The port for clients: the TLS port where the bus is encrypted.
    pub port: u16,
    /// The other port for clients.
    pub secondary_port: u16,
    /// The port of the bus.
    pub bus_port: u16,
    /// The flags of the sender.
    pub flags: NodeFlags,
    /// Whether the sender takes the cluster to be down.
    pub is_down: bool,
    /// What else the packet says.
    pub message: MessageFlags,
}

/// What a node says of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GossipEntry {
    /// The node.
    pub id: NodeId,
    /// Since when a ping is unanswered, in seconds of the wall clock; 0 if none is.
    pub ping_sent: u32,
    /// When the last PONG came, in seconds of the wall clock.
    pub pong_received: u32,
    /// The address.
    pub ip: Option<IpAddr>,
    /// The port for clients.
    pub port: u16,
    /// The other port for clients.
    pub secondary_port: u16,
    /// The port of the bus.
    pub bus_port: u16,
    /// The flags.
    pub flags: NodeFlags,
}

/// The body of PING, PONG and MEET.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GossipSection {
    /// Other nodes.
    pub entries: Vec<GossipEntry>,
    /// More about the sender.
    pub extensions: Extensions,
    /// Whether an entry named no node, so that none was taken.
    pub is_dropped: bool,
}

/// What a packet is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// PING.
    Ping(GossipSection),
    /// PONG.
    Pong(GossipSection),
    /// MEET.
    Meet(GossipSection),
    /// FAIL, of this node.
    Fail(NodeId),
    /// PUBLISH.
    Publish {
        /// The channel.
        channel: Vec<u8>,
        /// The message.
        message: Vec<u8>,
    },
    /// PUBLISHSHARD.
    PublishShard {
        /// The channel.
        channel: Vec<u8>,
        /// The message.
        message: Vec<u8>,
    },
    /// FAILOVER_AUTH_REQUEST.
    AuthRequest,
    /// FAILOVER_AUTH_ACK.
    AuthAck,
    /// UPDATE.
    Update {
        /// The epoch of the owner's claims.
        config_epoch: u64,
        /// The owner.
        owner: NodeId,
        /// Its slots.
        slots: SlotSet,
    },
    /// MFSTART.
    ManualFailoverStart,
    /// MODULE.
    Module {
        /// The module.
        module: [u8; 8],
        /// The type of the message, the module's own.
        kind: u8,
        /// The message.
        payload: Vec<u8>,
    },
}

impl Body {
    /// The type of the packet.
    pub fn kind(&self) -> MessageType {
        match self {
            Body::Ping(_) => MessageType::Ping,
            Body::Pong(_) => MessageType::Pong,
            Body::Meet(_) => MessageType::Meet,
            Body::Fail(_) => MessageType::Fail,
            Body::Publish { .. } => MessageType::Publish,
            Body::PublishShard { .. } => MessageType::PublishShard,
            Body::AuthRequest => MessageType::AuthRequest,
            Body::AuthAck => MessageType::AuthAck,
            Body::Update { .. } => MessageType::Update,
            Body::ManualFailoverStart => MessageType::ManualFailoverStart,
            Body::Module { .. } => MessageType::Module,
        }
    }

    /// The gossip, in the packets that have any.
    pub fn gossip(&self) -> Option<&GossipSection> {
        match self {
            Body::Ping(gossip) | Body::Pong(gossip) | Body::Meet(gossip) => Some(gossip),
            _ => None,
        }
    }
}

/// A packet of the bus. Without a header it came under a light one: its sender is the node at the
/// other end of the link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// What the sender says of itself.
    pub header: Option<Header>,
    /// What the packet is about.
    pub body: Body,
}
