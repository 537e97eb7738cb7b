//! Streams against a `BTreeMap`: by random steps with clones kept aside; nodes byte by byte, and
//! groups against a naive model.

use std::collections::BTreeMap;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};

use super::{
    ConsumerGroup, Counter, Counters, EntryId, Idempotence, IdempotenceLimits, NodeLimits, Pair,
    References, Stream, StreamNode, Threshold, Trim,
};
use crate::listpack::{Element, Listpack};

const LIMITS: NodeLimits = NodeLimits { bytes: 300, entries: 7 };

type Model = BTreeMap<EntryId, Vec<(Vec<u8>, Vec<u8>)>>;

#[derive(Clone, Debug)]
enum Step {
    Append { ms: u64, seq: u64, fields: Vec<(u8, u16)> },
    Delete { at: u16, neighbours: usize },
    Trim { length: bool, at: u16, approximate: bool, limit: u8 },
    Keep,
}

fn step() -> impl Strategy<Value = Step> {
    let fields = prop::collection::vec((0..3_u8, any::<u16>()), 1..4);
    prop_oneof![
        12 => (0..3_u64, 0..4_u64, fields)
            .prop_map(|(ms, seq, fields)| Step::Append { ms, seq, fields }),
        5 => (any::<u16>(), prop_oneof![3 => Just(0), 1 => 0..40_usize])
            .prop_map(|(at, neighbours)| Step::Delete { at, neighbours }),
        1 => (any::<bool>(), any::<u16>(), any::<bool>(), 0..20_u8).prop_map(
            |(length, at, approximate, limit)| Step::Trim { length, at, approximate, limit }
        ),
        1 => Just(Step::Keep),
    ]
}

fn id(ms: u64, seq: u64) -> EntryId {
    EntryId::new(ms, seq)
}

fn nth(model: &Model, at: u16) -> Option<EntryId> {
    model.keys().nth(usize::from(at) % model.len().max(1)).copied()
}

fn append(stream: &mut Stream, model: &mut Model, id: EntryId, fields: &[(u8, u16)]) {
    let text = |(field, value): &(u8, u16)| {
        let value = match value % 3 {
            0 => value.to_string().into_bytes(),
            _ => vec![b'v'; usize::from(value % 70)],
        };
        (vec![b'a' + field], value)
    };
    let fields: Vec<_> = fields.iter().map(text).collect();
    let pairs: Vec<Pair<'_>> = fields.iter().map(|(field, value)| (&**field, &**value)).collect();
    stream.append(id, &pairs, LIMITS);
    model.insert(id, fields);
}

fn trim(stream: &mut Stream, model: &mut Model, step: &Step) {
    let Step::Trim { length, at, approximate, limit } = *step else { return };
    let least = nth(model, at).unwrap_or(EntryId::MIN);
    let most = u64::from(at) % (model.len() as u64 + 2);
    let threshold = if length { Threshold::Length(most) } else { Threshold::Id(least) };
    let limit = if approximate { u64::from(limit) } else { 0 };
    let trim = Trim { threshold, approximate, limit, references: References::Keep };
    let wanted = match length {
        true => (model.len() as u64).saturating_sub(most),
        false => model.range(..least).count() as u64,
    };
    let deleted = stream.trim(&trim).deleted;
    match approximate {
        false => assert_eq!(deleted, wanted),
        true => assert!(deleted <= wanted && (limit == 0 || deleted <= limit)),
    }
    (0..deleted).for_each(|_| _ = model.pop_first());
    if approximate && limit == 0 {
        let first = stream.nodes().next().map_or(0, |node| node.live() as u64);
        assert!(wanted - deleted < first.max(1) || !length, "whole nodes are gone");
    }
}

fn agree(stream: &Stream, model: &Model) {
    assert_eq!(stream.len(), model.len() as u64);
    assert_eq!(stream.first_id(), model.keys().next().copied().unwrap_or_default());
    let found: Vec<_> = stream.range(EntryId::MIN, EntryId::MAX).collect();
    assert_eq!(found.len(), model.len());
    for (item, (id, fields)) in found.iter().zip(model) {
        assert_eq!(item.id, *id);
        let texts = item.fields.clone().map(|(field, value)| (field.to_vec(), value.to_vec()));
        assert_eq!(&texts.collect::<Vec<_>>(), fields);
    }
    for node in stream.nodes() {
        let checked =
            StreamNode::checked(node.master(), node.bytes().to_vec()).map(|node| node.live());
        assert_eq!(checked, Ok(node.live()));
    }
    assert_eq!(stream.node_count(), stream.nodes().count() as u64);
    let heap: usize = stream.nodes().map(|node| node.bytes().len()).sum();
    assert!(stream.memory() >= heap);
}

fn ranges_agree(stream: &Stream, model: &Model, from: EntryId, to: EntryId) {
    let (low, high) = if from <= to { (from, to) } else { (to, from) };
    let wanted: Vec<_> = model.range(low..=high).map(|(id, _)| *id).collect();
    let found: Vec<_> = stream.range(low, high).map(|item| item.id).collect();
    assert_eq!(found, wanted);
    let mut back: Vec<_> = stream.range_back(low, high).map(|item| item.id).collect();
    back.reverse();
    assert_eq!(back, wanted);
    if low < high {
        assert_eq!(stream.range(high, low).count() + stream.range_back(high, low).count(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_stream_is_a_map_of_entries(
        steps in prop::collection::vec(step(), 1..160),
        bounds in prop::collection::vec((0..200_u64, 0..6_u64), 8),
    ) {
        let (mut stream, mut model) = (Stream::default(), Model::new());
        let mut kept: Vec<(Stream, Model)> = Vec::new();
        let (mut last, mut added, mut max_deleted) = (EntryId::MIN, 0, EntryId::MIN);
        for step in &steps {
            match step {
                Step::Append { ms, seq, fields } => {
                    last = id(last.ms + ms, if *ms == 0 { last.seq + 1 + seq } else { *seq });
                    added += 1;
                    append(&mut stream, &mut model, last, fields);
                }
                Step::Delete { at, neighbours } => {
                    let first = nth(&model, *at).unwrap_or(id(5, 5));
                    // Every other one, and IDs in between that were never there.
                    let there = model.range(first..).map(|(id, _)| *id).step_by(2);
                    let there: Vec<EntryId> = there.take(1 + neighbours).collect();
                    let absent = there.iter().map(|there| id(there.ms, there.seq + 1000));
                    let mut ids: Vec<EntryId> = there.iter().copied().chain(absent).collect();
                    ids.sort();
                    assert_eq!(stream.delete_all(&ids), there);
                    assert_eq!(stream.delete_all(&ids), [], "they are gone");
                    there.iter().for_each(|id| _ = model.remove(id));
                    max_deleted = there.last().map_or(max_deleted, |id| max_deleted.max(*id));
                }
                Step::Trim { .. } => trim(&mut stream, &mut model, step),
                Step::Keep => kept.push((stream.clone(), model.clone())),
            }
            assert_eq!(stream.len(), model.len() as u64);
        }
        kept.push((stream.clone(), model.clone()));
        kept.iter().for_each(|(stream, model)| agree(stream, model));
        bounds.windows(2).for_each(|pair| {
            ranges_agree(&stream, &model, id(pair[0].0, pair[0].1), id(pair[1].0, pair[1].1));
        });
        assert_eq!((stream.last_id(), stream.entries_added()), (last, Counter::new(added)));
        assert_eq!(stream.max_deleted_id(), max_deleted);
        let nodes = stream.nodes().cloned();
        let entries_added = Counter::new(added);
        let counters = Counters { last_id: last, max_deleted_id: max_deleted, entries_added };
        agree(&Stream::from_nodes(nodes.collect(), counters), &model);
    }

    #[test]
    fn what_is_pending_is_known_by_entry_and_by_owner(
        steps in prop::collection::vec((0..6_u8, 0..400_u64, 0..3_usize, 0..50_i64), 1..600),
    ) {
        let names: [&[u8]; 3] = [b"a", b"b", b"c"];
        let mut stream = Stream::default();
        assert!(stream.create_group(b"g", ConsumerGroup::new(EntryId::MIN, None)));
        let empty = stream.memory();
        let mut model: BTreeMap<EntryId, (Option<&[u8]>, i64, u64)> = BTreeMap::new();
        for (kind, number, name, time) in steps {
            let (entry, name) = (id(number, 0), names[name]);
            stream.edit_group(b"g", |group| match kind {
                0..=2 => {
                    group.create_consumer(name, time);
                    group.deliver(entry, name, time, Counter::new(number));
                    model.insert(entry, (Some(name), time, number));
                }
                3 => assert_eq!(group.acknowledge(entry), model.remove(&entry).is_some()),
                4 => {
                    group.give_back(entry, Counter::new(number));
                    model.insert(entry, (None, 0, number));
                }
                _ if time == 7 => {
                    let owned = |owner: Option<&[u8]>| owner == Some(name);
                    let count = model.values().filter(|(owner, ..)| owned(*owner)).count();
                    let had = group.delete_consumer(name);
                    assert_eq!(had.unwrap_or(0), count as u64);
                    model.retain(|_, (owner, ..)| !owned(*owner));
                }
                _ => group.note_seen(name, time),
            });
        }
        let group = stream.group(b"g").expect("it was made");
        let all: Vec<_> = group.pending_from(EntryId::MIN).collect();
        assert_eq!(all.len(), model.len());
        for (found, (entry, (owner, time, deliveries))) in all.iter().zip(&model) {
            assert_eq!((found.id, found.delivered_at), (*entry, *time));
            assert_eq!(found.deliveries.get(), *deliveries);
            assert_eq!(group.owner_of(found), owner.unwrap_or_default());
            assert_eq!(group.pending(*entry), Some(*found));
        }
        let given_back = model.values().filter(|(owner, ..)| owner.is_none()).count();
        assert_eq!(group.given_back_count(), given_back as u64);
        for (name, consumer) in group.consumers() {
            let owned = model.iter().filter(|(_, (owner, ..))| *owner == Some(name));
            let wanted: Vec<_> = owned.map(|(entry, _)| *entry).collect();
            let found: Vec<_> = consumer.owned_from(EntryId::MIN).collect();
            assert_eq!((consumer.pending_count(), &found), (wanted.len() as u64, &wanted));
        }
        let by_time: Vec<_> =
            group.pending_by_time().map(|pending| (pending.delivered_at, pending.id)).collect();
        let mut wanted: Vec<_> =
            model.iter().map(|(entry, (_, time, _))| (*time, *entry)).collect();
        wanted.sort_unstable();
        assert_eq!(by_time, wanted);
        let kept = stream.clone();
        model.keys().for_each(|entry| assert!(!stream.forget(*entry).is_empty()));
        for name in names {
            stream.edit_group(b"g", |group| group.delete_consumer(name));
        }
        assert_eq!(stream.memory(), empty);
        assert_eq!(kept.group(b"g").map(ConsumerGroup::pending_count), Some(model.len() as u64));
    }

    #[test]
    fn no_bytes_make_validation_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = StreamNode::checked(EntryId::MIN, bytes.clone());
        let mut listpack = crate::listpack::new();
        for byte in bytes {
            let element = Element::Integer(i64::from(byte) % 7 - 1);
            crate::listpack::push_back(&mut listpack, element);
        }
        let _ = StreamNode::checked(EntryId::MIN, listpack);
    }
}

#[test]
fn a_node_has_the_bytes_of_redis() {
    let mut stream = Stream::default();
    stream.append(id(5, 1), &[(b"f", b"1"), (b"g", b"x")], LIMITS);
    stream.append(id(6, 0), &[(b"f", b"2"), (b"g", b"y")], LIMITS);
    stream.append(id(6, 1), &[(b"h", b"3")], LIMITS);
    assert_eq!(stream.delete_all(&[id(6, 0)]), [id(6, 0)]);
    let node = stream.nodes().next().expect("there are entries");
    let found: Vec<_> = Listpack::new(node.bytes()).iter().map(Element::to_vec).collect();
    // The documentation of the RDB format has no word on nodes; `DEBUG LISTPACK` and a DUMP of
    // Redis 8.2 show them.
    let wanted = "2 1 2 f g 0 2 0 0 1 x 5 3 1 -1 2 y 5 0 1 0 1 h 3 6";
    let wanted: Vec<_> = wanted.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    assert_eq!(found, wanted);
    assert_eq!(node.master(), id(5, 1));
}

#[test]
fn nodes_grow_as_far_as_the_limits_say() {
    let nodes_of = |limits: NodeLimits| {
        let mut stream = Stream::default();
        (1..=20).for_each(|ms| stream.append(id(ms, 0), &[(b"field", b"value")], limits));
        stream.nodes().map(super::StreamNode::live).collect::<Vec<_>>()
    };
    assert_eq!(nodes_of(NodeLimits { bytes: 0, entries: 0 }), [20]);
    assert_eq!(nodes_of(NodeLimits { bytes: 0, entries: 8 }), [8, 8, 4]);
    assert_eq!(nodes_of(NodeLimits { bytes: 1, entries: 0 }), [1; 20]);
}

#[test]
fn acknowledged_entries_go_and_references_go_with_entries() {
    let mut stream = Stream::default();
    (1..=9).for_each(|ms| stream.append(id(ms, 0), &[(b"f", b"v")], LIMITS));
    let mut group = ConsumerGroup::new(id(7, 0), Some(Counter::new(7)));
    group.create_consumer(b"c", 0);
    [2, 5].iter().for_each(|ms| group.deliver(id(*ms, 0), b"c", 1, Counter::new(1)));
    stream.create_group(b"g", group);
    let ids = |stream: &Stream| {
        stream.range(EntryId::MIN, EntryId::MAX).map(|item| item.id.ms).collect::<Vec<_>>()
    };
    let trim = |stream: &Stream, references| {
        let mut stream = stream.clone();
        let threshold = Threshold::Length(3);
        let trim = Trim { threshold, approximate: false, limit: 0, references };
        let deleted = stream.trim(&trim).deleted;
        let pending = stream.group(b"g").map(ConsumerGroup::pending_count);
        (deleted, ids(&stream), pending.unwrap_or(0), stream.first_id().ms)
    };
    assert_eq!(trim(&stream, References::Keep), (6, vec![7, 8, 9], 2, 7));
    assert_eq!(trim(&stream, References::Delete), (6, vec![7, 8, 9], 0, 7));
    assert_eq!(trim(&stream, References::Acknowledged), (5, vec![2, 5, 8, 9], 2, 2));
    assert!(stream.is_referred_to(id(5, 0)) && stream.is_referred_to(id(8, 0)));
    assert!(!stream.is_referred_to(id(1, 0)));
}

#[test]
fn a_trim_of_what_is_acknowledged_does_not_grow_with_what_a_group_has_not_read() {
    let steps_of = |entries: u64| {
        let mut stream = Stream::default();
        (1..=entries).for_each(|ms| stream.append(id(ms, 0), &[(b"f", b"v")], LIMITS));
        for (name, last_id) in [(b"a", id(entries, 0)), (b"b", EntryId::MIN)] {
            stream.create_group(name, ConsumerGroup::new(last_id, Some(Counter::default())));
        }
        let (threshold, references) = (Threshold::Length(10), References::Acknowledged);
        let trim = Trim { threshold, approximate: false, limit: 0, references };
        let before = base::step_count::taken()?;
        assert_eq!(stream.trim(&trim).deleted, 0);
        assert_eq!(stream.len(), entries);
        Some(base::step_count::taken()? - before)
    };
    assert_eq!(steps_of(100), steps_of(10_000));
}

#[test]
fn producers_are_remembered_for_a_time_and_up_to_a_number() {
    let mut sent = Idempotence::new(IdempotenceLimits { duration: 10, size: 3 });
    let empty = sent.memory();
    for number in 1..=4 {
        sent.record(b"p", number.to_string().as_bytes(), id(number, 0), number as i64);
    }
    assert_eq!(sent.find(b"p", b"1", 4), None);
    assert_eq!(sent.find(b"p", b"2", 4), Some(id(2, 0)));
    assert_eq!(sent.find(b"p", b"2", 10_002), Some(id(2, 0)));
    assert_eq!(sent.find(b"p", b"2", 10_003), None);
    assert_eq!(sent.find(b"q", b"2", 4), None);
    assert_eq!((sent.producer_count(), sent.tracked_count(), sent.added_count().get()), (1, 3, 4));
    sent.record(b"p", b"9", id(20_000, 0), 20_000);
    assert_eq!((sent.producer_count(), sent.tracked_count(), sent.added_count().get()), (1, 1, 5));
    assert!(sent.memory() > empty);
}

#[test]
fn counters_stand_still_at_the_greatest() {
    assert_eq!(Counter::new(u64::MAX), Counter::MAX);
    assert_eq!(Counter::MAX.next(), Counter::MAX);
    assert_eq!(Counter::default().previous(), Counter::default());
    let mut stream = Stream::default();
    let counters = Counters { entries_added: Counter::MAX, ..Counters::default() };
    stream.set_counters(counters);
    (1..=2).for_each(|ms| stream.append(id(ms, 0), &[(b"f", b"v")], LIMITS));
    assert_eq!(stream.entries_added(), Counter::MAX);
    let read = (id(1, 0), Some(Counter::MAX));
    assert_eq!(stream.entries_read_by(read, id(2, 0)), Some(Counter::MAX));
    let group = ConsumerGroup::new(id(1, 0), Some(Counter::default()));
    assert_eq!(stream.lag_of(&group), Some(i64::MAX));
}

/// As Redis 8.2 tells it.
#[test]
fn the_lag_of_a_group_is_known_or_not() {
    let mut stream = Stream::default();
    (1..=4).for_each(|ms| stream.append(id(ms, 0), &[(b"f", b"v")], LIMITS));
    let groups = [(4, Some(1)), (3, Some(1)), (9, Some(1)), (2, Some(1)), (0, Some(2)), (3, None)];
    let lags = |stream: &Stream| {
        groups.map(|(ms, read)| {
            let group = ConsumerGroup::new(id(ms, 0), read.map(Counter::new));
            stream.lag_of(&group).unwrap_or(-1)
        })
    };
    assert_eq!(lags(&stream), [3, 3, 3, 3, 4, -1]);
    let trim = |stream: &mut Stream, length| {
        let threshold = Threshold::Length(length);
        let references = References::Keep;
        stream.trim(&Trim { threshold, approximate: false, limit: 0, references });
    };
    trim(&mut stream, 2);
    assert_eq!(lags(&stream), [3, 3, 3, 2, 2, 1]);
    stream.delete_all(&[id(4, 0)]);
    assert_eq!(lags(&stream), [0, -1, 3, -1, -1, -1]);
    stream.delete_all(&[id(3, 0)]);
    assert_eq!(lags(&stream), [0; 6]);
    stream.append(id(5, 0), &[(b"f", b"v")], LIMITS);
    assert_eq!(lags(&stream), [1, 1, 4, 1, 1, 1]);
    trim(&mut stream, 0);
    assert_eq!(lags(&stream), [0; 6]);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64, failure_persistence: None, ..Default::default()
    })]

    /// A trim looks through the groups once; each entry by itself asks all of them.
    #[test]
    fn a_trim_by_reference_takes_what_no_group_refers_to(
        groups in prop::collection::vec(
            (0..40_u64, prop::collection::btree_set(1..40_u64, 0..8)), 1..6,
        ),
        most in 0..40_u64,
    ) {
        let mut stream = Stream::default();
        (1..=40).for_each(|ms| stream.append(id(ms, 0), &[(b"f", b"v")], LIMITS));
        for (number, (last, pending)) in groups.iter().enumerate() {
            let mut group = ConsumerGroup::new(id(*last, 0), None);
            group.create_consumer(b"c", 0);
            pending.iter().for_each(|ms| group.deliver(id(*ms, 0), b"c", 1, Counter::new(1)));
            stream.create_group(number.to_string().as_bytes(), group);
        }
        let trim = |references| {
            let mut trimmed = stream.clone();
            let threshold = Threshold::Length(most);
            trimmed.trim(&Trim { threshold, approximate: false, limit: 0, references });
            trimmed
        };
        let ids = |stream: &Stream| {
            stream.range(EntryId::MIN, EntryId::MAX).map(|item| item.id.ms).collect::<Vec<_>>()
        };
        // Behind the node in which the length lies nothing is looked at.
        let (mut left, mut is_over, mut expected) = (40, false, Vec::new());
        for node in (1..=40).collect::<Vec<u64>>().chunks(LIMITS.entries) {
            let lies_here = left - (node.len() as u64) < most;
            for ms in node {
                let goes = !is_over && left > most && !stream.is_referred_to(id(*ms, 0));
                left -= u64::from(goes);
                expected.extend((!goes).then_some(*ms));
            }
            is_over |= lies_here;
        }
        assert_eq!(ids(&trim(References::Acknowledged)), expected);
        let deleted = trim(References::Delete);
        for (number, (_, pending)) in groups.iter().enumerate() {
            let group = deleted.group(number.to_string().as_bytes()).expect("it was made");
            let stays = pending.iter().filter(|ms| **ms > 40 - most).count() as u64;
            assert_eq!(group.pending_count(), stays);
        }
    }
}
