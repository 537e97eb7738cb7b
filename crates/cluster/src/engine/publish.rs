//! Messages for subscribers, to other nodes.
//!
//! Invariant: a message goes once to each node that stands in the table and is linked; a sharded
//! one stays in its shard.

use super::Cluster;
use crate::message::{Body, write_packet};

use super::event::Action;

impl Cluster {
    /// Tells other nodes of a message that a client here has published.
    pub(super) fn publish(&mut self, channel: Vec<u8>, message: Vec<u8>, is_sharded: bool) {
        let shard = self.own().shard;
        let others = self
            .nodes
            .iter()
            .filter(|(id, node)| **id != self.me && (!is_sharded || node.shard == shard));
        let links = others.filter_map(|(_, node)| {
            node.outbound.filter(|outbound| outbound.is_connected).map(|outbound| outbound.link)
        });
        let links: Vec<_> = links.collect();
        if links.is_empty() {
            return;
        }
        let body = if is_sharded {
            Body::PublishShard { channel, message }
        } else {
            Body::Publish { channel, message }
        };
        let bytes = write_packet(&self.header(false), &body);
        for link in links {
            self.actions.push(Action::Send { link, bytes: bytes.clone() });
        }
    }
}
