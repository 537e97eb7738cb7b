//! The quorum mode of a cluster, without sockets, files and a clock: what was acknowledged survives
//! every minority, and a deposed primary acknowledges nothing (docs/decisions/quorum-mode.md).
//!
//! Three machines. `ClusterMap` is what all nodes agree on, entry by entry of one replicated log.
//! `Member` is a node's part in its shard: promises, acknowledgements, the lease. `Coordinator` is
//! the part of the log's leader: whether a primary is gone, and who comes next. Safety rests on the
//! map and the members alone; any number of coordinators may be at work at once.
//!
//! Invariants: a shard has one primary in a term; what is safe is in the log of the primary of each
//! later term; a primary serves only while no other one of its shard can.
#![forbid(unsafe_code)]

mod coordinator;
mod history;
mod map;
mod member;
mod message;
mod position;
mod settings;
mod state;
#[cfg(test)]
mod tests;
pub mod wire;

pub use coordinator::{Coordinator, CoordinatorEvent};
pub use history::{History, TermStart};
pub use map::{ClusterMap, MapEntry, MapRefusal, NodeAddress, Shard};
pub use member::{Action, Event, FoundLog, Member};
pub use message::{Body, Message};
pub use position::{Millis, Offset, Position, ShardVersion, Term};
pub use settings::{DRIFT_PERCENT, Settings};
pub use state::{LogRecord, MemberState, Membership, StateError};
