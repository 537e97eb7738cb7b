//! What a client has said of itself on its way to become a replica.
//!
//! Invariant: a client that has asked for a sync runs nothing more before that is seen to.

use replication::primary::ReplconfState;

/// What REPLCONF and PSYNC have said.
#[derive(Default)]
pub struct ReplicaSession {
    /// What the client knows of and wants.
    pub announced: ReplconfState,
    /// The sync that it asked for.
    pub asked: Option<AskedSync>,
}

/// A sync that a client asks for.
pub enum AskedSync {
    /// SYNC.
    Sync,
    /// PSYNC.
    Psync {
        /// The history's id, or a question mark.
        id: Vec<u8>,
        /// The first byte that the replica does not have.
        byte: Vec<u8>,
        /// Whether this is an old primary that makes us the new one.
        failover: bool,
    },
}
