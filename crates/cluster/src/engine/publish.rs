//! Messages for subscribers, to other nodes.
//!
//! Invariant: a message goes once to each node that stands in the table and is linked; a sharded
//! one stays in its shard.

use super::Cluster;
use super::event::{LinkId, PublishedMessage};
use crate::message::{Body, write_packet};

impl Cluster {
    /// The packet of a message, and the links by which it goes. Of messages there may be very many:
    /// they are no events, and change nothing here.
    pub fn packet_of(&self, published: PublishedMessage) -> (Vec<LinkId>, Vec<u8>) {
        let PublishedMessage { channel, message, is_sharded } = published;
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
            return (links, Vec::new());
        }
        let body = if is_sharded {
            Body::PublishShard { channel, message }
        } else {
            Body::Publish { channel, message }
        };
        (links, write_packet(&self.header(false), &body))
    }
}
