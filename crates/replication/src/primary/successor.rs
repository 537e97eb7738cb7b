//! Which replica takes over from a primary of a cluster that ends, and how it is told.
//!
//! Invariant: a replica that lacks a byte of the stream is not told to take over.

use proto::args::encode_command;

use super::attached::{Attached, ReplicaId};
use super::registry::Primary;
use super::replconf_state::RdbReader;

/// What there is to take over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Successor {
    /// A replica with all of the stream, and its name in the cluster.
    Ready(ReplicaId, String),
    /// Replicas that may have all of the stream yet.
    Lagging,
    /// No replica that said which node it is.
    Nobody,
    /// None may be told, as one of those that would hear it does not know the words.
    Legacy,
}

impl Successor {
    /// What the stream says for the node of this name to take over. Other nodes pass over it.
    pub fn record(node: &str) -> Vec<u8> {
        let words = [&b"CLUSTER"[..], b"FAILOVER", b"FORCE", b"REPLICAID", node.as_bytes()];
        let mut bytes = Vec::new();
        encode_command(words.into_iter(), &mut bytes);
        bytes
    }
}

impl Primary {
    /// The replica that may take over where the stream ends at this offset.
    pub fn successor(&self, end: u64) -> Successor {
        let online = || self.replicas.iter().filter(|it| it.is_online() && !it.is_channel());
        if online().any(Attached::is_legacy) {
            return Successor::Legacy;
        }
        let mut lagging = Successor::Nobody;
        for replica in online() {
            let Some(node) = &replica.announced.cluster_node else { continue };
            if replica.acked == end {
                return Successor::Ready(replica.id, node.clone());
            }
            lagging = Successor::Lagging;
        }
        lagging
    }
}

impl Attached {
    /// Whether the replica takes the order for a fault of ours: servers before Valkey 9, and Redis.
    fn is_legacy(&self) -> bool {
        !matches!(self.announced.requirements.reader, RdbReader::Valkey9 | RdbReader::Apus)
    }
}
