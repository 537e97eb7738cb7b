//! Commands of replication: those that replicas send, and those that ask and steer.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`.

mod failover;
mod replicaof;
pub(crate) mod role;
mod sync;

use super::context::ControlCommand;

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[
    &failover::FAILOVER,
    &sync::PSYNC,
    &sync::REPLCONF,
    &replicaof::REPLICAOF,
    &role::ROLE,
    &replicaof::SLAVEOF,
    &sync::SYNC,
];
