//! Durability: the append-only file, snapshots, replay, loading, backups, and the end of a process.
//!
//! Invariant: nothing here knows a client's session or a socket; what it writes down it takes from
//! the engine's journal and from walks over the keyspace.
#![forbid(unsafe_code)]

pub mod aof;
pub mod apply;
pub mod backup;
pub mod claims;
pub mod cluster_duties;
pub mod data;
pub mod durability;
pub mod loading;
pub mod log_scheduling;
pub mod receive;
pub mod replay;
pub mod save;
pub mod shutdown;
pub mod snapshot;
mod stream_turns;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod waitaof;
