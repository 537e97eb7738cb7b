//! The map, its entries and refusals as bytes: in the log, in snapshots, between nodes.
//!
//! Invariant: a map that is read is one that entries can make: whatever the bytes, no node is in
//! two shards and no slot either.

use std::collections::{BTreeMap, BTreeSet};

use cluster::{NodeId, ShardId, SlotSet};

use super::{ClusterMap, MapEntry, MapRefusal, NodeAddress, Shard};
use crate::position::{ShardVersion, Term};
use crate::wire::{
    Fields, WireError, put_count, put_id, put_ids, put_ip, put_option, put_slots, put_u64,
};

/// The refusals, each in the place that is its number.
const REFUSALS: [MapRefusal; 14] = [
    MapRefusal::UnknownNode,
    MapRefusal::UnknownShard,
    MapRefusal::NodeInShard,
    MapRefusal::ShardExists,
    MapRefusal::ShardHasSlots,
    MapRefusal::NotJoining,
    MapRefusal::NotMember,
    MapRefusal::IsPrimary,
    MapRefusal::NoPrimary,
    MapRefusal::OldVersion,
    MapRefusal::OldTerm,
    MapRefusal::SlotsTaken,
    MapRefusal::SlotsElsewhere,
    MapRefusal::SameShard,
];

impl MapRefusal {
    /// Writes the refusal.
    pub fn encode(self, out: &mut Vec<u8>) {
        let number = REFUSALS.iter().position(|refusal| *refusal == self);
        out.push(number.expect("the table has all refusals") as u8);
    }

    /// Reads a refusal.
    pub fn decode(fields: &mut Fields<'_>) -> Result<MapRefusal, WireError> {
        let number = usize::from(fields.u8()?);
        REFUSALS.get(number).copied().ok_or(WireError::Value("refusal"))
    }
}

impl MapEntry {
    /// Writes the entry.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            MapEntry::AddNode { node, address } => {
                out.push(0);
                put_id(out, *node);
                put_address(out, address);
            }
            MapEntry::RemoveNode { node } => {
                out.push(1);
                put_id(out, *node);
            }
            MapEntry::CreateShard { shard, founder } => put_pair(out, 2, *shard, *founder),
            MapEntry::RemoveShard { shard, version } => {
                out.push(3);
                put_versioned(out, *shard, *version);
            }
            MapEntry::Join { shard, node } => put_pair(out, 4, *shard, *node),
            MapEntry::Leave { shard, node } => put_pair(out, 5, *shard, *node),
            MapEntry::Admit { shard, node, version } => {
                put_pair(out, 6, *shard, *node);
                put_u64(out, version.0);
            }
            MapEntry::Dismiss { shard, node, version } => {
                put_pair(out, 7, *shard, *node);
                put_u64(out, version.0);
            }
            MapEntry::Elect { shard, primary, term, version } => {
                put_pair(out, 8, *shard, *primary);
                put_u64(out, term.0);
                put_u64(out, version.0);
            }
            MapEntry::AssignSlots { shard, slots } => {
                out.push(9);
                put_id(out, shard.0);
                put_slots(out, slots);
            }
            MapEntry::MoveSlots { slots, from, from_version, to, to_version } => {
                out.push(10);
                put_slots(out, slots);
                put_versioned(out, *from, *from_version);
                put_versioned(out, *to, *to_version);
            }
        }
    }

    /// Reads an entry.
    pub fn decode(fields: &mut Fields<'_>) -> Result<MapEntry, WireError> {
        Ok(match fields.u8()? {
            0 => MapEntry::AddNode { node: fields.id()?, address: address(fields)? },
            1 => MapEntry::RemoveNode { node: fields.id()? },
            2 => MapEntry::CreateShard { shard: shard_id(fields)?, founder: fields.id()? },
            3 => MapEntry::RemoveShard { shard: shard_id(fields)?, version: version(fields)? },
            4 => MapEntry::Join { shard: shard_id(fields)?, node: fields.id()? },
            5 => MapEntry::Leave { shard: shard_id(fields)?, node: fields.id()? },
            6 => {
                let (shard, node) = (shard_id(fields)?, fields.id()?);
                MapEntry::Admit { shard, node, version: version(fields)? }
            }
            7 => {
                let (shard, node) = (shard_id(fields)?, fields.id()?);
                MapEntry::Dismiss { shard, node, version: version(fields)? }
            }
            8 => {
                let (shard, primary, term) = (shard_id(fields)?, fields.id()?, fields.u64()?);
                MapEntry::Elect { shard, primary, term: Term(term), version: version(fields)? }
            }
            9 => MapEntry::AssignSlots { shard: shard_id(fields)?, slots: fields.slots()? },
            10 => {
                let (slots, from) = (fields.slots()?, shard_id(fields)?);
                let (from_version, to) = (version(fields)?, shard_id(fields)?);
                MapEntry::MoveSlots { slots, from, from_version, to, to_version: version(fields)? }
            }
            _ => return Err(WireError::Value("entry")),
        })
    }
}

impl ClusterMap {
    /// Writes the map.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_count(out, self.nodes.len());
        for (node, address) in &self.nodes {
            put_id(out, *node);
            put_address(out, address);
        }
        put_count(out, self.shards.len());
        for (id, shard) in &self.shards {
            put_id(out, id.0);
            put_ids(out, shard.members.iter().copied());
            put_ids(out, shard.joining.iter().copied());
            put_u64(out, shard.term.0);
            put_option(out, shard.primary.as_ref(), |out, primary| put_id(out, *primary));
            put_u64(out, shard.version.0);
            put_slots(out, &shard.slots);
        }
    }

    /// Reads a map.
    pub fn decode(fields: &mut Fields<'_>) -> Result<ClusterMap, WireError> {
        let mut nodes = BTreeMap::new();
        for _ in 0..fields.u16()? {
            let (node, address) = (fields.id()?, address(fields)?);
            if nodes.last_key_value().is_some_and(|(last, _)| *last >= node) {
                return Err(WireError::Value("list of nodes"));
            }
            nodes.insert(node, address);
        }
        let mut free: BTreeSet<NodeId> = nodes.keys().copied().collect();
        let mut assigned = SlotSet::empty();
        let mut shards = BTreeMap::new();
        for _ in 0..fields.u16()? {
            let (id, shard) = (shard_id(fields)?, shard(fields)?);
            if shards.last_key_value().is_some_and(|(last, _)| *last >= id) {
                return Err(WireError::Value("list of shards"));
            }
            if !shard.members.iter().chain(&shard.joining).all(|node| free.remove(node)) {
                return Err(WireError::Value("member of a shard"));
            }
            if !assigned.and(&shard.slots).is_empty() {
                return Err(WireError::Value("slot of a shard"));
            }
            assigned = assigned.or(&shard.slots);
            shards.insert(id, shard);
        }
        Ok(ClusterMap { nodes, shards })
    }
}

fn shard(fields: &mut Fields<'_>) -> Result<Shard, WireError> {
    let (members, joining): (BTreeSet<NodeId>, _) = (fields.ids()?, fields.ids()?);
    let term = Term(fields.u64()?);
    let primary = fields.option(Fields::id)?;
    let is_led = primary.is_some_and(|primary| members.contains(&primary));
    // Before its first term a shard has its founder alone, and no primary.
    let is_right = if term == Term(0) { primary.is_none() && members.len() == 1 } else { is_led };
    if !is_right {
        return Err(WireError::Value("primary"));
    }
    Ok(Shard { members, joining, term, primary, version: version(fields)?, slots: fields.slots()? })
}

fn put_pair(out: &mut Vec<u8>, kind: u8, shard: ShardId, node: NodeId) {
    out.push(kind);
    put_id(out, shard.0);
    put_id(out, node);
}

fn put_versioned(out: &mut Vec<u8>, shard: ShardId, version: ShardVersion) {
    put_id(out, shard.0);
    put_u64(out, version.0);
}

fn put_address(out: &mut Vec<u8>, address: &NodeAddress) {
    put_ip(out, address.ip);
    for port in [address.tcp_port, address.tls_port, address.bus_port] {
        out.extend_from_slice(&port.to_be_bytes());
    }
}

fn address(fields: &mut Fields<'_>) -> Result<NodeAddress, WireError> {
    let (ip, tcp_port) = (fields.ip()?, fields.u16()?);
    Ok(NodeAddress { ip, tcp_port, tls_port: fields.u16()?, bus_port: fields.u16()? })
}

fn shard_id(fields: &mut Fields<'_>) -> Result<ShardId, WireError> {
    fields.id().map(ShardId)
}

fn version(fields: &mut Fields<'_>) -> Result<ShardVersion, WireError> {
    fields.u64().map(ShardVersion)
}

#[cfg(test)]
mod tests {
    use base::Random;
    use cluster::{NodeId, ShardId, SlotSet};

    use super::REFUSALS;
    use crate::map::tests::{every_entry, led_map};
    use crate::map::{ClusterMap, MapEntry, MapRefusal};
    use crate::wire::{Fields, WireError};

    fn bytes_of(map: &ClusterMap) -> Vec<u8> {
        let mut bytes = Vec::new();
        map.encode(&mut bytes);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<ClusterMap, WireError> {
        let mut fields = Fields::new(bytes);
        let map = ClusterMap::decode(&mut fields)?;
        fields.end().map(|()| map)
    }

    #[test]
    fn entries_and_refusals_come_back() {
        for entry in every_entry() {
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            let mut fields = Fields::new(&bytes);
            assert_eq!(MapEntry::decode(&mut fields), Ok(entry));
            assert_eq!(fields.end(), Ok(()));
            for length in 0..bytes.len() {
                let cut = MapEntry::decode(&mut Fields::new(&bytes[..length]));
                assert_eq!(cut, Err(WireError::Cut), "{length}");
            }
        }
        for (number, refusal) in REFUSALS.into_iter().enumerate() {
            let mut bytes = Vec::new();
            refusal.encode(&mut bytes);
            assert_eq!(bytes, [number as u8]);
            assert_eq!(MapRefusal::decode(&mut Fields::new(&bytes)), Ok(refusal));
        }
        assert!(MapRefusal::decode(&mut Fields::new(&[REFUSALS.len() as u8])).is_err());
    }

    #[test]
    fn an_entry_has_these_bytes() {
        let node = NodeId::parse(&[b'a'; 40]).expect("forty letters");
        let slots: SlotSet = [0, 1, 2, 700].into_iter().filter_map(cluster::Slot::new).collect();
        let mut bytes = Vec::new();
        MapEntry::AssignSlots { shard: ShardId(node), slots }.encode(&mut bytes);
        let ranges: [u8; 10] = [0, 2, 0, 0, 0, 2, 2, 188, 2, 188];
        assert_eq!(bytes, [&[9][..], &[b'a'; 40], &ranges].concat());
    }

    #[test]
    fn maps_come_back() {
        for map in [ClusterMap::default(), led_map()] {
            let bytes = bytes_of(&map);
            assert_eq!(read(&bytes), Ok(map));
            for length in 0..bytes.len() {
                assert_eq!(read(&bytes[..length]), Err(WireError::Cut), "{length}");
            }
        }
    }

    #[test]
    fn what_no_entries_can_make_is_refused() {
        let map = led_map();
        let shards: Vec<ShardId> = map.shards.keys().copied().collect();
        type Break = fn(&mut ClusterMap, &[ShardId]);
        let broken: [(&str, Break); 5] = [
            ("member of a shard", |map, ids| {
                let member = *map.shards[&ids[0]].members.first().expect("a member");
                map.shards.get_mut(&ids[1]).expect("a shard").joining.insert(member);
            }),
            ("member of a shard", |map, ids| {
                let member = *map.shards[&ids[0]].members.first().expect("a member");
                map.nodes.remove(&member);
            }),
            ("slot of a shard", |map, ids| {
                let slots = map.shards[&ids[0]].slots.clone();
                map.shards.get_mut(&ids[1]).expect("a shard").slots = slots;
            }),
            ("primary", |map, ids| {
                map.shards.get_mut(&ids[0]).expect("a shard").primary = None;
            }),
            ("primary", |map, ids| {
                let stranger = *map.shards[&ids[1]].members.first().expect("a member");
                map.shards.get_mut(&ids[0]).expect("a shard").primary = Some(stranger);
            }),
        ];
        for (field, break_it) in broken {
            let mut wrong = map.clone();
            break_it(&mut wrong, &shards);
            assert_eq!(read(&bytes_of(&wrong)), Err(WireError::Value(field)));
        }
    }

    #[test]
    fn changed_bytes_are_refused_or_are_another_map() {
        let bytes = bytes_of(&led_map());
        let mut random = Random::from_seed(51);
        for _ in 0..500 {
            let mut changed = bytes.clone();
            for _ in 0..=random.below(3) {
                let place = random.below(changed.len() as u64) as usize;
                changed[place] = random.next_u64() as u8;
            }
            if let Ok(map) = read(&changed) {
                assert_eq!(bytes_of(&map), changed, "a map has one form");
            }
        }
    }
}
