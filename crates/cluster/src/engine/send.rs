//! What this node says, and to which nodes: headers and gossip.
//!
//! Invariant: a ping that is under way keeps the time of its first sending, whatever becomes of
//! its link.

use super::Cluster;
use super::event::{Action, LinkId};
use super::node::FailureState;
use crate::flags::NodeFlags;
use crate::id::NodeId;
use crate::message::{
    Body, Extensions, GossipEntry, GossipSection, Header, MessageFlags, MessageType, write_packet,
};

/// At least so many nodes are gossiped about.
const GOSSIP_MIN: usize = 3;

impl Cluster {
    pub(super) fn header(&self, forces_ack: bool) -> Header {
        let own = self.own();
        let (_, represented) = self.represented_node();
        let flags = own.flags().without(NodeFlags::NOADDR).with(NodeFlags::MYSELF);
        Header {
            sender: self.me,
            current_epoch: self.current_epoch,
            config_epoch: if self.handovers.is_asking() { 0 } else { represented.config_epoch },
            offset: self.paused_offset().unwrap_or(own.offset),
            slots: represented.slots.minus(&self.handovers.unclaimed()),
            primary: own.primary(),
            ip: self.settings.ip,
            port: own.place.port,
            secondary_port: own.place.secondary_port,
            bus_port: own.place.bus_port,
            flags,
            is_down: !self.is_ok(),
            message: MessageFlags {
                is_paused: self.paused_offset().is_some(),
                forces_ack,
                supports_extensions: true,
            },
        }
    }

    /// Sends PING, PONG or MEET; the receiver may be one that is not known.
    pub(super) fn send_gossip(&mut self, link: LinkId, kind: MessageType, to: Option<NodeId>) {
        let entries = match to {
            Some(id) => self.gossip_for(id),
            None => Vec::new(),
        };
        let reads = to.is_some_and(|id| self.nodes[&id].supports_extensions);
        let own = self.own();
        let reads_client = to.is_some_and(|id| self.nodes[&id].reads_client_address);
        let client = reads_client.then(|| own.client.clone());
        let extensions = if reads {
            Extensions {
                hostname: own.hostname.clone(),
                human_name: own.human_name.clone(),
                client: client.unwrap_or_default(),
                shard: Some(own.shard),
                forgotten: self.forgotten_nodes(),
                ..Extensions::default()
            }
        } else {
            Extensions::default()
        };
        let gossip = GossipSection { entries, extensions, is_dropped: false };
        if kind != MessageType::Meet {
            self.tell_granted(link);
        }
        let body = match kind {
            MessageType::Meet => Body::Meet(gossip),
            MessageType::Pong => Body::Pong(gossip),
            _ => Body::Ping(gossip),
        };
        let bytes = write_packet(&self.header(false), &body);
        self.actions.push(Action::Send { link, bytes });
    }

    /// Says by a link that slots are granted, which the header that follows does not claim: they
    /// are not given up. Other servers pass over such a word, as its epoch is known to them.
    fn tell_granted(&mut self, link: LinkId) {
        let slots = self.handovers.granted_slots();
        if !slots.is_empty() {
            let config_epoch = self.own_claim_epoch(&slots);
            let body = Body::Update { config_epoch, owner: self.me, slots };
            let bytes = write_packet(&self.header(false), &body);
            self.actions.push(Action::Send { link, bytes });
        }
    }

    pub(super) fn ping(&mut self, id: NodeId) {
        let now = self.now();
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let outbound = node.outbound.as_mut().filter(|outbound| outbound.is_connected);
        let Some(outbound) = outbound else { return };
        outbound.count_ping(now);
        let link = outbound.link;
        node.ping_sent.get_or_insert(now);
        self.send_gossip(link, MessageType::Ping, Some(id));
    }

    /// Sends something other than gossip over the link to a node, if it stands.
    pub(super) fn send_to(&mut self, id: NodeId, body: &Body, forces_ack: bool) {
        let outbound = self.nodes.get(&id).and_then(|node| node.outbound);
        if let Some(outbound) = outbound.filter(|outbound| outbound.is_connected) {
            let bytes = write_packet(&self.header(forces_ack), body);
            self.actions.push(Action::Send { link: outbound.link, bytes });
        }
    }

    pub(super) fn others(&self) -> Vec<NodeId> {
        self.nodes.keys().filter(|id| **id != self.me).copied().collect()
    }

    /// Sends something other than gossip to all.
    pub(super) fn broadcast(&mut self, body: &Body, forces_ack: bool) {
        for id in self.others() {
            self.send_to(id, body, forces_ack);
        }
    }

    /// Tells all of a change at once.
    pub(super) fn broadcast_pong(&mut self) {
        for id in self.others() {
            let outbound = self.nodes[&id].outbound.filter(|outbound| outbound.is_connected);
            if let Some(outbound) = outbound {
                self.send_gossip(outbound.link, MessageType::Pong, Some(id));
            }
        }
    }

    /// A few nodes by lot, and all that are suspected.
    fn gossip_for(&mut self, receiver: NodeId) -> Vec<GossipEntry> {
        let ids: Vec<NodeId> = self.others().into_iter().filter(|id| *id != receiver).collect();
        let wanted = GOSSIP_MIN.max(self.nodes.len() / 10).min(ids.len());
        let mut chosen: Vec<NodeId> = Vec::new();
        for _ in 0..wanted * 3 {
            if chosen.len() >= wanted {
                break;
            }
            let id = ids[self.random.below(ids.len() as u64) as usize];
            let node = &self.nodes[&id];
            let is_known = node.outbound.is_some() || !node.slots.is_empty();
            let is_told = node.place.ip.is_some() && node.health != FailureState::PFail;
            if is_known && is_told && !chosen.contains(&id) {
                chosen.push(id);
            }
        }
        let is_suspected = |id: &&NodeId| self.nodes[*id].health == FailureState::PFail;
        chosen.extend(ids.iter().filter(is_suspected));
        chosen.iter().map(|id| self.gossip_entry(*id)).collect()
    }

    fn gossip_entry(&self, id: NodeId) -> GossipEntry {
        let node = &self.nodes[&id];
        let seconds = |at| u32::try_from(self.to_wall_time(at) / 1000).unwrap_or(u32::MAX);
        GossipEntry {
            id,
            ping_sent: node.ping_sent.map_or(0, seconds),
            pong_received: seconds(node.pong_received),
            ip: node.place.ip,
            port: node.place.port,
            secondary_port: node.place.secondary_port,
            bus_port: node.place.bus_port,
            flags: node.flags(),
        }
    }
}
