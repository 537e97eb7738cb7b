//! Entries and what they do to the map.

use std::net::{Ipv4Addr, Ipv6Addr};

use base::Random;
use cluster::{NodeId, ShardId, Slot, SlotSet};

use super::{ClusterMap, MapEntry, MapRefusal, NodeAddress};
use crate::position::{ShardVersion, Term};

fn node(letter: u8) -> NodeId {
    NodeId::parse(&[letter; 40]).expect("forty letters")
}

fn slots(numbers: std::ops::Range<u16>) -> SlotSet {
    numbers.filter_map(Slot::new).collect()
}

const ONE: fn() -> ShardId = || ShardId(node(b'1'));
const TWO: fn() -> ShardId = || ShardId(node(b'2'));

/// Nodes a to e; a has founded one shard, e another; b and c join the first.
fn map() -> ClusterMap {
    let mut map = ClusterMap::default();
    let address =
        NodeAddress { ip: Ipv4Addr::LOCALHOST.into(), tcp_port: 1, tls_port: 0, bus_port: 2 };
    let mut entries: Vec<MapEntry> =
        (b'a'..=b'e').map(|name| MapEntry::AddNode { node: node(name), address }).collect();
    entries.extend([
        MapEntry::CreateShard { shard: ONE(), founder: node(b'a') },
        MapEntry::CreateShard { shard: TWO(), founder: node(b'e') },
        MapEntry::Join { shard: ONE(), node: node(b'b') },
        MapEntry::Join { shard: ONE(), node: node(b'c') },
    ]);
    for entry in entries {
        map.apply(&entry).expect("the map takes what founds it");
    }
    map
}

/// That map, with a primary and slots for each shard.
pub(super) fn led_map() -> ClusterMap {
    let mut map = map();
    let entries = [
        elect(ONE(), b'a', 3, 0),
        admit(b'b', 1),
        MapEntry::AssignSlots { shard: ONE(), slots: slots(0..9000) },
        elect(TWO(), b'e', 1, 0),
        MapEntry::AssignSlots { shard: TWO(), slots: slots(9001..16_384) },
        MapEntry::AddNode {
            node: node(b'f'),
            address: NodeAddress {
                ip: Ipv6Addr::LOCALHOST.into(),
                tcp_port: 0,
                tls_port: 3,
                bus_port: 4,
            },
        },
    ];
    for entry in entries {
        map.apply(&entry).expect("the map takes what is right");
    }
    map
}

/// An entry of each kind.
pub(super) fn every_entry() -> Vec<MapEntry> {
    let (shard, version) = (ONE(), ShardVersion(7));
    let address =
        NodeAddress { ip: Ipv6Addr::LOCALHOST.into(), tcp_port: 1, tls_port: 2, bus_port: 3 };
    vec![
        MapEntry::AddNode { node: node(b'a'), address },
        MapEntry::RemoveNode { node: node(b'a') },
        MapEntry::CreateShard { shard, founder: node(b'a') },
        MapEntry::RemoveShard { shard, version },
        MapEntry::Join { shard, node: node(b'b') },
        MapEntry::Leave { shard, node: node(b'b') },
        admit(b'b', 1),
        dismiss(b'b', 2),
        elect(shard, b'a', 5, u64::MAX),
        MapEntry::AssignSlots { shard, slots: SlotSet::full() },
        MapEntry::MoveSlots {
            slots: (0..16_384).step_by(300).filter_map(Slot::new).collect(),
            from: shard,
            from_version: version,
            to: TWO(),
            to_version: ShardVersion(0),
        },
    ]
}

fn elect(shard: ShardId, name: u8, term: u64, version: u64) -> MapEntry {
    let (term, version) = (Term(term), ShardVersion(version));
    MapEntry::Elect { shard, primary: node(name), term, version }
}

fn admit(name: u8, version: u64) -> MapEntry {
    MapEntry::Admit { shard: ONE(), node: node(name), version: ShardVersion(version) }
}

fn dismiss(name: u8, version: u64) -> MapEntry {
    MapEntry::Dismiss { shard: ONE(), node: node(name), version: ShardVersion(version) }
}

#[test]
fn each_entry_does_what_it_says_or_nothing() {
    let mut map = map();
    let (shard, version) = (ONE(), ShardVersion);
    let steps: [(MapEntry, Result<(), MapRefusal>); 22] = [
        (MapEntry::Join { shard, node: node(b'a') }, Err(MapRefusal::NodeInShard)),
        (MapEntry::Join { shard, node: node(b'z') }, Err(MapRefusal::UnknownNode)),
        (MapEntry::CreateShard { shard, founder: node(b'd') }, Err(MapRefusal::ShardExists)),
        (MapEntry::RemoveNode { node: node(b'b') }, Err(MapRefusal::NodeInShard)),
        // Only a primary changes the members.
        (admit(b'b', 0), Err(MapRefusal::NoPrimary)),
        (elect(shard, b'b', 1, 0), Err(MapRefusal::NotMember)),
        (elect(shard, b'a', 0, 0), Err(MapRefusal::OldTerm)),
        (elect(shard, b'a', 2, 0), Ok(())),
        (elect(shard, b'a', 3, 0), Err(MapRefusal::OldVersion)),
        (admit(b'b', 1), Ok(())),
        // What comes twice, or late, finds another version.
        (admit(b'c', 1), Err(MapRefusal::OldVersion)),
        (admit(b'c', 2), Ok(())),
        (admit(b'd', 3), Err(MapRefusal::NotJoining)),
        (dismiss(b'a', 3), Err(MapRefusal::IsPrimary)),
        (dismiss(b'd', 3), Err(MapRefusal::NotMember)),
        (dismiss(b'c', 3), Ok(())),
        (MapEntry::Leave { shard, node: node(b'b') }, Err(MapRefusal::NotJoining)),
        (MapEntry::AssignSlots { shard, slots: slots(0..10) }, Ok(())),
        (MapEntry::AssignSlots { shard: TWO(), slots: slots(9..12) }, Err(MapRefusal::SlotsTaken)),
        (MapEntry::RemoveShard { shard, version: version(5) }, Err(MapRefusal::ShardHasSlots)),
        (MapEntry::RemoveShard { shard: TWO(), version: version(0) }, Ok(())),
        (MapEntry::RemoveNode { node: node(b'e') }, Ok(())),
    ];
    for (entry, result) in steps {
        let before = map.clone();
        assert_eq!(map.apply(&entry), result, "{entry:?}");
        assert_eq!(result.is_err(), map == before, "{entry:?}");
    }
    let shard = &map.shards()[&ONE()];
    assert!(shard.members.iter().eq(&[node(b'a'), node(b'b')]) && shard.joining.is_empty());
    assert_eq!((shard.term, shard.primary), (Term(2), Some(node(b'a'))));
}

#[test]
fn slots_move_only_between_the_shards_that_were_asked() {
    let mut map = map();
    let entries = [
        MapEntry::AssignSlots { shard: ONE(), slots: slots(0..10) },
        elect(ONE(), b'a', 1, 1),
        elect(TWO(), b'e', 1, 0),
    ];
    for entry in entries {
        map.apply(&entry).expect("the map takes what the test begins with");
    }
    let moved = |range, from_version, to_version| MapEntry::MoveSlots {
        slots: slots(range),
        from: ONE(),
        from_version: ShardVersion(from_version),
        to: TWO(),
        to_version: ShardVersion(to_version),
    };
    let steps = [
        (moved(5..11, 2, 1), Err(MapRefusal::SlotsElsewhere)),
        // Another primary of the source, or of the target, than the one that was asked.
        (moved(5..8, 1, 1), Err(MapRefusal::OldVersion)),
        (moved(5..8, 2, 0), Err(MapRefusal::OldVersion)),
        (moved(5..8, 2, 1), Ok(())),
        (moved(5..8, 2, 1), Err(MapRefusal::OldVersion)),
        (moved(5..8, 3, 2), Err(MapRefusal::SlotsElsewhere)),
    ];
    for (entry, result) in steps {
        assert_eq!(map.apply(&entry), result, "{entry:?}");
    }
    let owners: Vec<Option<ShardId>> = (4..11).map(|n| map.owner(slot(n))).collect();
    let (one, two) = (Some(ONE()), Some(TWO()));
    assert_eq!(owners, [one, two, two, two, one, one, None]);
}

fn slot(number: u16) -> Slot {
    Slot::new(number).expect("a small number is a slot")
}

/// Whatever entries come: a node is in one shard, a slot in one, terms and versions rise.
#[test]
fn no_list_of_entries_breaks_the_map() {
    for seed in 0..300 {
        let mut random = Random::from_seed(seed);
        let mut map = map();
        let mut changes = 0;
        for _ in 0..200 {
            let before = map.clone();
            if map.apply(&any_entry(&mut random, &before)).is_ok() {
                changes += 1;
            }
            for name in b'a'..=b'e' {
                let has = |shard: &&super::Shard| {
                    shard.members.contains(&node(name)) || shard.joining.contains(&node(name))
                };
                assert!(map.shards().values().filter(has).count() <= 1);
            }
            for (id, shard) in map.shards() {
                let Some(old) = before.shards().get(id) else { continue };
                assert!(shard.term >= old.term && shard.version >= old.version);
                let (now, then) = (&shard.members, &old.members);
                let moved = now.difference(then).count() + then.difference(now).count();
                assert!(moved <= 1 && shard.primary.is_none_or(|one| now.contains(&one)));
            }
            for number in 0..12 {
                let has = |shard: &&super::Shard| shard.slots.contains(slot(number));
                assert!(map.shards().values().filter(has).count() <= 1);
            }
        }
        assert!(changes > 10);
    }
}

fn any_entry(random: &mut Random, map: &ClusterMap) -> MapEntry {
    let node = node(b'a' + random.below(5) as u8);
    let (shard, other) = if random.below(2) == 0 { (ONE(), TWO()) } else { (TWO(), ONE()) };
    let mut version = |shard: ShardId| {
        let version = map.shards().get(&shard).map_or(ShardVersion(0), |shard| shard.version);
        ShardVersion(version.0.saturating_sub(u64::from(random.below(8) == 0)))
    };
    let (at, to_version) = (version(shard), version(other));
    let first = random.below(12) as u16;
    let slots = slots(first..first + 2);
    match random.below(9) {
        0 => MapEntry::CreateShard { shard, founder: node },
        1 | 2 => MapEntry::Join { shard, node },
        3 => MapEntry::Leave { shard, node },
        4 => MapEntry::Admit { shard, node, version: at },
        5 => MapEntry::Dismiss { shard, node, version: at },
        6 => {
            let term = Term(random.below(50));
            MapEntry::Elect { shard, primary: node, term, version: at }
        }
        7 => MapEntry::AssignSlots { shard, slots },
        _ => MapEntry::MoveSlots { slots, from: shard, from_version: at, to: other, to_version },
    }
}
