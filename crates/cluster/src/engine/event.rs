//! The border to the driver: events in, actions out.
//!
//! Invariant: an action holds all that its execution needs; nothing is looked up later.

use std::net::IpAddr;

use crate::id::NodeId;
use crate::message::Packet;
use crate::slots::{Slot, SlotSet};

/// Milliseconds of a clock.
pub type Millis = u64;

/// The time of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// Of a clock that only goes forward: all decisions go by it.
    pub now: Millis,
    /// Of the wall clock, which may jump: only other nodes and people are told of it.
    pub wall: Millis,
}

/// A link of the bus; never used twice. The engine numbers those it opens, the driver those it
/// accepts, with numbers of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkId {
    /// Opened from here.
    To(u64),
    /// Opened by a peer.
    From(u64),
}

/// An event, told by the driver.
#[derive(Clone, Debug)]
pub enum Event {
    /// The data are loaded, and peers are heard from now on. Comes once, before all others.
    Begun,
    /// A tenth of a second has passed.
    Tick,
    /// A peer has opened a link.
    Accepted {
        /// The link.
        link: LinkId,
        /// The address of the peer.
        peer: IpAddr,
        /// The address here that the peer has reached.
        local: IpAddr,
    },
    /// A link that was asked for stands.
    Connected {
        /// The link.
        link: LinkId,
    },
    /// A link could not be opened or is lost. Not for those that the engine closed.
    Closed {
        /// The link.
        link: LinkId,
    },
    /// A packet has come.
    Received {
        /// The link.
        link: LinkId,
        /// The packet.
        packet: Box<Packet>,
    },
    /// How far the stream of replication is here.
    ReplicationOffset {
        /// The primary whose stream that is, at a replica. What is told of another one than the
        /// node's present primary does not count.
        primary: Option<NodeId>,
        /// Where the data stand in that stream.
        position: StreamPosition,
        /// How long ago a replica heard from its primary, if ever.
        silence: Option<Millis>,
    },
    /// The primary has told this replica, in its stream, to take over: the primary ends.
    PrimaryEnds,
    /// The writers are held, as [`Action::PauseWrites`] asked; no write comes behind this offset.
    WritesPaused {
        /// The offset.
        offset: u64,
    },
}

/// Where the data of a node stand in the stream of replication. An offset says something only
/// within the history that it belongs to: of another one it is a number like any other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamPosition {
    /// The data are not known to be of the primary's history.
    Nowhere,
    /// The data of a replica are there up to this offset, and no more comes for now.
    Stopped(u64),
    /// The stream flows, and has been applied up to this offset, or written, at a primary.
    Flowing(u64),
}

/// A message that a client here has published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublishedMessage {
    /// The channel.
    pub channel: Vec<u8>,
    /// The message.
    pub message: Vec<u8>,
    /// Whether the channel is a sharded one.
    pub is_sharded: bool,
}

/// An order to the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Put this text in the place of `nodes.conf`, before anything else of the list is done.
    SaveConfig {
        /// The text.
        text: String,
        /// Whether the text must be on disk, and not only on its way there, before the rest.
        is_synced: bool,
    },
    /// Open a link.
    Connect {
        /// The link.
        link: LinkId,
        /// The address.
        ip: IpAddr,
        /// The port of the bus.
        port: u16,
    },
    /// Close a link and forget it.
    Close {
        /// The link.
        link: LinkId,
    },
    /// Send a packet.
    Send {
        /// The link.
        link: LinkId,
        /// The bytes of the packet.
        bytes: Vec<u8>,
    },
    /// A message has come for subscribers here.
    Deliver {
        /// The channel.
        channel: Vec<u8>,
        /// The message.
        message: Vec<u8>,
        /// Whether the channel is a sharded one.
        is_sharded: bool,
    },
    /// Replicate this node from now on.
    Replicate {
        /// The primary.
        primary: NodeId,
        /// Its address, if known.
        ip: Option<IpAddr>,
        /// Its port for clients.
        port: u16,
    },
    /// Be a primary from now on.
    BecomePrimary,
    /// Hold the clients' writes for so long, and say [`Event::WritesPaused`].
    PauseWrites {
        /// The time, in milliseconds.
        length: Millis,
    },
    /// Let the clients' writes go on.
    ResumeWrites,
    /// Delete the keys of these slots: another node has them now.
    DeleteSlotKeys {
        /// The slots.
        slots: SlotSet,
    },
    /// Write a line to the log.
    Log {
        /// The line.
        text: String,
    },
}

/// The epochs under which slots that are granted may be claimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClaimEpochs {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

/// What an operator may ask of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdminCommand {
    /// CLUSTER MEET.
    Meet {
        /// The address.
        ip: IpAddr,
        /// The port for clients.
        port: u16,
        /// The port of the bus.
        bus_port: u16,
    },
    /// CLUSTER ADDSLOTS.
    AddSlots(SlotSet),
    /// CLUSTER DELSLOTS.
    DelSlots(SlotSet),
    /// CLUSTER SET-CONFIG-EPOCH.
    SetConfigEpoch(u64),
    /// CLUSTER REPLICATE; whether there are keys here.
    Replicate(NodeId, bool),
    /// CLUSTER FAILOVER.
    Failover(FailoverMode),
    /// CLUSTER SETSLOT; whether there are keys of the slot here.
    SetSlot {
        /// The slot.
        slot: Slot,
        /// What becomes of the slot.
        change: SetSlotAction,
        /// Whether there are keys of the slot here.
        has_keys: bool,
    },
    /// There are keys here of these slots of other nodes, which may be nowhere else.
    ImportStrays(SlotSet),
    /// The node has sent slots with all that is in them, and holds its writers.
    Grant {
        /// The slots.
        slots: SlotSet,
        /// The primary that may claim them.
        to: NodeId,
        /// Whether the primary is told under which epochs.
        names_epochs: bool,
    },
    /// Slots that were granted, and that nobody may claim any more for that. The slots are served
    /// again when it is sure that none was claimed.
    Withdraw(SlotSet),
    /// Slots that were granted to somebody who was not told of it.
    Revoke(SlotSet),
    /// Slots of another primary have come here with all that is in them, and it holds its writers.
    Claim {
        /// The slots.
        slots: SlotSet,
        /// Their owner until now.
        from: NodeId,
        /// Under which epochs, where the owner has said so.
        epochs: Option<ClaimEpochs>,
    },
    /// CLUSTER REPLICATE NO ONE: a replica becomes a primary without slots, of a shard of its own.
    /// Its data are the caller's to delete.
    ReplicateNoOne,
    /// CLUSTER FLUSHSLOTS; whether there are keys here.
    FlushSlots(bool),
    /// CLUSTER BUMPEPOCH.
    BumpEpoch,
    /// CLUSTER FORGET.
    Forget(NodeId),
    /// CLUSTER RESET. The data of a replica are the caller's to delete.
    Reset {
        /// Whether the node is to get a new name, and to forget all epochs.
        is_hard: bool,
        /// Whether there are keys here.
        has_keys: bool,
    },
    /// CLUSTER SAVECONFIG.
    Save,
}

/// What CLUSTER SETSLOT does to a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetSlotAction {
    /// MIGRATING: the keys go to this node.
    Migrating(NodeId),
    /// IMPORTING: the keys come from this node.
    Importing(NodeId),
    /// STABLE: the slot moves no more.
    Stable,
    /// NODE: the slot is this node's.
    Node(NodeId),
}

/// How far CLUSTER FAILOVER goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailoverMode {
    /// The primary hands over.
    Agreed,
    /// FORCE: the primary is not asked.
    Force,
    /// TAKEOVER: no node is asked.
    Takeover,
    /// FORCE, by the primary itself, which ends.
    Inherited,
}
