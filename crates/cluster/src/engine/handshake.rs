//! Meeting nodes whose names are not known yet.
//!
//! Invariant: a handshake ends within its time: with a node in the table, or with nothing.

use std::net::IpAddr;

use super::event::{Action, LinkId, Millis};
use super::links::Peer;
use super::node::{Node, Outbound, Place, Role};
use super::{Cluster, Save};
use crate::id::{NodeId, ShardId};
use crate::message::Header;

/// A handshake has at least so much time.
const TIMEOUT_MIN: Millis = 1000;
/// So many handshakes go on at a time: strangers may ask for more.
const HANDSHAKES_MAX: usize = 1024;

/// A node that is being met.
#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) ip: IpAddr,
    pub(super) bus_port: u16,
    since: Millis,
    /// Whether the other side is to be asked to take this one in.
    pub(super) asks: bool,
    pub(super) link: Option<LinkId>,
}

impl Cluster {
    /// Begins to meet the node at an address, unless that is under way.
    pub(super) fn meet(&mut self, ip: IpAddr, bus_port: u16, asks: bool) {
        let is_same = |one: &Handshake| one.ip == ip && one.bus_port == bus_port;
        if self.handshakes.values().any(is_same) || self.handshakes.len() >= HANDSHAKES_MAX {
            return;
        }
        let name = NodeId::random(&mut self.random);
        let since = self.now();
        self.handshakes.insert(name, Handshake { ip, bus_port, since, asks, link: None });
    }

    /// Opens links, and gives up what took too long.
    pub(super) fn tend_handshakes(&mut self) {
        let (now, most) = (self.now(), self.settings.node_timeout.max(TIMEOUT_MIN));
        for (name, mut handshake) in std::mem::take(&mut self.handshakes) {
            if now.saturating_sub(handshake.since) > most {
                if let Some(link) = handshake.link {
                    self.close(link);
                }
                continue;
            }
            if handshake.link.is_none() {
                let link = self.links.open(Peer::Stranger(name));
                handshake.link = Some(link);
                let (ip, port) = (handshake.ip, handshake.bus_port);
                self.actions.push(Action::Connect { link, ip, port });
            }
            self.handshakes.insert(name, handshake);
        }
    }

    /// The node that was met has said its name.
    pub(super) fn met(
        &mut self,
        name: NodeId,
        link: LinkId,
        header: &Header,
        shard: Option<ShardId>,
    ) {
        let Some(handshake) = self.handshakes.remove(&name) else { return };
        let ip = Some(header.ip.unwrap_or(handshake.ip));
        let place = Place {
            ip,
            port: header.port,
            secondary_port: header.secondary_port,
            bus_port: header.bus_port,
        };
        if header.sender == self.me || self.nodes.contains_key(&header.sender) {
            self.close(link);
            if header.sender != self.me {
                self.moved(header.sender, place);
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
        (node.pong_received, node.heard) = (now, now);
        node.outbound = Some(Outbound { link, since: now, is_connected: true });
        self.nodes.insert(header.sender, node);
        self.links.name(link, header.sender);
        self.save(Save::Written);
    }
}
