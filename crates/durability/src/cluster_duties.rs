//! What the end of the process, and a primary's stream, ask of this server as a node of a cluster.
//!
//! Invariant: nothing here knows how a cluster works; outside a cluster there is no node to ask.

/// A node of a cluster, as far as the data and the end of the process concern it.
pub trait ClusterDuties: Send + Sync {
    /// Whether the cluster may go down without this node: a primary with slots votes.
    fn is_voting_primary(&self) -> bool;

    /// Has the replica take over that has all of the stream, if one has. No client writes
    /// meanwhile. `may_wait` says whether replicas may be waited for.
    fn hand_over(&self, may_wait: bool);

    /// The primary ends, and has the node of this name take over. Called by the thread that applies
    /// the stream, which must not wait.
    fn take_over(&self, node: &[u8]);

    /// The name of this node.
    fn own_name(&self) -> String;

    /// Whether a node has this name.
    fn is_node(&self, name: &[u8]) -> bool;
}
