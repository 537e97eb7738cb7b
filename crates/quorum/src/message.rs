//! What nodes tell each other beside the stream itself.
//!
//! Invariant: a message may be lost, doubled, late and out of order; the term says what it counts
//! for.

use cluster::ShardId;

use crate::history::History;
use crate::position::{Millis, Offset, Position, ShardVersion, Term};

/// A message about a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The shard.
    pub shard: ShardId,
    /// The term that the message is about.
    pub term: Term,
    /// What it says.
    pub body: Body,
}

/// What a message says of its term.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// A coordinator asks a member to promise the term.
    AskPromise {
        /// The version of the shard by whose members promises are counted.
        version: ShardVersion,
    },
    /// The member acknowledges nothing of an earlier term any more.
    Promise {
        /// For which version that was asked. A node that went to another shard and came back knows
        /// of no promise from before, and the version is another one then.
        version: ShardVersion,
        /// What its log has for sure; none if something may be missing in between.
        position: Option<Position>,
    },
    /// What was asked is of an earlier term than this one, which was promised.
    Refusal,
    /// The primary of the term is there.
    Heartbeat {
        /// When, by its own clock.
        sent: Millis,
    },
    /// A member answers a heartbeat, or has more of the term's log.
    Ack {
        /// The heartbeat that is answered, by the primary's clock.
        sent: Option<Millis>,
        /// The log of the member is the primary's up to here, for sure; none if not even up to
        /// where the term begins.
        durable: Option<Offset>,
    },
    /// A member asks the primary for its stream.
    AskStream {
        /// Where the log of the member ends; none if all data are wanted.
        position: Option<Position>,
    },
    /// The primary gives its stream.
    Stream {
        /// The terms of its log.
        history: History,
        /// Whether all data come first: the log of the member is no beginning of it.
        is_full: bool,
    },
    /// The primary of the term serves nothing any more: nobody need wait for its lease.
    Release,
    /// A primary tells the coordinator of itself.
    Report {
        /// Whether a majority has answered it within the lease.
        holds_lease: bool,
        /// Whether its term is over, and another one is to begin.
        wants_election: bool,
    },
}
