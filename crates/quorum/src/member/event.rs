//! The border to the driver: events in, actions out.
//!
//! Invariant: an action holds all that its execution needs; nothing is looked up later.

use cluster::NodeId;

use crate::map::MapEntry;
use crate::message::Message;
use crate::position::{Offset, Term};
use crate::state::MemberState;

/// An event, told by the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Time has passed: to be told a few times in each period of heartbeats.
    Tick,
    /// A message has come.
    Received {
        /// From whom.
        from: NodeId,
        /// The message.
        message: Message,
    },
    /// The log is so long now.
    Appended {
        /// Its length.
        end: Offset,
    },
    /// A kill of this machine leaves the log with so much, or what the operator has set instead.
    Durable {
        /// How much of it.
        offset: Offset,
    },
    /// All data of the primary of this term have taken the place of what was here, at once and for
    /// sure, under the generation that was named.
    DataReceived {
        /// The term.
        term: Term,
        /// How long the log is now.
        end: Offset,
    },
    /// The stream of this term's primary comes no more, or its data could not be taken.
    StreamLost {
        /// The term.
        term: Term,
    },
    /// The primary is to give its place up, to the member that has the most.
    StepDown,
    /// The operator wants a node out of the shard.
    Dismiss {
        /// The node.
        node: NodeId,
    },
}

/// The log that a start has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundLog {
    /// Which log.
    pub generation: u64,
    /// Its length.
    pub end: Offset,
}

/// An order to the driver. The orders of a list are carried out one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Put this state in the place of the file, for sure, before anything else of the list is done.
    Persist(MemberState),
    /// Send a message.
    Send {
        /// To whom.
        to: NodeId,
        /// The message.
        message: Message,
    },
    /// Give the map's log an entry. Nothing says whether it came to be but the map.
    Propose(MapEntry),
    /// Take the stream of a primary and append it: from where the log ends, or behind all its data,
    /// which take the place of what is here once they are there for sure.
    TakeStream {
        /// The primary.
        primary: NodeId,
        /// Its term.
        term: Term,
        /// If all its data come first, the generation of the log that they are.
        generation: Option<u64>,
    },
    /// Append nothing of any stream any more; what was not appended yet is dropped.
    CutStream,
    /// Be the primary of this term: the log goes on from here, under another replication id.
    Reign {
        /// The term.
        term: Term,
        /// The end of the log.
        start: Offset,
    },
    /// Be primary no more: nothing is served or appended, and no reply leaves that waits for the
    /// log.
    Abdicate,
    /// What was replied leaves, as far as it shows no more of the log than this.
    Release {
        /// How much of it.
        offset: Offset,
    },
}
