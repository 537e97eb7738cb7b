//! The table of nodes, as it comes from the file and goes into it.
//!
//! Invariant: handshakes stand in no file, and their names are told to no other node.

use super::event::Action;
use super::node::{FailureState, Node, NodeAddress, Role};
use super::slot_handover::Handovers;
use super::{Cluster, Save};
use crate::flags::NodeFlags;
use crate::id::{NodeId, ShardId};
use crate::nodes_file::{AuxFields, NodeRecord, NodesFile};
use crate::slots::SlotSet;

impl Cluster {
    /// Takes the table of a file, which may be empty.
    pub(super) fn load(&mut self, file: NodesFile) {
        self.current_epoch = file.current_epoch;
        self.last_vote_epoch = file.last_vote_epoch;
        for record in file.nodes {
            if record.id == self.me {
                self.open = record.open_slots.iter().copied().collect();
            }
            let node = self.node_of(&record);
            self.nodes.insert(record.id, node);
        }
        for (id, epoch) in file.claimed_epochs {
            if let Some(node) = self.nodes.get_mut(&id) {
                // Which slots these were is not known any more.
                (node.claimed_epoch, node.unclaimed) = (epoch, node.slots.clone());
            }
        }
        self.load_grants(file.grants);
        let shard = ShardId(NodeId::random(&mut self.random));
        let me = self.me;
        self.nodes
            .entry(me)
            .or_insert_with(|| Node::new(NodeAddress::default(), shard, Role::Primary));
        self.take_settings();
    }

    fn node_of(&mut self, record: &NodeRecord) -> Node {
        let place = NodeAddress {
            ip: record.ip,
            port: if self.settings.is_tls { record.tls_port } else { record.tcp_port },
            secondary_port: if self.settings.is_tls { record.tcp_port } else { record.tls_port },
            bus_port: record.bus_port,
        };
        let is_replica = record.flags.contains(NodeFlags::REPLICA);
        let role = if is_replica { Role::Replica(record.primary) } else { Role::Primary };
        let drawn = ShardId(NodeId::random(&mut self.random));
        let mut node = Node::new(place, record.aux.shard.unwrap_or(drawn), role);
        node.hostname.clone_from(&record.aux.hostname);
        node.human_name.clone_from(&record.aux.human_name);
        node.client.clone_from(&record.aux.client);
        (node.config_epoch, node.claimed_epoch) = (record.config_epoch, record.config_epoch);
        node.slots = if is_replica { SlotSet::empty() } else { record.slots.clone() };
        let now = self.now();
        if record.flags.contains(NodeFlags::FAIL) {
            node.health = FailureState::Failed(now);
        }
        (node.pong_received, node.last_received) = (now, now);
        node.unclaimed_since = now;
        node
    }

    /// Takes over what the operator has set about this node itself.
    pub(super) fn take_settings(&mut self) {
        let settings = self.settings.clone();
        let own = self.own_mut();
        let (port, secondary_port) = if settings.is_tls {
            (settings.tls_port, settings.tcp_port)
        } else {
            (settings.tcp_port, settings.tls_port)
        };
        let ip = settings.ip.or(own.place.ip);
        own.place = NodeAddress { ip, port, secondary_port, bus_port: settings.bus_port };
        own.hostname = settings.hostname;
        own.human_name = settings.human_name;
        own.client = settings.client;
        own.is_failover_off = settings.is_failover_off;
        own.supports_extensions = true;
        own.health = FailureState::Reachable;
    }

    /// The table as the file has it.
    pub(super) fn file(&self) -> NodesFile {
        NodesFile {
            nodes: self.records(),
            current_epoch: self.current_epoch,
            last_vote_epoch: self.last_vote_epoch,
            grants: self.handovers.grants(),
            claimed_epochs: self.claimed_epochs(),
        }
    }

    /// All nodes, as CLUSTER NODES lists them.
    pub fn records(&self) -> Vec<NodeRecord> {
        self.nodes.iter().map(|(id, node)| self.record(*id, node)).collect()
    }

    /// One of them.
    pub fn record_of(&self, id: NodeId) -> Option<NodeRecord> {
        Some(self.record(id, self.nodes.get(&id)?))
    }

    fn record(&self, id: NodeId, node: &Node) -> NodeRecord {
        let is_me = id == self.me;
        let (tcp_port, tls_port) = if self.settings.is_tls {
            (node.place.secondary_port, node.place.port)
        } else {
            (node.place.port, node.place.secondary_port)
        };
        let own = if is_me { NodeFlags::MYSELF } else { NodeFlags::default() };
        let flags = node.flags().without(NodeFlags::EXTENSIONS).with(own);
        let epoch_of = node.primary().and_then(|primary| self.nodes.get(&primary));
        NodeRecord {
            id,
            ip: node.place.ip,
            tcp_port,
            tls_port,
            bus_port: node.place.bus_port,
            aux: AuxFields {
                hostname: node.hostname.clone(),
                human_name: node.human_name.clone(),
                client: node.client.clone(),
                shard: Some(node.shard),
                ..AuxFields::default()
            },
            flags: if is_me { flags.without(NodeFlags::NOADDR) } else { flags },
            primary: node.primary(),
            ping_sent: node.ping_sent.map_or(0, |at| self.to_wall_time(at)),
            pong_received: if is_me { 0 } else { self.to_wall_time(node.pong_received) },
            config_epoch: epoch_of.unwrap_or(node).config_epoch,
            is_connected: is_me || node.outbound.is_some_and(|outbound| outbound.is_connected),
            slots: node.slots.clone(),
            open_slots: if is_me { self.open_slots().collect() } else { Vec::new() },
        }
    }

    /// Primaries that may have granted slots since they last claimed all.
    fn claimed_epochs(&self) -> Vec<(NodeId, u64)> {
        let differs = |(id, node): &(&NodeId, &Node)| {
            **id != self.me && node.is_voting() && node.claimed_epoch != node.config_epoch
        };
        self.nodes.iter().filter(differs).map(|(id, node)| (*id, node.claimed_epoch)).collect()
    }

    /// A moment of the inner clock, as the wall clock had it.
    pub(super) fn to_wall_time(&self, at: u64) -> u64 {
        self.moment.wall.saturating_sub(self.now().saturating_sub(at))
    }

    /// Makes this node a primary.
    pub(super) fn become_primary(&mut self) {
        self.own_mut().role = Role::Primary;
        self.forget_failover();
        self.actions.push(Action::BecomePrimary);
        self.save(Save::Synced);
    }

    /// Makes this node a replica of `primary`.
    pub(super) fn become_replica(&mut self, primary: NodeId) {
        let Some(shard) = self.nodes.get(&primary).map(|node| node.shard) else { return };
        self.forget_position(shard);
        let own = self.own_mut();
        own.role = Role::Replica(Some(primary));
        own.slots = SlotSet::empty();
        own.unclaimed = SlotSet::empty();
        own.shard = shard;
        self.open.clear();
        self.handovers = Handovers::default();
        self.confirmation.forget_claims();
        self.forget_failover();
        self.follow_role();
        self.save(Save::Synced);
    }

    /// Tells the driver the role of this node.
    pub(super) fn follow_role(&mut self) {
        let Some(primary) = self.own().primary() else { return };
        let Some(node) = self.nodes.get(&primary) else { return };
        let (ip, port) = (node.place.ip, node.place.port);
        self.actions.push(Action::Replicate { primary, ip, port });
    }
}
