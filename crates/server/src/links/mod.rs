//! Replication: the links to replicas, which have a thread of their own.
//!
//! What is decided is decided by the engines of crate `replication`; this room has their sockets,
//! snapshots and clock, and the part of the journal that replicas may still ask for.
//!
//! Invariant: no worker and no transaction waits for a link.

mod failover;
mod feed;
mod full_sync;
mod handle;
mod held_stream;
mod link_output;
mod primary_client;
mod primary_link;
mod replica_link;
mod replication_state;
mod report;
mod roles;
mod settings;
mod stream;
mod successor;
mod thread;

pub(crate) use failover::{FailoverRequest, FailoverState};
pub(crate) use handle::Links;
pub(crate) use report::{LinkStatus, ReplicationReport};
pub(crate) use roles::RoleChange;
