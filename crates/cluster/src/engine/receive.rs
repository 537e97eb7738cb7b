//! What other nodes say.
//!
//! Invariant: of a node that is not in the table nothing is believed but that it wants to be met.

use std::net::IpAddr;

use super::event::{Action, LinkId};
use super::handshake::MeetAddress;
use super::links::LinkPeer;
use super::node::{FailureState, NodeAddress, Role};
use super::{Cluster, Save, is_primary_header};
use crate::flags::NodeFlags;
use crate::id::NodeId;
use crate::message::{Body, GossipSection, Header, MessageType, Packet};
use crate::slots::SlotSet;

impl Cluster {
    /// Takes a packet.
    pub(super) fn received(&mut self, link: LinkId, packet: Packet) {
        let Some(peer) = self.links.peer(link) else { return };
        let Packet { header, body } = packet;
        let Some(header) = header else {
            if let LinkPeer::Inbound { node: Some(id), .. } = peer {
                self.process_light_message(id, body);
            }
            return;
        };
        match peer {
            LinkPeer::Handshake(name) => {
                if let Body::Ping(gossip) | Body::Pong(gossip) = &body {
                    self.complete_handshake(name, link, &header, gossip.extensions.shard);
                    if matches!(self.links.peer(link), Some(LinkPeer::Node(_))) {
                        self.process_packet(link, peer, &header, &body);
                    }
                }
            }
            LinkPeer::Node(id) if id != header.sender => self.handle_id_mismatch(id, &body),
            LinkPeer::Node(_) => self.process_packet(link, peer, &header, &body),
            LinkPeer::Inbound { ip, local, .. } => {
                if self.nodes.contains_key(&header.sender) && header.sender != self.me {
                    self.set_inbound_link(link, header.sender);
                    self.process_packet(link, peer, &header, &body);
                } else {
                    self.process_unknown_sender(link, (ip, local), &header, &body);
                }
            }
        }
    }

    /// The link to a node has reached another one.
    fn handle_id_mismatch(&mut self, id: NodeId, body: &Body) {
        if matches!(body, Body::Pong(_)) {
            self.drop_link_to(id);
            if let Some(node) = self.nodes.get_mut(&id) {
                node.place = NodeAddress::default();
            }
            self.save(Save::Written);
        }
    }

    /// The first packet of a node over a link that it has opened replaces its older one.
    fn set_inbound_link(&mut self, link: LinkId, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.inbound == Some(link) {
            return;
        }
        let older = node.inbound.replace(link);
        self.links.name(link, id);
        if let Some(older) = older {
            self.close(older);
        }
    }

    /// A packet of a node that is not in the table.
    fn process_unknown_sender(
        &mut self,
        link: LinkId,
        (ip, local): (IpAddr, IpAddr),
        header: &Header,
        body: &Body,
    ) {
        match body {
            Body::Meet(_) => {
                if header.sender == self.me {
                    return;
                }
                self.set_own_ip(local);
                let ip = header.ip.unwrap_or(ip);
                let (port, bus_port) = (header.port, header.bus_port);
                self.meet(MeetAddress { ip, port, bus_port }, false);
                self.send_gossip(link, MessageType::Pong, None);
            }
            Body::Ping(_) => self.send_gossip(link, MessageType::Pong, None),
            Body::Fail(failing) => self.log(format!(
                "Ignoring FAIL message from unknown node {} about {failing}",
                header.sender
            )),
            _ => {}
        }
    }

    /// A node that was told no address of its own takes the one that others reach it by.
    fn set_own_ip(&mut self, local: IpAddr) {
        if self.settings.ip.is_none() && self.own().place.ip != Some(local) {
            self.own_mut().place.ip = Some(local);
            self.log(format!("IP address for this node updated to {local}"));
            self.save(Save::Written);
        }
    }

    /// A packet of a node of the table.
    fn process_packet(&mut self, link: LinkId, peer: LinkPeer, header: &Header, body: &Body) {
        let (id, now) = (header.sender, self.now());
        if header.current_epoch > self.current_epoch {
            self.current_epoch = header.current_epoch;
            // A target that hears so claims below that what was granted (`slot_handover.rs`).
            let is_promised = self.handovers.has_granted();
            self.save(if is_promised { Save::Synced } else { Save::Written });
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.last_received = now;
        (node.offset, node.current_epoch) = (header.offset, header.current_epoch);
        node.is_failover_off = header.flags.contains(NodeFlags::NOFAILOVER);
        node.supports_extensions |= header.message.supports_extensions;
        if is_primary_header(header) && header.config_epoch > node.config_epoch {
            node.config_epoch = header.config_epoch;
            self.save(Save::Synced);
        }
        self.record_paused_offset(header);
        match body {
            Body::Ping(gossip) | Body::Meet(gossip) => {
                if let LinkPeer::Inbound { ip, local, .. } = peer {
                    if matches!(body, Body::Meet(_)) || self.own().place.ip.is_none() {
                        self.set_own_ip(local);
                    }
                    self.check_address(ip, header);
                }
                self.send_gossip(link, MessageType::Pong, Some(id));
                self.process_ping(header, gossip);
            }
            Body::Pong(gossip) => {
                if matches!(peer, LinkPeer::Node(_) | LinkPeer::Handshake(_)) {
                    self.answered(id);
                }
                self.process_ping(header, gossip);
            }
            Body::Fail(failing) => self.process_fail(id, *failing),
            Body::Update { config_epoch, owner, slots } => {
                self.process_update(id, (*owner, *config_epoch), slots);
            }
            Body::AuthRequest => self.process_auth_request(header),
            Body::AuthAck => self.process_auth_ack(header),
            Body::ManualFailoverStart => self.process_mfstart(id),
            Body::Publish { .. } | Body::PublishShard { .. } => {
                self.process_light_message(id, body.clone());
            }
            Body::Module { .. } => {}
        }
    }

    /// A message for subscribers, or one that this node has no use for.
    fn process_light_message(&mut self, id: NodeId, body: Body) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.last_received = self.moment.now;
        }
        match body {
            Body::Publish { channel, message } => {
                self.actions.push(Action::Deliver { channel, message, is_sharded: false });
            }
            Body::PublishShard { channel, message } => {
                self.actions.push(Action::Deliver { channel, message, is_sharded: true });
            }
            _ => {}
        }
    }

    fn process_ping(&mut self, header: &Header, gossip: &GossipSection) {
        let id = header.sender;
        let told = &gossip.extensions;
        if let Some(node) = self.nodes.get_mut(&id) {
            node.reads_client_address = told.shard.is_some() && told.secret.is_none();
            let known = (&node.hostname, &node.human_name, &node.client);
            if known != (&told.hostname, &told.human_name, &told.client) {
                node.hostname.clone_from(&told.hostname);
                node.human_name.clone_from(&told.human_name);
                node.client.clone_from(&told.client);
                self.save(Save::Written);
            }
        }
        if let (Some(shard), Some(node)) = (gossip.extensions.shard, self.nodes.get_mut(&id))
            && node.shard != shard
        {
            node.shard = shard;
            self.save(Save::Written);
        }
        self.process_forgotten(&gossip.extensions.forgotten);
        if !self.nodes.contains_key(&id) {
            return;
        }
        self.process_role(header);
        self.process_slot_claims(header);
        self.resolve_epoch_collision(header);
        self.process_gossip(id, gossip);
    }

    fn process_role(&mut self, header: &Header) {
        let role = match header.primary {
            None if is_primary_header(header) => Role::Primary,
            primary => Role::Replica(primary),
        };
        let Some(node) = self.nodes.get_mut(&header.sender) else { return };
        if node.role == role {
            return;
        }
        node.is_migrate_target |= role == Role::Primary;
        node.role = role;
        if let Role::Replica(primary) = role {
            node.slots = SlotSet::empty();
            node.unclaimed = SlotSet::empty();
            let shard = primary.and_then(|primary| self.nodes.get(&primary)).map(|it| it.shard);
            if let (Some(shard), Some(node)) = (shard, self.nodes.get_mut(&header.sender)) {
                node.shard = shard;
            }
        }
        self.save(Save::Synced);
        self.follow_primary_of_primary();
    }

    /// A replica of a replica follows the primary of both.
    pub(super) fn follow_primary_of_primary(&mut self) {
        let primary = self.own().primary();
        let above =
            primary.and_then(|primary| self.nodes.get(&primary)).and_then(super::Node::primary);
        if let Some(above) = above
            && above != self.me
            && self.nodes.get(&above).is_some_and(super::Node::is_primary)
        {
            self.log("I'm a sub-replica! Reconfiguring myself from the grandprimary".to_owned());
            self.become_replica(above);
        }
    }

    /// A node of the table says where it is now.
    fn check_address(&mut self, seen: IpAddr, header: &Header) {
        let place = NodeAddress {
            ip: Some(header.ip.unwrap_or(seen)),
            port: header.port,
            secondary_port: header.secondary_port,
            bus_port: header.bus_port,
        };
        self.update_address(header.sender, place);
    }

    /// A node is at another place from now on.
    pub(super) fn update_address(&mut self, id: NodeId, place: NodeAddress) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.place == place {
            return;
        }
        node.place = place;
        let address = place.ip.map(|ip| format!("{ip}:{}", place.port)).unwrap_or_default();
        self.log(format!("Address updated for node {id}, now {address}"));
        self.drop_link_to(id);
        if self.own().primary() == Some(id) {
            self.follow_role();
        }
        self.save(Save::Written);
    }

    /// A ping was answered.
    fn answered(&mut self, id: NodeId) {
        let now = self.now();
        let Some(node) = self.nodes.get_mut(&id) else { return };
        (node.pong_received, node.ping_sent) = (now, None);
        node.count_pong();
        match node.health {
            FailureState::Reachable => {}
            FailureState::PFail => {
                node.health = FailureState::Reachable;
                self.save(Save::Written);
            }
            FailureState::Failed(since) => self.clear_fail_state(id, since),
        }
    }
}
