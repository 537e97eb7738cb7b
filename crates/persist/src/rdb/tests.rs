//! Containers in payloads: those of real servers, our own, and those of strangers.

use base::crc::crc64;
use keyspace::{ContainerSettings, EntryBox, Kind};
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof};
use proptest::test_runner::{Config as ProptestConfig, TestCaseError};
use proptest::{prop_assert, prop_assert_eq, proptest};
use structs::hash::{Hash, HashLimits};
use structs::list::{List, ListLimits, Side};
use structs::listpack::{self, Element};
use structs::members::{Lifetime, Text};
use structs::object::Container;
use structs::set::{Set, SetLimits};
use structs::sorted_set::{SortedSet, SortedSetLimits};

use super::value::{Limits, ValueRef};
use super::{REDIS_6_2, REDIS_7_0, ValueType, Writer};
use crate::contents;
use crate::dump::{RestoreError, dump, dump_within, restore, version_of};

/// Each element with what belongs to it.
pub(super) type Contents = Vec<Vec<Vec<u8>>>;

fn dump_of(entry: &EntryBox) -> Vec<u8> {
    dump(entry.borrow(), true)
}

pub(super) fn contents_of(entry: &EntryBox) -> Contents {
    let value = ValueRef::of(entry.borrow());
    let mut elements = Vec::new();
    contents::for_each(&value, contents::Extent::All, |parts| {
        elements.push(parts.iter().map(|part| part.to_vec()).collect());
    });
    if !contents::is_ordered(&value) {
        elements.sort();
    }
    elements
}

/// Thresholds of Redis, or so small that nearly everything is large.
fn limits(are_small: bool) -> Limits {
    let settings = ContainerSettings::default();
    if are_small {
        settings.hash_entries.set(2);
        settings.set_intset_entries.set(3);
        settings.set_entries.set(2);
        settings.sorted_set_entries.set(2);
        settings.list_size.store(3, std::sync::atomic::Ordering::Relaxed);
    }
    Limits::from(&settings)
}

fn restored(payload: &[u8]) -> Result<EntryBox, RestoreError> {
    let entry = restore(payload, b"key", None, &limits(false));
    let large = restore(payload, b"key", None, &limits(true));
    assert_eq!(entry.is_ok(), large.is_ok(), "thresholds do not decide what is sound");
    if let (Ok(entry), Ok(large)) = (&entry, &large) {
        assert_eq!(contents_of(entry), contents_of(large));
    }
    entry
}

/// A payload with a right seal around any content.
fn sealed(content: &[u8], version: u16) -> Vec<u8> {
    let mut payload = [content, &version.to_le_bytes()].concat();
    payload.extend_from_slice(&crc64(0, &payload).to_le_bytes());
    payload
}

pub(super) fn from_hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

/// Elements as they are written in the tables: members of lists and sets, scores, values and
/// deadlines behind `=` and `@`.
fn expected(kind: Kind, elements: &str) -> Contents {
    let element = |text: &str| {
        let (text, deadline) = text.split_once('@').unwrap_or((text, "-1"));
        let (member, value) = text.split_once('=').unwrap_or((text, ""));
        let member = member.replace('*', &"a".repeat(65)).into_bytes();
        let deadline = deadline.parse::<i64>().unwrap().to_le_bytes().to_vec();
        match kind {
            Kind::Set => vec![member, deadline],
            Kind::SortedSet => {
                let score = value.parse::<f64>().unwrap();
                vec![member, score.to_le_bytes().to_vec(), deadline]
            }
            Kind::Hash => vec![member, value.replace('*', &"v".repeat(65)).into(), deadline],
            _ => vec![member],
        }
    };
    elements.split(' ').map(element).collect()
}

/// Payloads as the servers gave them: Redis 7.0, Redis 8.2 (0c00 is its version) and Valkey 9.1
/// (5000).
pub(super) const PAYLOADS: &[(Kind, &str, &str, &str)] = &[
    (
        Kind::Hash,
        "listpack",
        "a=1 b=x",
        "10121200000004008161020101816202817802ff0a0078074c6bd9d7051f",
    ),
    (
        Kind::Hash,
        "hashtable",
        "a=* b=2",
        "04020162c0020161c3094041017676e034000176760a00f05ee802c2d87331",
    ),
    (
        Kind::Set,
        "intset",
        "1 3 70000",
        "0b1404000000030000000100000003000000701101000a00499340ed54ef4afa",
    ),
    (Kind::Set, "listpack", "1 a", "02020161c0010a00ce387e029ce13e72"),
    (Kind::Set, "hashtable", "1 *", "0202c3094041016161e03400016161c0010a00a6805815ae1071b1"),
    (
        Kind::SortedSet,
        "listpack",
        "a=1 b=1.5 c=inf",
        "111c1c0000000600816102010181620283312e350481630283696e6604ff0a002565dffdaadc1562",
    ),
    (
        Kind::SortedSet,
        "skiplist",
        "b=0.1 *=1",
        "0502c3094041016161e03400016161000000000000f03f01629a9999999999b93f0a00c862269e9858a5\
         d1",
    ),
    (
        Kind::List,
        "listpack",
        "a b c 1",
        "120102121200000004008161028162028163020101ff0a0057dea3d907b397aa",
    ),
    (Kind::Set, "listpack", "1 a", "140c0c00000002008161020101ff0c0042e9698050aecf88"),
    (
        Kind::Hash,
        "listpackex",
        "a=1@4102444800000 b=2@4102444800999 c=3",
        "1900d8c32cbb0300002c2c00000009008161020101f400d8c32cbb030000098162020201f4e7dbc32cbb\
         0300000981630203010001ff0c00e0fa668e4f672b1a",
    ),
    (
        Kind::Hash,
        "hashtable",
        "*=1 b=2@4102444800000",
        "1800d8c32cbb03000002010162c00200c3094041016161e03400016161c0010c00b3400ea403f5eb0a",
    ),
    (
        Kind::Hash,
        "listpackex",
        "a=1 b=2",
        "1900d8c32cbb030000151500000006008161020101000181620202010001ff0c004787eec927addad3",
    ),
    (Kind::Set, "hashtable", "1 *", "0202c3094041016161e03400016161c001500069aa918430421645"),
    (
        Kind::Hash,
        "listpackex",
        "a=1@4102444800000 b=2@4102444800999 c=3",
        "16030161c00100d8c32cbb0300000162c002e7dbc32cbb0300000163c003ffffffffffffffff5000be51\
         796214d15185",
    ),
    (
        Kind::Hash,
        "hashtable",
        "*=1 b=2@4102444800000",
        "1602c3094041016161e03400016161c001ffffffffffffffff0162c00200d8c32cbb0300005000f77229\
         01434a51e4",
    ),
];

#[test]
fn payloads_of_every_server_are_read() {
    for (kind, encoding, elements, hex) in PAYLOADS {
        let entry = restored(&from_hex(hex)).unwrap();
        assert_eq!(entry.borrow().kind(), *kind, "{hex}");
        assert_eq!(entry.borrow().encoding_name(), *encoding, "{hex}");
        let mut expected = expected(*kind, elements);
        if matches!(kind, Kind::Set | Kind::Hash) {
            expected.sort();
        }
        assert_eq!(contents_of(&entry), expected, "{hex}");
        assert_eq!(contents_of(&restored(&dump_of(&entry)).unwrap()), expected, "{hex}");
    }
}

#[test]
fn a_value_says_the_oldest_version_that_holds_it() {
    for (kind, encoding, elements, hex) in PAYLOADS {
        let entry = restored(&from_hex(hex)).unwrap();
        let payload = dump_of(&entry);
        let version = u16::from_le_bytes(*payload[..payload.len() - 8].last_chunk().unwrap());
        let expected = if elements.contains('@') { 12 } else { 10 };
        assert_eq!(version, expected, "{kind:?} {encoding} {elements}");
    }
}

#[test]
fn small_forms_are_carried_unchanged() {
    for (_, encoding, _, hex) in PAYLOADS {
        let payload = from_hex(hex);
        let is_of_7_0 = payload[payload.len() - 10] == 10;
        if is_of_7_0 && matches!(*encoding, "listpack" | "intset") {
            let entry = restored(&payload).unwrap();
            assert_eq!(dump_of(&entry), payload, "{hex}");
        }
    }
}

fn listpack_of(elements: &[&str]) -> Vec<u8> {
    let mut bytes = listpack::new();
    for element in elements {
        listpack::push_back(&mut bytes, Element::Bytes(element.as_bytes()));
    }
    bytes
}

/// A type's byte, what stands before the string, and the string.
fn with_string(byte: u8, before: &[u8], string: &[u8]) -> Vec<u8> {
    let mut content = Writer::new(false);
    content.extend(&[&[byte], before].concat());
    super::length::write_length(&mut content, string.len() as u64);
    content.extend(string);
    content.into_bytes()
}

/// What no server writes any more, or only we do: content and version.
pub(super) fn types_of_old() -> Vec<(Kind, &'static str, Vec<u8>, u16)> {
    let ziplist = b"\x15\0\0\0\x12\0\0\0\x04\0\0\x01a\x03\xf2\x02\x01b\x03\xf3\xff";
    let zipmap = b"\x01\x01a\x01\x00x\xff";
    let eight = 1_i64.to_le_bytes();
    let timed = listpack_of(&["a", "1", "5", "b", "2", "0"]);
    vec![
        (Kind::List, "x y", b"\x01\x02\x01x\x01y".to_vec(), 1),
        (Kind::List, "a 1 b 2", with_string(10, b"", ziplist), 6),
        (
            Kind::List,
            "a 1 b 2 a 1 b 2",
            {
                let twice = with_string(14, b"\x02", ziplist);
                [&twice[..], &twice[2..]].concat()
            },
            7,
        ),
        (Kind::Hash, "a=1 b=2", with_string(13, b"", ziplist), 6),
        (Kind::SortedSet, "a=1 b=2", with_string(12, b"", ziplist), 6),
        (Kind::Hash, "a=x", with_string(9, b"", zipmap), 1),
        (
            Kind::SortedSet,
            "b=-inf a=1.5 c=inf",
            b"\x03\x03\x01c\xfe\x01b\xff\x01a\x031.5".into(),
            1,
        ),
        (Kind::Hash, "a=1@5 b=2", with_string(23, b"", &timed), 12),
        (Kind::Hash, "a=1@5 b=2", b"\x16\x02\x05\x01a\x011\x00\x01b\x012".into(), 12),
        (
            Kind::Set,
            "a b@1",
            {
                let mut content = b"\x70\x02\x01a\xff\xff\xff\xff\xff\xff\xff\xff\x01b".to_vec();
                content.extend_from_slice(&eight);
                content
            },
            9000,
        ),
    ]
}

#[test]
fn types_of_old_are_read() {
    for (kind, elements, content, version) in types_of_old() {
        let entry = restored(&sealed(&content, version))
            .unwrap_or_else(|error| panic!("{error:?}: {kind:?} {elements} {content:02x?}"));
        assert_eq!(entry.borrow().kind(), kind);
        assert_eq!(contents_of(&entry), expected(kind, elements), "{content:02x?}");
    }
}

#[test]
fn hostile_containers_are_refused() {
    let pack = |byte, elements: &[&str]| with_string(byte, b"", &listpack_of(elements));
    let node = |elements: &[&str]| with_string(18, b"\x01\x02", &listpack_of(elements));
    let contents: &[Vec<u8>] = &[
        // Nothing in them.
        b"\x01\0".into(),
        b"\x02\0".into(),
        b"\x03\0".into(),
        b"\x04\0".into(),
        b"\x05\0".into(),
        b"\x12\0".into(),
        pack(16, &[]),
        pack(17, &[]),
        pack(20, &[]),
        node(&[]),
        with_string(11, b"", b"\x02\0\0\0\0\0\0\0"),
        with_string(9, b"", b"\0\xff"),
        with_string(10, b"", b"\x0b\0\0\0\x0a\0\0\0\0\0\xff"),
        // More claimed than there is.
        b"\x02\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a".into(),
        b"\x04\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a\x01b".into(),
        b"\x05\x80\x7f\xff\xff\xff\x01a".into(),
        b"\x12\x80\x7f\xff\xff\xff".into(),
        b"\x04\x01\x01a".into(),
        // The same twice.
        b"\x02\x02\x01a\x01a".into(),
        b"\x02\x02\xc0\x05\x015".into(),
        b"\x04\x02\x01a\x01x\x01a\x01y".into(),
        b"\x03\x02\x01a\x011\x01a\x012".into(),
        pack(16, &["a", "1", "a", "2"]),
        pack(20, &["a", "b", "a"]),
        pack(17, &["a", "1", "a", "2"]),
        pack(17, &["a", "1", "a", "1"]),
        with_string(11, b"", b"\x02\0\0\0\x02\0\0\0\x05\0\x05\0"),
        with_string(9, b"", b"\x02\x01a\x01\0x\x01a\x01\0y\xff"),
        // One too few, or too many.
        pack(16, &["a"]),
        pack(17, &["a", "1", "b"]),
        pack(23, &["a", "1"]),
        b"\x02\x01\x01aX".into(),
        // No scores, and out of order.
        pack(17, &["a", "nan"]),
        pack(17, &["a", "x"]),
        pack(17, &["a", "2", "b", "1"]),
        pack(17, &["b", "1", "a", "1"]),
        b"\x03\x01\x01a\xfd".into(),
        b"\x03\x01\x01a\x01x".into(),
        b"\x05\x01\x01a\0\0\0\0\0\0\xf8\x7f".into(),
        b"\x03\x01\x01a\x03nan".into(),
        with_string(11, b"", b"\x02\0\0\0\x02\0\0\0\x05\0\x04\0"),
        with_string(11, b"", b"\x03\0\0\0\x01\0\0\0\x05\0\0"),
        // Deadlines that no field can have.
        pack(23, &["a", "1", "x"]),
        pack(23, &["a", "1", "-1"]),
        pack(23, &["a", "1", "281474976710656"]),
        pack(23, &["a", "1", "6", "b", "1", "5"]),
        pack(23, &["a", "1", "0", "b", "1", "5"]),
        b"\x16\x01\x81\0\x01\0\0\0\0\0\0\x01a\x011".into(),
        b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02\x01a\x011".into(),
        // Nodes of no kind, types of none.
        b"\x12\x01\x03\x01a".into(),
        b"\x06\0".into(),
        b"\x08\x01\x01a".into(),
        b"\x1e\0".into(),
    ];
    for content in contents {
        let result = restored(&sealed(content, 12)).map(|entry| contents_of(&entry));
        assert_eq!(result, Err(RestoreError::Content), "{content:02x?}");
    }
}

#[test]
fn hostile_hashes_of_valkey_are_refused() {
    let contents: &[&[u8]] = &[
        b"\x16\x01\x01a\x011\xfe\xff\xff\xff\xff\xff\xff\xff",
        b"\x16\x01\x01a\x011\0\0",
        b"\x16\0",
    ];
    for content in contents {
        let result = restored(&sealed(content, 80)).map(|entry| contents_of(&entry));
        assert_eq!(result, Err(RestoreError::Content), "{content:02x?}");
    }
}

/// Valkey knows no latest time; ours is told with 48 bits.
#[test]
fn a_field_of_valkey_that_expires_later_than_any_of_ours_expires_as_late_as_can_be_told() {
    let restore = |deadline: &[u8; 8]| {
        let content = [&b"\x16\x01\x01a\x011"[..], deadline].concat();
        restored(&sealed(&content, 80)).map(|entry| contents_of(&entry)).expect("a hash")
    };
    let latest = restore(b"\xff\xff\xff\xff\xff\xff\0\0");
    assert_eq!(restore(b"\0\0\0\0\0\0\x01\0"), latest);
    assert_eq!(restore(b"\xff\xff\xff\xff\xff\xff\xff\x7f"), latest);
}

/// Whatever is restored comes back from its own payload.
fn check_any(content: &[u8], version: u16) {
    if let Ok(entry) = restored(&sealed(content, version)) {
        let again = restored(&dump_of(&entry)).expect("its own payload");
        assert_eq!(contents_of(&again), contents_of(&entry));
    }
}

#[test]
fn a_change_anywhere_gives_a_whole_value_or_none() {
    for (.., hex) in PAYLOADS {
        let payload = from_hex(hex);
        let (content, seal) = payload.split_at(payload.len() - 10);
        let version = u16::from_le_bytes([seal[0], seal[1]]);
        for at in 0..content.len() {
            // Every part is needed, so a value that is cut short is none.
            assert!(restored(&sealed(&content[..at], version)).is_err(), "{hex} cut at {at}");
            for bit in 0..8 {
                let mut changed = content.to_vec();
                changed[at] ^= 1 << bit;
                check_any(&changed, version);
            }
        }
    }
}

/// Members that are integers, short or long.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => any::<i8>().prop_map(|number| number.to_string().into_bytes()),
        2 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        4 => prop::collection::vec(any::<u8>(), 0..20),
        1 => (any::<u8>(), 0..20_000_usize).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn counts() -> impl Strategy<Value = std::ops::Range<usize>> {
    prop_oneof![3 => Just(1..4_usize), 3 => Just(1..20), 1 => Just(300..600)]
}

fn entry_of<C: Container>(container: C) -> EntryBox {
    EntryBox::container(b"key", C::KIND, container.store().expect("elements"), None)
}

/// The value has these elements, and still has them after a journey.
fn check_journey(entry: &EntryBox, mut elements: Contents) -> Result<(), TestCaseError> {
    if !contents::is_ordered(&ValueRef::of(entry.borrow())) {
        elements.sort();
    }
    prop_assert_eq!(&contents_of(entry), &elements);
    let payload = dump_of(entry);
    let there = restored(&payload).expect("its own payload");
    prop_assert_eq!(there.borrow().kind(), entry.borrow().kind());
    prop_assert_eq!(&contents_of(&there), &elements);
    // Redis 6.2 reads the types up to that of its streams.
    let older = dump_within(entry.borrow(), true, REDIS_6_2);
    let is_new = ValueRef::of(entry.borrow()).value_type().version() > REDIS_7_0;
    prop_assert!(is_new || older[0] <= ValueType::StreamRedis5.byte());
    prop_assert!(is_new || version_of(&older) == Some(REDIS_6_2));
    prop_assert_eq!(contents_of(&restored(&older).expect("its own payload")), elements);
    for cut in (0..payload.len() - 10).rev().step_by(payload.len() / 4 + 1) {
        prop_assert!(restored(&sealed(&payload[..cut], 9000)).is_err(), "cut at {cut}");
    }
    Ok(())
}

const NO_DEADLINE: i64 = -1;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_list_comes_back(
        texts in counts().prop_flat_map(|count| prop::collection::vec(texts(), count)),
        size in -5..200_i64,
    ) {
        let limits = ListLimits::new(size);
        let mut list = List::default();
        for text in &texts {
            list.expect(1, text.len(), &limits);
            list.push(Side::Right, [Text::Bytes(text)]);
        }
        check_journey(&entry_of(list), texts.into_iter().map(|text| vec![text]).collect())?;
    }

    #[test]
    fn a_set_comes_back(
        texts in counts().prop_flat_map(|count| prop::collection::btree_map(
            texts(), prop::option::weighted(0.1, 0..1_i64 << 48), count)),
        is_timed: bool,
        entries in 0..600_u64,
    ) {
        let limits =
            SetLimits {
                intset_entries: entries,
                listpack_entries: entries,
                listpack_value_bytes: 64,
            };
        let (mut set, mut expected) = (Set::default(), Contents::new());
        for (text, deadline) in texts {
            let deadline = deadline.filter(|_| is_timed);
            match deadline {
                Some(deadline) => set.insert_until(Text::Bytes(&text), deadline),
                None => set.insert(Text::Bytes(&text), &limits),
            };
            expected.push(vec![text, deadline.unwrap_or(NO_DEADLINE).to_le_bytes().to_vec()]);
        }
        check_journey(&entry_of(set), expected)?;
    }

    #[test]
    fn a_sorted_set_comes_back(
        items in counts().prop_flat_map(|count| prop::collection::btree_map(
            texts(), (scores(), prop::option::weighted(0.1, 0..1_i64 << 48)), count)),
        is_timed: bool,
        entries in 0..600_u64,
    ) {
        let limits = SortedSetLimits { entries, value_bytes: 64 };
        let (mut set, mut expected) = (SortedSet::default(), Vec::new());
        for (text, (score, deadline)) in items {
            let deadline = deadline.filter(|_| is_timed);
            set.insert(Text::Bytes(&text), score, &limits);
            if deadline.is_some() {
                set.set_deadline(&text, deadline);
            }
            expected.push((score + 0.0, text, deadline.unwrap_or(NO_DEADLINE)));
        }
        expected.sort_by(|this, that| this.partial_cmp(that).expect("no NaN"));
        let element = |(score, text, deadline): (f64, Vec<u8>, i64)| {
            vec![text, score.to_le_bytes().to_vec(), deadline.to_le_bytes().to_vec()]
        };
        check_journey(&entry_of(set), expected.into_iter().map(element).collect())?;
    }

    #[test]
    fn a_hash_comes_back(
        fields in counts().prop_flat_map(|count| prop::collection::btree_map(
            texts(), (texts(), prop::option::weighted(0.3, 1..1_i64 << 48)), count)),
        is_timed: bool,
        entries in 0..600_u64,
    ) {
        let limits = HashLimits { entries, value_bytes: 64 };
        let (mut hash, mut expected) = (Hash::default(), Contents::new());
        for (field, (value, deadline)) in fields {
            let deadline = deadline.filter(|_| is_timed);
            let lifetime = deadline.map_or(Lifetime::Endless, Lifetime::Until);
            hash.set(Text::Bytes(&field), Text::Bytes(&value), lifetime, &limits);
            let deadline = deadline.unwrap_or(NO_DEADLINE).to_le_bytes().to_vec();
            expected.push(vec![field, value, deadline]);
        }
        check_journey(&entry_of(hash), expected)?;
    }
}

proptest! {
    #[test]
    fn any_content_is_a_value_or_refused(
        byte in 0..30_u8,
        content in prop::collection::vec(prop_oneof![any::<u8>(), 0..4_u8], 0..60),
    ) {
        for version in [12, 80] {
            check_any(&[&[byte], &content[..]].concat(), version);
        }
    }

    #[test]
    fn a_changed_value_is_whole_or_refused(
        which in 0..PAYLOADS.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut content = from_hex(PAYLOADS[which].3);
        let version = u16::from_le_bytes(*content[..content.len() - 8].last_chunk().unwrap());
        content.truncate(content.len() - 10);
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        check_any(&content, version);
    }
}

fn scores() -> impl Strategy<Value = f64> {
    prop_oneof![
        (-3..3_i8).prop_map(f64::from),
        any::<f64>().prop_filter("no score is NaN", |score| !score.is_nan()),
        Just(f64::INFINITY),
        Just(-0.0),
    ]
}
