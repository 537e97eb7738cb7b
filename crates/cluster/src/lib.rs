//! A node of a Redis Cluster, without sockets, files and a clock.
//!
//! So far: slots, node ids, the messages of the bus as Redis 7 to 8 and Valkey 8 and 9 write them,
//! and the file `nodes.conf` of both.
//!
//! Invariants: what a peer sends is checked before it is believed, and costs memory only as its
//! bytes arrive; what is written here is read here, and means the same.
#![forbid(unsafe_code)]

mod flags;
mod id;
mod message;
mod nodes_file;
mod slots;

pub use flags::NodeFlags;
pub use id::{NodeId, ShardId};
pub use message::{
    Arrival, Body, Extensions, FrameReader, GossipEntry, Gossiping, Header, Kind, Limits,
    MessageFlags, Packet, PacketError, StreamError, write_light, write_packet,
};
pub use nodes_file::{AuxFields, NodeRecord, NodesFile, NodesFileError, OpenSlot};
pub use slots::{SLOTS, Slot, SlotSet};
