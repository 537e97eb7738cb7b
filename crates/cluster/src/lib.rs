//! A node of a Redis Cluster, without sockets, files and a clock.
//!
//! Hash slots, the messages of the bus as Redis 7 to 8 and Valkey 8 and 9 write them, the file
//! `nodes.conf` of both, and the engine, which takes events and gives actions: meeting, gossip,
//! detection of failures, claims of slots, slots on the move, elections, failovers by order,
//! replicas that change over, messages to the subscribers of other nodes; plans by which slots are
//! shared out anew.
//!
//! Invariants: a node gives one vote in an epoch; of two primaries with one epoch, which shards
//! that change their primaries at one time can bring about, one takes another epoch; what a peer
//! sends is checked before it is believed, and costs memory only as its bytes arrive; what is
//! written here is read here, and means the same.
#![forbid(unsafe_code)]

mod client_address;
mod engine;
mod flags;
mod id;
mod message;
mod nodes_file;
mod rebalance;
mod slots;

pub use client_address::{ClientAddress, ClientRoute};
pub use engine::{
    Action, AdminCommand, AdminError, ClaimEpochs, Cluster, Event, FailoverMode, LinkId, Millis,
    Moment, PublishedMessage, SetSlotAction, Settings, StreamPosition,
};
pub use flags::NodeFlags;
pub use id::{NodeId, ShardId};
pub use message::{
    Body, EPOCH_MAX, Extensions, FramingError, GossipEntry, GossipSection, Header, Limits,
    MessageFlags, MessageType, Packet, PacketError, PacketReader, ReceivedPacket,
    write_light_packet, write_packet,
};
pub use nodes_file::{AuxFields, NodeRecord, NodesFile, NodesFileError, OpenSlot, SlotGrant};
pub use rebalance::{NodeBalance, NodeLoad, PlannedMove, RebalanceBounds, RebalancePlan};
pub use slots::{SLOTS, Slot, SlotSet};
