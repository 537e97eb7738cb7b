//! Streams as the real servers write them, what only newer ones hold, and bytes of strangers.

use structs::stream::{ConsumerGroup, Counter, EntryId, IdempotenceLimits, NodeLimits, Stream};

use super::{read, value_type, write, write_as};
use crate::rdb::{Reader, ValueType, Writer};

/// Small nodes, so that there are several.
const LIMITS: NodeLimits = NodeLimits { bytes: 4096, entries: 3 };

fn id(ms: u64) -> EntryId {
    EntryId::new(ms, 0)
}

fn written(stream: &Stream) -> Vec<u8> {
    let mut out = Writer::new(true);
    write(&mut out, stream);
    out.into_bytes()
}

/// Reads bytes to their end, and writes what they gave as the same bytes again.
fn comes_back(value_type: ValueType, bytes: &[u8]) -> Stream {
    let mut reader = Reader::new(bytes);
    let stream = read(value_type, &mut reader).expect("a sound stream");
    assert!(reader.is_at_end());
    assert_eq!(super::value_type(&stream), value_type);
    assert_eq!(written(&stream), bytes);
    stream
}

/// Entries 1 to 8 without 3, two consumers, and one entry of each pending.
fn stream() -> Stream {
    let mut stream = Stream::default();
    for number in 1..=8 {
        let value = number.to_string();
        stream.append(id(number), &[(b"field", value.as_bytes())], LIMITS);
    }
    stream.delete_all(&[id(3)]);
    let mut group = ConsumerGroup::new(id(5), Some(Counter::new(4)));
    for name in [b"c", b"d"] {
        group.create_consumer(name, 1000);
        group.set_times(name, 1000, Some(1000));
    }
    group.deliver(id(4), b"c", 900, Counter::new(1));
    group.deliver(id(5), b"d", 950, Counter::new(7));
    stream.create_group(b"g", group);
    stream.create_group(b"", ConsumerGroup::new(EntryId::MIN, None));
    stream
}

#[test]
fn redis_6_2_gets_entries_and_groups_and_nothing_that_it_cannot_read() {
    let stream = stream();
    let mut out = Writer::new(true);
    write_as(&mut out, &stream, ValueType::StreamRedis5);
    let bytes = out.into_bytes();
    let mut reader = Reader::new(&bytes);
    let there = read(ValueType::StreamRedis5, &mut reader).expect("a sound stream");
    assert!(reader.is_at_end());
    let ids = |stream: &Stream| -> Vec<EntryId> {
        stream.range(EntryId::MIN, EntryId::MAX).map(|entry| entry.id).collect()
    };
    assert_eq!(ids(&there), ids(&stream));
    assert_eq!(there.last_id(), stream.last_id());
    for (name, group) in stream.groups() {
        let found = there.group(name).expect("each group");
        assert_eq!(found.last_id, group.last_id);
        let pending = |group: &ConsumerGroup| -> Vec<(EntryId, i64, Counter)> {
            let each = group.pending_from(EntryId::MIN);
            each.map(|it| (it.id, it.delivered_at, it.deliveries)).collect()
        };
        assert_eq!(pending(found), pending(group));
    }
}

fn from_hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

/// `XADD 1-1 a 1 b x`, `XADD 1-2 a 2 b y`, `XADD 2-0 c z`, a group, `XREADGROUP` of two by `c`,
/// `XDEL 1-2`, and `XCLAIM` of 1-1 by `d` with a time and a count.
#[test]
fn streams_of_the_real_servers_are_read() {
    let begin = "011000000000000000010000000000000001404040000000190002010101020181610281620200\
          01020100010001010181780205010301000101010201817902050100010101dfff020101816302\
          817a020601ff020200010101020301016701020202000000000000000100000000000000010500\
          0000000000000300000000000000010000000000000002";
    let redis70 = begin.to_owned()
        + "a78ce7fea101000001020163a78ce7fea101000001000000000000000100000000000000020164\
          b88ce7fea10100000100000000000000010000000000000001";
    let stream = read(ValueType::StreamRedis70, &mut Reader::new(&from_hex(&redis70))).unwrap();
    let stream = comes_back(ValueType::StreamRedis70, &written(&stream));
    assert_eq!((stream.len(), stream.entries_added().get()), (2, 3));
    assert_eq!((stream.last_id(), stream.max_deleted_id()), (id(2), EntryId::new(1, 2)));
    let group = stream.group(b"g").unwrap();
    assert_eq!((group.last_id, group.entries_read), (EntryId::new(1, 2), Some(Counter::new(2))));
    let pending: Vec<_> = group.pending_from(EntryId::MIN).collect();
    assert_eq!(group.owner_of(&pending[0]), b"d");
    assert_eq!((pending[0].delivered_at, pending[0].deliveries.get()), (5, 3));
    assert_eq!(group.owner_of(&pending[1]), b"c");
    let consumer = group.consumer(b"c").unwrap();
    assert_eq!((consumer.seen_at, consumer.active_at), (0x1a1_fee7_8ca7, Some(0x1a1_fee7_8ca7)));
    // Redis since 7.2 writes when a consumer was active in any case.
    let redis82 = begin.to_owned()
        + "f88ce7fea101000001020163f88ce7fea1010000f88ce7fea10100000100000000000000010000\
          0000000000020164128de7fea1010000128de7fea1010000010000000000000001000000000000\
          0001";
    let mut bytes = from_hex(&redis82);
    let newer = read(ValueType::StreamRedis72, &mut Reader::new(&bytes)).unwrap();
    assert_eq!(value_type(&newer), ValueType::StreamRedis70, "nothing is lost by that");
    assert_eq!(newer.group(b"g").unwrap().pending_count(), 2);
    bytes.push(0);
    assert!(read(ValueType::StreamRedis72, &mut Reader::new(&bytes)).is_ok(), "the rest is left");
}

#[test]
fn what_newer_servers_know_is_written_as_they_do() {
    let mut stream = stream();
    comes_back(ValueType::StreamRedis70, &written(&stream));
    stream.edit_group(b"g", |group| group.set_times(b"c", 1000, None));
    let back = comes_back(ValueType::StreamRedis72, &written(&stream));
    assert_eq!(back.group(b"g").unwrap().consumer(b"c").unwrap().active_at, None);
    let limits = IdempotenceLimits { duration: 300, size: 2 };
    for (producer, sent, entry) in [("p", "x", 1), ("p", "a", 2), ("q", "a", 4)] {
        let known = stream.idempotence_mut(limits);
        known.record(producer.as_bytes(), sent.as_bytes(), id(entry), 0);
    }
    stream.idempotence_mut(limits).count_duplicate();
    let back = comes_back(ValueType::StreamRedis86, &written(&stream));
    let known = back.idempotence().unwrap();
    assert_eq!(known.limits(), limits);
    let counts = [known.added_count(), known.duplicate_count()].map(Counter::get);
    assert_eq!((counts, known.tracked_count()), ([3, 1], 3));
    assert_eq!(known.find(b"p", b"a", 0), Some(id(2)));
    stream.edit_group(b"g", |group| group.give_back(id(4), Counter::new(3)));
    let back = comes_back(ValueType::StreamRedis88, &written(&stream));
    let group = back.group(b"g").unwrap();
    assert_eq!((group.given_back_count(), group.pending_count()), (1, 2));
    assert!(group.pending(id(4)).unwrap().is_given_back());
}

#[test]
fn what_has_no_entries_or_no_counters_is_read_too() {
    let mut empty = Stream::default();
    empty.keep();
    assert!(comes_back(ValueType::StreamRedis70, &written(&empty)).is_empty());
    // Redis 5 had neither counters nor a number of entries read.
    let mut old = Writer::new(true);
    let node = stream();
    let node = node.nodes().last().unwrap();
    super::write_length(&mut old, 1);
    super::write_bytes(&mut old, &super::bytes_of(node.master()));
    super::write_bytes(&mut old, node.bytes());
    super::write_length(&mut old, 2);
    super::write_id(&mut old, id(8));
    super::write_length(&mut old, 1);
    super::write_bytes(&mut old, b"g");
    super::write_id(&mut old, id(8));
    super::write_length(&mut old, 0);
    super::write_length(&mut old, 0);
    let stream = read(ValueType::StreamRedis5, &mut Reader::new(old.bytes())).unwrap();
    assert_eq!((stream.len(), stream.entries_added().get(), stream.first_id()), (2, 2, id(7)));
    assert_eq!(stream.group(b"g").unwrap().entries_read, Some(Counter::new(2)));
    // Limits that nobody changed say nothing.
    let usual = [&written(&empty)[..], &[0x40, 100, 0x40, 100, 0, 0, 0]].concat();
    let read = read(ValueType::StreamRedis86, &mut Reader::new(&usual)).unwrap();
    assert!(read.idempotence().is_none());
}

/// Files of other servers have counters that went on where ours stand still, and limits that no
/// command of ours takes: the base of a log may have to say them in commands.
#[test]
fn numbers_that_no_command_can_say_are_read_as_the_nearest() {
    let mut bytes = Writer::new(true);
    let out = &mut bytes;
    let beyond = 1 << 63;
    super::write_length(out, 0);
    super::write_length(out, 0);
    // The last ID, the first one, and one that was deleted behind both: Redis 7.0 allows that.
    [EntryId::MIN, EntryId::MIN, id(5)].into_iter().for_each(|id| super::write_id(out, id));
    super::write_length(out, beyond);
    super::write_length(out, 1);
    super::write_bytes(out, b"g");
    super::write_id(out, id(1));
    super::write_length(out, beyond);
    super::write_length(out, 1);
    out.extend(&super::bytes_of(id(1)));
    out.extend(&[0; 8]);
    super::write_length(out, beyond);
    super::write_length(out, 1);
    super::write_bytes(out, b"c");
    out.extend(&[0; 16]);
    super::write_length(out, 1);
    out.extend(&super::bytes_of(id(1)));
    for number in [beyond, beyond, 0, beyond, beyond] {
        super::write_length(out, number);
    }
    let stream = read(ValueType::StreamRedis86, &mut Reader::new(bytes.bytes())).unwrap();
    let group = stream.group(b"g").unwrap();
    assert_eq!((stream.entries_added(), group.entries_read), (Counter::MAX, Some(Counter::MAX)));
    assert_eq!(group.pending(id(1)).unwrap().deliveries, Counter::MAX);
    assert_eq!(stream.max_deleted_id(), stream.last_id());
    let known = stream.idempotence().unwrap();
    assert_eq!((known.added_count(), known.duplicate_count()), (Counter::MAX, Counter::MAX));
    assert_eq!(known.limits(), IdempotenceLimits { duration: 86_400, size: 10_000 });
    let back = read(value_type(&stream), &mut Reader::new(&written(&stream))).unwrap();
    assert_eq!(written(&back), written(&stream));
}

/// H50, H51, H52: cut and changed everywhere; an entry that two consumers have.
#[test]
fn what_is_not_sound_is_refused() {
    let mut stream = stream();
    stream.edit_group(b"g", |group| group.give_back(id(4), Counter::new(3)));
    stream.idempotence_mut(IdempotenceLimits { duration: 5, size: 5 }).record(b"p", b"x", id(1), 0);
    let bytes = written(&stream);
    for cut in 0..bytes.len() {
        assert!(read(ValueType::StreamRedis88, &mut Reader::new(&bytes[..cut])).is_err(), "{cut}");
    }
    // Whatever else is read is sound: that is written and read again.
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        if let Ok(stream) = read(ValueType::StreamRedis88, &mut Reader::new(&changed)) {
            let again = written(&stream);
            let value_type = value_type(&stream);
            let back = read(value_type, &mut Reader::new(&again)).expect("its own bytes");
            assert_eq!(written(&back), again);
        }
    }
    // The same entry pending twice, one that nobody has, and one that two have.
    let with_group = |tail: &[u8]| {
        let mut bytes = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, b'g', 0, 0, 0];
        bytes.extend_from_slice(tail);
        read(ValueType::StreamRedis70, &mut Reader::new(&bytes)).is_ok()
    };
    let (one, time) = ([[0; 15].as_slice(), &[1]].concat(), [0; 8]);
    let entry = [&one[..], &time, &[1]].concat();
    let consumer = |name: u8| [&[1, name][..], &time, &[1], &one].concat();
    assert!(with_group(&[0, 0]));
    assert!(with_group(&[&[1][..], &entry, &[1], &consumer(b'a')].concat()));
    assert!(!with_group(&[&[1][..], &entry, &[0]].concat()));
    assert!(!with_group(&[&[2][..], &entry, &entry, &[1], &consumer(b'a')].concat()));
    assert!(!with_group(&[&[1][..], &entry, &[2], &consumer(b'a'), &consumer(b'b')].concat()));
    assert!(!with_group(&[&[0, 1][..], &consumer(b'a')].concat()));
    assert!(!with_group(&[0x81, 255, 255, 255, 255, 255, 255, 255, 255]));
}
