//! What the data and the end of the process ask of the node.
//!
//! Invariant: nobody who asks waits for a peer, or for the world.

use cluster::NodeId;
use durability::cluster_duties::ClusterDuties;

use super::start::ClusterContext;

impl ClusterDuties for ClusterContext {
    fn is_voting_primary(&self) -> bool {
        let votes = self.node.with_engine(|it| it.is_primary() && !it.my_slots().is_empty());
        votes == Some(true)
    }

    fn hand_over(&self, may_wait: bool) {
        if self.node.with_engine(|cluster| cluster.is_primary()) == Some(true) {
            self.links.name_successor(self.server, may_wait);
        }
    }

    fn take_over(&self, node: &[u8]) {
        if self.own_name().as_bytes() == node {
            self.node.take_over();
        }
    }

    fn own_name(&self) -> String {
        let name = self.node.with_engine(|cluster| cluster.my_id().to_string());
        name.expect("a node that is asked has begun")
    }

    fn is_node(&self, name: &[u8]) -> bool {
        let is_known = |id| self.node.with_engine(|cluster| cluster.record_of(id).is_some());
        NodeId::parse(name).and_then(is_known) == Some(true)
    }
}
