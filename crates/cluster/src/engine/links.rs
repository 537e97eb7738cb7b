//! The links of the bus: one that this node opens to each other node, and one that each opens here.
//!
//! Invariant: a link that stands in a node or a handshake stands in this list, with that peer.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Cluster;
use super::event::{Action, LinkId};
use super::node::OutboundLink;
use crate::id::NodeId;
use crate::message::MessageType;

/// What is at the other end of a link.
#[derive(Clone, Copy, Debug)]
pub(super) enum LinkPeer {
    /// This node: the link was opened to it.
    Node(NodeId),
    /// A node that is being met.
    Handshake(NodeId),
    /// A node that opened the link, when, and which one, once it has said so.
    Inbound { ip: IpAddr, local: IpAddr, since: u64, node: Option<NodeId> },
}

/// All links.
#[derive(Debug, Default)]
pub(super) struct Links {
    peers: BTreeMap<LinkId, LinkPeer>,
    opened: u64,
}

impl Links {
    pub(super) fn open(&mut self, peer: LinkPeer) -> LinkId {
        self.opened += 1;
        let link = LinkId::To(self.opened);
        self.peers.insert(link, peer);
        link
    }

    pub(super) fn accept(&mut self, link: LinkId, ip: IpAddr, local: IpAddr, since: u64) {
        self.peers.insert(link, LinkPeer::Inbound { ip, local, since, node: None });
    }

    /// The links that others opened before this moment and that no node of the table has spoken on.
    fn nameless(&self, before: u64) -> Vec<LinkId> {
        let is_nameless = |peer: &LinkPeer| match peer {
            LinkPeer::Inbound { since, node: None, .. } => *since < before,
            _ => false,
        };
        self.peers.iter().filter(|(_, peer)| is_nameless(peer)).map(|(link, _)| *link).collect()
    }

    pub(super) fn peer(&self, link: LinkId) -> Option<LinkPeer> {
        self.peers.get(&link).copied()
    }

    /// The stranger, or the caller, at the other end is this node.
    pub(super) fn name(&mut self, link: LinkId, id: NodeId) {
        match self.peers.get_mut(&link) {
            Some(LinkPeer::Inbound { node, .. }) => *node = Some(id),
            Some(peer) => *peer = LinkPeer::Node(id),
            None => {}
        }
    }
}

impl Cluster {
    /// Closes a link from here.
    pub(super) fn close(&mut self, link: LinkId) {
        self.links.peers.remove(&link);
        self.actions.push(Action::Close { link });
    }

    /// A link is lost.
    pub(super) fn closed(&mut self, link: LinkId) {
        match self.links.peers.remove(&link) {
            Some(LinkPeer::Node(id)) => {
                if let Some(node) = self.nodes.get_mut(&id) {
                    node.outbound.take_if(|outbound| outbound.link == link);
                }
            }
            Some(LinkPeer::Handshake(name)) => {
                if let Some(handshake) = self.handshakes.get_mut(&name) {
                    handshake.link = None;
                }
            }
            Some(LinkPeer::Inbound { node: Some(id), .. }) => {
                if let Some(node) = self.nodes.get_mut(&id) {
                    node.inbound.take_if(|inbound| *inbound == link);
                }
            }
            Some(LinkPeer::Inbound { node: None, .. }) | None => {}
        }
    }

    /// A link stands: the first packet goes out.
    pub(super) fn connected(&mut self, link: LinkId) {
        match self.links.peer(link) {
            Some(LinkPeer::Node(id)) => {
                let now = self.now();
                let Some(node) = self.nodes.get_mut(&id) else { return };
                node.outbound = Some(OutboundLink::new(link, now, true));
                self.ping(id);
            }
            Some(LinkPeer::Handshake(name)) => {
                let sends_meet =
                    self.handshakes.get(&name).is_some_and(|handshake| handshake.sends_meet);
                let kind = if sends_meet { MessageType::Meet } else { MessageType::Ping };
                self.send_gossip(link, kind, None);
            }
            Some(LinkPeer::Inbound { .. }) | None => {}
        }
    }

    /// Closes what strangers have opened and hold open: they would keep nodes out, as only so many
    /// links stand. A node that is slow is given twice the time after which it is failing.
    pub(super) fn close_nameless(&mut self) {
        let before = self.now().saturating_sub(2 * self.settings.node_timeout);
        for link in self.links.nameless(before) {
            self.close(link);
        }
    }

    /// Opens what is missing, gives up what is silent, and pings.
    pub(super) fn run_links(&mut self) {
        let (now, patience) = (self.now(), self.settings.node_timeout / 2);
        let interval = Some(self.settings.ping_interval).filter(|interval| *interval > 0);
        let interval = interval.unwrap_or(patience);
        let ids: Vec<NodeId> = self.nodes.keys().filter(|id| **id != self.me).copied().collect();
        let drawn = if self.ticks.is_multiple_of(10) { self.stalest_of_five(&ids) } else { None };
        for id in ids {
            let node = &self.nodes[&id];
            let since = |at: u64| now.saturating_sub(at);
            let is_overdue = node.ping_sent.is_some_and(|at| since(at) > patience);
            // A node that speaks by its own link is not silent; this one may not stand all the
            // same.
            let is_connected = node.outbound.is_some_and(|outbound| outbound.is_connected);
            let is_silent = since(node.last_received) > patience || !is_connected;
            match node.outbound {
                None => self.open_to(id),
                Some(outbound)
                    if is_overdue && is_silent && since(outbound.since) > 2 * patience =>
                {
                    self.drop_link_to(id);
                    self.open_to(id);
                }
                Some(outbound) if outbound.is_connected && node.ping_sent.is_none() => {
                    let is_paused = self.is_handing_over_to(id);
                    if drawn == Some(id) || since(node.pong_received) > interval || is_paused {
                        self.ping(id);
                    }
                }
                Some(_) => {}
            }
        }
    }

    fn open_to(&mut self, id: NodeId) {
        let since = self.now();
        let place = self.nodes[&id].place;
        let Some(ip) = place.ip else { return };
        let link = self.links.open(LinkPeer::Node(id));
        self.actions.push(Action::Connect { link, ip, port: place.bus_port });
        let node = self.nodes.get_mut(&id).expect("the node was just read");
        node.outbound = Some(OutboundLink::new(link, since, false));
        // A node that cannot be reached is one whose ping is not answered.
        node.ping_sent.get_or_insert(since);
    }

    pub(super) fn drop_link_to(&mut self, id: NodeId) {
        let outbound = self.nodes.get_mut(&id).and_then(|node| node.outbound.take());
        if let Some(outbound) = outbound {
            self.close(outbound.link);
        }
    }

    /// Closes all links with nodes, which are opened again at once from both ends: what comes by
    /// those was said behind this moment.
    pub(super) fn drop_links(&mut self) {
        let now = self.now();
        let inbound = self.nodes.values_mut().filter_map(|node| node.inbound.take());
        let mut inbound: Vec<LinkId> = inbound.collect();
        inbound.extend(self.links.nameless(now.saturating_add(1)));
        inbound.into_iter().for_each(|link| self.close(link));
        for id in self.others() {
            self.drop_link_to(id);
            self.open_to(id);
        }
    }

    /// Of five nodes by lot, the one that was heard of least lately.
    fn stalest_of_five(&mut self, ids: &[NodeId]) -> Option<NodeId> {
        let drawn = (0..5).filter_map(|_| {
            let index = self.random.below(ids.len() as u64) as usize;
            ids.get(index).map(|id| (self.nodes[id].pong_received, *id))
        });
        drawn.min().map(|(_, id)| id)
    }
}
