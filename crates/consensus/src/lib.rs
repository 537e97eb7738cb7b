//! The consensus behind the map of a cluster in quorum mode: openraft as the engine, with a log in
//! files of ours, messages as bytes and the map as the state machine
//! (docs/decisions/quorum-mode.md).
//!
//! `Consensus` is a node's part in that: proposals, reads, members. What carries messages is the
//! caller's `Transport`; where files lie is a `persist::storage::Storage`.
//!
//! Invariants: what is acknowledged to the engine is on disk; a disk that fails ends the engine,
//! and nothing is written any more; bytes of a peer or of a file never panic, and take memory only
//! as they are there.
#![forbid(unsafe_code)]

mod codec;
mod folder;
mod keep_voters;
mod log_file;
mod log_store;
mod message;
mod network;
mod node;
mod record;
mod settings;
mod snapshot;
mod state_machine;
#[cfg(test)]
mod tests;
mod transport;
mod types;

pub use message::{Answer, LeadError, LeadTask, Request};
pub use node::{Consensus, Members, ProposalError, RequestError};
pub use record::Record;
pub use settings::Settings;
pub use state_machine::{AppliedMap, MapState};
pub use transport::{Answering, Transport, TransportError};
pub use types::{MapRaft, PeerId};
