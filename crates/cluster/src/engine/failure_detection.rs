//! Nodes that are down: suspected here, reported by others, agreed by a majority.
//!
//! Invariant: a node is taken to be down by the word of a majority of the primaries with slots, or
//! by that of a node that had it.

use super::event::Millis;
use super::node::{FailureState, Node, NodeAddress, Role};
use super::{Cluster, Save};
use crate::flags::NodeFlags;
use crate::id::{NodeId, ShardId};
use crate::message::{Body, GossipEntry, GossipSection};

/// So many nodes are learnt of by gossip: one that lies could name any number.
const NODES_MAX: usize = 16_384;

impl Cluster {
    /// Suspects nodes that do not answer.
    pub(super) fn detect_failures(&mut self) {
        let (now, patience) = (self.now(), self.settings.node_timeout);
        for id in self.others() {
            let node = &self.nodes[&id];
            let Some(sent) = node.ping_sent.filter(|_| node.health == FailureState::Reachable)
            else {
                continue;
            };
            let silence = now.saturating_sub(sent).min(now.saturating_sub(node.last_received));
            if silence > patience {
                self.nodes.get_mut(&id).expect("the node was just read").health =
                    FailureState::PFail;
                self.save(Save::Written);
                self.mark_failed_at_quorum(id);
            }
        }
    }

    /// Takes what a node says of others.
    pub(super) fn process_gossip(&mut self, sender: NodeId, gossip: &GossipSection) {
        for entry in &gossip.entries {
            if entry.id == self.me {
                continue;
            }
            if self.nodes.contains_key(&entry.id) {
                self.process_gossip_entry(sender, entry);
            } else {
                self.learn(entry);
            }
        }
    }

    fn learn(&mut self, entry: &GossipEntry) {
        let is_reachable = entry.ip.is_some() && entry.bus_port != 0;
        let has_no_place = NodeFlags::NOADDR.with(NodeFlags::HANDSHAKE);
        if !is_reachable
            || entry.flags.intersects(has_no_place)
            || self.nodes.len() >= NODES_MAX
            || self.blacklist.contains_key(&entry.id)
        {
            return;
        }
        let is_replica = entry.flags.contains(NodeFlags::REPLICA);
        let role = if is_replica { Role::Replica(None) } else { Role::Primary };
        let shard = ShardId(NodeId::random(&mut self.random));
        let mut node = Node::new(place(entry), shard, role);
        (node.pong_received, node.last_received) = (self.now(), self.now());
        self.nodes.insert(entry.id, node);
        self.save(Save::Written);
    }

    fn process_gossip_entry(&mut self, sender: NodeId, entry: &GossipEntry) {
        let now = self.now();
        let is_down = entry.flags.intersects(NodeFlags::PFAIL.with(NodeFlags::FAIL));
        let counts = self.nodes[&sender].is_voting();
        let node = self.nodes.get_mut(&entry.id).expect("a caller has looked the node up");
        if counts && is_down {
            if node.reports.insert(sender, now).is_none() {
                self.log(format!("Node {sender} reported node {} as not reachable.", entry.id));
            }
            self.mark_failed_at_quorum(entry.id);
        } else if counts && node.reports.remove(&sender).is_some() {
            self.log(format!("Node {sender} reported node {} is back online.", entry.id));
        }
        let Some(node) = self.nodes.get_mut(&entry.id) else { return };
        let is_lost = node.health != FailureState::Reachable || node.place.ip.is_none();
        let is_elsewhere = entry.ip.is_some() && place(entry) != node.place;
        if is_lost && !is_down && is_elsewhere && !entry.flags.contains(NodeFlags::NOADDR) {
            self.update_address(entry.id, place(entry));
        }
    }

    /// How many primaries report the node to be down, of late.
    pub fn failure_reports(&mut self, id: NodeId) -> Option<usize> {
        let (now, most) = (self.now(), self.settings.node_timeout * 2);
        let node = self.nodes.get_mut(&id)?;
        node.reports.retain(|_, at| now.saturating_sub(*at) <= most);
        Some(node.reports.len())
    }

    /// Takes a suspected node to be down if a majority does.
    fn mark_failed_at_quorum(&mut self, id: NodeId) {
        if self.nodes[&id].health != FailureState::PFail {
            return;
        }
        let own = usize::from(self.own().is_voting());
        let reports = self.failure_reports(id).unwrap_or(0);
        let (quorum, _) = self.quorum();
        if reports + own < quorum {
            return;
        }
        self.log(format!("Marking node {id} as failing (quorum reached)."));
        self.fail(id);
        self.broadcast(&Body::Fail(id), false);
    }

    fn fail(&mut self, id: NodeId) {
        let now = self.now();
        if let Some(node) = self.nodes.get_mut(&id) {
            node.health = FailureState::Failed(now);
        }
        self.save(Save::Written);
    }

    /// A node says that another is down.
    pub(super) fn process_fail(&mut self, sender: NodeId, id: NodeId) {
        let is_news = self.nodes.get(&id).is_some_and(|node| !node.has_failed());
        if id != self.me && is_news {
            self.log(format!("FAIL message received from {sender} about {id}"));
            self.fail(id);
        }
    }

    /// A node that was down has answered: whether it counts as back.
    pub(super) fn clear_fail_state(&mut self, id: NodeId, since: Millis) {
        let has_waited = self.now().saturating_sub(since) > self.settings.node_timeout * 2;
        let node = &self.nodes[&id];
        let text = if !node.is_voting() {
            let role = if node.is_primary() { "master without slots" } else { "replica" };
            format!("Clear FAIL state for node {id}: {role} is reachable again.")
        } else if has_waited {
            format!(
                "Clear FAIL state for node {id}: is reachable again and nobody is serving its \
                 slots after some time."
            )
        } else {
            return;
        };
        self.nodes.get_mut(&id).expect("the node was just read").health = FailureState::Reachable;
        self.log(text);
        self.save(Save::Written);
    }
}

fn place(entry: &GossipEntry) -> NodeAddress {
    NodeAddress {
        ip: entry.ip,
        port: entry.port,
        secondary_port: entry.secondary_port,
        bus_port: entry.bus_port,
    }
}
