//! Which data a node has, and in which role.
//!
//! Invariant: between two looks that find the same epoch the data were changed by single writes of
//! this node's own only: they were not flushed, loaded or received, and no primary led.

use crate::net::network::Network;

/// What there was at a look.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataEpoch {
    flushes: u64,
    role_changes: u64,
}

impl DataEpoch {
    /// What there is now.
    pub(super) fn now(server: &Network) -> Self {
        Self {
            flushes: server.keyspace.flushes(),
            role_changes: server.gates.replica_role.changes(),
        }
    }

    /// Whether this is what there is; an error says what is another.
    pub(super) fn check(self, server: &Network) -> Result<(), &'static str> {
        let now = Self::now(server);
        if now.role_changes != self.role_changes {
            return Err("The role of the node has changed");
        }
        match now.flushes == self.flushes {
            true => Ok(()),
            false => Err("Data was flushed"),
        }
    }
}
