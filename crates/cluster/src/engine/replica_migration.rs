//! Spare replicas go over to primaries that have none left.
//!
//! Invariant: of all spare replicas one goes, the one with the smallest name, and its old primary
//! keeps as many as `cluster-migration-barrier` says.

use super::Cluster;
use super::event::Millis;
use super::node::{FailureState, Role};
use crate::id::NodeId;

/// A primary is without replicas for so long before one comes.
const DELAY: Millis = 5000;

impl Cluster {
    /// Notes that a node which gets its first slots is to have replicas, where others have some.
    pub(super) fn mark_migrate_target(&mut self, id: NodeId) {
        let are_there = self.nodes.values().any(|node| node.primary().is_some());
        if let Some(node) = self.nodes.get_mut(&id)
            && node.slots.is_empty()
        {
            node.is_migrate_target |= are_there;
        }
    }

    fn working_replicas(&self, primary: NodeId) -> Vec<NodeId> {
        let is_its = |id: &&NodeId| {
            let node = &self.nodes[*id];
            node.primary() == Some(primary) && !node.has_failed()
        };
        self.nodes.keys().filter(is_its).copied().collect()
    }

    /// Finds primaries without replicas, and goes over to one if it is this node's turn.
    pub(super) fn run_replica_migration(&mut self) {
        let Some(mine) = self.own().primary() else { return };
        for primary in self.nodes.values().filter_map(super::Node::primary).collect::<Vec<_>>() {
            if let Some(node) = self.nodes.get_mut(&primary) {
                node.is_migrate_target = true;
            }
        }
        let now = self.now();
        let voting: Vec<NodeId> =
            self.nodes.iter().filter_map(|(id, node)| node.is_voting().then_some(*id)).collect();
        let mut orphan = None;
        let mut groups = Vec::new();
        for id in voting {
            let replicas = self.working_replicas(id);
            let node = self.nodes.get_mut(&id).expect("the node was just read");
            let is_orphaned = replicas.is_empty() && node.is_migrate_target && !node.has_failed();
            node.orphaned_since = is_orphaned.then(|| node.orphaned_since.unwrap_or(now));
            if node.orphaned_since.is_some_and(|since| now.saturating_sub(since) > DELAY) {
                orphan = orphan.or(Some(id));
            }
            groups.push(replicas);
        }
        let Some(orphan) = orphan else { return };
        let own_health = self.own().health == FailureState::Reachable;
        let may = self.is_ok() && own_health && self.settings.allows_replica_migration;
        if may && self.is_migration_candidate(mine, &groups) {
            self.log(format!("Migrating to orphaned master {orphan}"));
            self.become_replica(orphan);
        }
    }

    /// Whether this node is the one that goes.
    fn is_migration_candidate(&self, mine: NodeId, groups: &[Vec<NodeId>]) -> bool {
        let most = groups.iter().map(Vec::len).max().unwrap_or(0);
        let own = self.working_replicas(mine).len();
        let largest = groups.iter().filter(|group| group.len() == most).flatten();
        most >= 2
            && own == most
            && own > self.settings.migration_barrier
            && largest.min() == Some(&self.me)
            && self.own().role != Role::Replica(None)
    }
}
