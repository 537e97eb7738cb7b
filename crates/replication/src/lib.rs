//! Replication without sockets: ids and offsets, the backlog, the primary's view of its replicas,
//! and the replica's link to its primary.
//!
//! Invariant: sans-IO; clocks, dice, bytes and ticks are given, and what is to be done is returned.
#![forbid(unsafe_code)]

pub mod backlog;
pub mod history;
pub mod ids;
pub mod primary;
pub mod replica;
