//! The map in the words of a Redis Cluster: what CLUSTER NODES, SLOTS and SHARDS are drawn from.
//!
//! Invariant: a slot that the map gives to a shard is told of one node, the one that clients are to
//! ask for it.

use std::collections::BTreeMap;

use cluster::{AuxFields, NodeFlags, NodeId, NodeRecord, ShardId, SlotSet};

use super::{ClusterMap, NodeAddress, Shard};
use crate::position::Term;

impl ClusterMap {
    /// The nodes as `me` tells of them, in the order of their names. What only gossip knows (names,
    /// links, suspicions) is not in the map, and is left for the caller to fill in.
    ///
    /// A node that follows or counts is a replica, whether or not it counts yet. A node in no shard
    /// is an empty primary, in a shard of its own name.
    pub fn records(&self, me: NodeId) -> Vec<NodeRecord> {
        let mut places: BTreeMap<NodeId, (ShardId, &Shard)> = BTreeMap::new();
        for (id, shard) in &self.shards {
            let nodes = shard.members.iter().chain(&shard.joining);
            places.extend(nodes.map(|node| (*node, (*id, shard))));
        }
        let nodes = self.nodes.iter();
        nodes.map(|(id, address)| record(*id, address, places.get(id).copied(), me)).collect()
    }

    /// The greatest term of a shard, which stands for `currentEpoch`.
    pub fn last_term(&self) -> Term {
        self.shards.values().map(|shard| shard.term).max().unwrap_or_default()
    }
}

impl Shard {
    /// The node that clients are sent to: the primary, and before the first term the founder.
    pub fn served_by(&self) -> Option<NodeId> {
        self.primary.or_else(|| self.members.first().copied())
    }
}

fn record(
    id: NodeId,
    address: &NodeAddress,
    place: Option<(ShardId, &Shard)>,
    me: NodeId,
) -> NodeRecord {
    let followed = place.and_then(|(_, shard)| shard.served_by()).filter(|node| *node != id);
    let role = if followed.is_some() { NodeFlags::REPLICA } else { NodeFlags::PRIMARY };
    let slots = match (place, followed) {
        (Some((_, shard)), None) => shard.slots.clone(),
        _ => SlotSet::empty(),
    };
    NodeRecord {
        id,
        ip: Some(address.ip),
        tcp_port: address.tcp_port,
        tls_port: address.tls_port,
        bus_port: address.bus_port,
        aux: AuxFields {
            shard: Some(place.map_or(ShardId(id), |(shard, _)| shard)),
            ..AuxFields::default()
        },
        flags: if id == me { role.with(NodeFlags::MYSELF) } else { role },
        primary: followed,
        ping_sent: 0,
        pong_received: 0,
        config_epoch: place.map_or(0, |(_, shard)| shard.term.0),
        is_connected: id == me,
        slots,
        open_slots: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use cluster::{NodeId, ShardId, SlotSet};

    use crate::map::tests::led_map;
    use crate::map::{ClusterMap, MapEntry};
    use crate::position::Term;

    fn node(letter: char) -> NodeId {
        NodeId::parse(letter.to_string().repeat(40).as_bytes()).expect("forty letters")
    }

    /// The lines of CLUSTER NODES, with names of one letter.
    fn lines(map: &ClusterMap, me: char) -> Vec<String> {
        let records = map.records(node(me));
        let lines = records.iter().map(|record| {
            let mut line = String::new();
            record.put_line(false, false, &mut line);
            let words = line.split(' ').map(|word| match word.len() {
                40 => &word[..1],
                _ => word,
            });
            words.collect::<Vec<_>>().join(" ")
        });
        lines.collect()
    }

    #[test]
    fn nodes_are_told_as_a_cluster_tells_of_them() {
        let expected = [
            "a 127.0.0.1:1@2 myself,master - 0 0 3 connected 0-8999",
            "b 127.0.0.1:1@2 slave a 0 0 3 disconnected",
            "c 127.0.0.1:1@2 slave a 0 0 3 disconnected",
            "d 127.0.0.1:1@2 master - 0 0 0 disconnected",
            "e 127.0.0.1:1@2 master - 0 0 1 disconnected 9001-16383",
            "f ::1:0@4 master - 0 0 0 disconnected",
        ];
        assert_eq!(lines(&led_map(), 'a'), expected);
        assert_eq!(led_map().last_term(), Term(3));
    }

    #[test]
    fn each_slot_is_told_of_one_node_and_each_node_has_a_shard() {
        let mut map = led_map();
        // A shard that has no term yet is told of its founder.
        let shard = ShardId(node('3'));
        let slots: SlotSet =
            [cluster::Slot::new(9000).expect("there is one")].into_iter().collect();
        for entry in [
            MapEntry::CreateShard { shard, founder: node('d') },
            MapEntry::Join { shard, node: node('f') },
            MapEntry::AssignSlots { shard, slots },
        ] {
            map.apply(&entry).expect("the map takes what is right");
        }
        let records = map.records(node('b'));
        let mut told = SlotSet::empty();
        for record in &records {
            assert!(told.and(&record.slots).is_empty());
            told = told.or(&record.slots);
            let shard = record.aux.shard.expect("each node has one");
            assert_eq!(map.shard_of(record.id).map(|(id, _)| id), Some(shard));
            for slot in record.slots.iter() {
                assert_eq!(map.owner(slot), Some(shard));
            }
        }
        assert_eq!(told, SlotSet::full());
        let founder = records.iter().find(|record| record.id == node('d'));
        assert_eq!(founder.map(|record| record.slots.len()), Some(1));
        let follower = records.iter().find(|record| record.id == node('f'));
        assert_eq!(follower.and_then(|record| record.primary), Some(node('d')));
    }
}
