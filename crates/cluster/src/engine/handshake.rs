//! Meeting nodes whose names are not known yet.
//!
//! Invariant: a handshake ends within its time: with a node in the table, or with nothing.

use std::net::IpAddr;

use super::event::{Action, LinkId, Millis};
use super::links::LinkPeer;
use super::node::{Node, NodeAddress, OutboundLink, Role};
use super::{Cluster, Save};
use crate::flags::NodeFlags;
use crate::id::{NodeId, ShardId};
use crate::message::Header;
use crate::nodes_file::{AuxFields, NodeRecord};
use crate::slots::SlotSet;

/// A handshake has at least so much time.
const TIMEOUT_MIN: Millis = 1000;
/// So many handshakes go on at a time: strangers may ask for more.
const HANDSHAKES_MAX: usize = 1024;

/// Where a node is that is not known yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MeetAddress {
    pub(super) ip: IpAddr,
    pub(super) port: u16,
    pub(super) bus_port: u16,
}

/// A node that is being met.
#[derive(Debug)]
pub(super) struct Handshake {
    place: MeetAddress,
    since: Millis,
    /// Whether the other side is to be asked to take this one in.
    pub(super) sends_meet: bool,
    pub(super) link: Option<LinkId>,
}

impl Cluster {
    /// Begins to meet the node at an address, unless that is under way.
    pub(super) fn meet(&mut self, place: MeetAddress, sends_meet: bool) {
        let is_same =
            |one: &Handshake| one.place.ip == place.ip && one.place.bus_port == place.bus_port;
        if self.handshakes.values().any(is_same) || self.handshakes.len() >= HANDSHAKES_MAX {
            return;
        }
        let name = NodeId::random(&mut self.random);
        let since = self.now();
        self.handshakes.insert(name, Handshake { place, since, sends_meet, link: None });
    }

    /// The nodes that are being met, as CLUSTER NODES lists them.
    pub fn handshakes(&self) -> Vec<NodeRecord> {
        let is_tls = self.settings.is_tls;
        let record = |(name, handshake): (&NodeId, &Handshake)| {
            let MeetAddress { ip, port, bus_port } = handshake.place;
            NodeRecord {
                id: *name,
                ip: Some(ip),
                tcp_port: if is_tls { 0 } else { port },
                tls_port: if is_tls { port } else { 0 },
                bus_port,
                aux: AuxFields::default(),
                flags: NodeFlags::HANDSHAKE,
                primary: None,
                ping_sent: 0,
                pong_received: 0,
                config_epoch: 0,
                is_connected: handshake.link.is_some(),
                slots: SlotSet::empty(),
                open_slots: Vec::new(),
            }
        };
        self.handshakes.iter().map(record).collect()
    }

    /// Opens links, and gives up what took too long.
    pub(super) fn run_handshakes(&mut self) {
        let (now, most) = (self.now(), self.settings.node_timeout.max(TIMEOUT_MIN));
        for (name, mut handshake) in std::mem::take(&mut self.handshakes) {
            if now.saturating_sub(handshake.since) > most {
                if let Some(link) = handshake.link {
                    self.close(link);
                }
                continue;
            }
            if handshake.link.is_none() {
                let link = self.links.open(LinkPeer::Handshake(name));
                handshake.link = Some(link);
                let MeetAddress { ip, bus_port: port, .. } = handshake.place;
                self.actions.push(Action::Connect { link, ip, port });
            }
            self.handshakes.insert(name, handshake);
        }
    }

    /// The node that was met has said its name.
    pub(super) fn complete_handshake(
        &mut self,
        name: NodeId,
        link: LinkId,
        header: &Header,
        shard: Option<ShardId>,
    ) {
        let Some(handshake) = self.handshakes.remove(&name) else { return };
        let ip = Some(header.ip.unwrap_or(handshake.place.ip));
        let place = NodeAddress {
            ip,
            port: header.port,
            secondary_port: header.secondary_port,
            bus_port: header.bus_port,
        };
        if header.sender == self.me || self.nodes.contains_key(&header.sender) {
            self.close(link);
            if header.sender != self.me {
                self.update_address(header.sender, place);
            }
            return;
        }
        let drawn = ShardId(NodeId::random(&mut self.random));
        let role = match header.primary {
            None if super::is_primary_header(header) => Role::Primary,
            primary => Role::Replica(primary),
        };
        let mut node = Node::new(place, shard.unwrap_or(drawn), role);
        let now = self.now();
        (node.pong_received, node.last_received) = (now, now);
        node.outbound = Some(OutboundLink::new(link, now, true));
        self.nodes.insert(header.sender, node);
        self.links.name(link, header.sender);
        self.save(Save::Written);
    }
}
