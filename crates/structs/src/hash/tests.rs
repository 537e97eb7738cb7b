//! Both forms against a map; the rules by which a hash changes its form and orders its fields,
//! as Redis 8.2 showed them.

use std::collections::BTreeMap;

use base::{Random, UnixMillis};
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};

use super::{Hash, HashLimits, HashRef};
use crate::listpack::Element;
use crate::members::{Lifetime, Text};
use crate::packing::{PACKED_MAX, Packed, Packing};

type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<UnixMillis>)>;

const LIMITS: HashLimits = HashLimits { entries: 512, value_bytes: 64 };
const NO_LIMITS: HashLimits = HashLimits { entries: u64::MAX, value_bytes: usize::MAX };

fn set(hash: &mut Hash, field: &str, value: &str, lifetime: Lifetime) -> bool {
    let (field, value) = (Text::Bytes(field.as_bytes()), Text::Bytes(value.as_bytes()));
    hash.set(field, value, lifetime, &LIMITS)
}

fn fields(hash: &Hash) -> String {
    let fields =
        hash.borrow().iter().map(|field| String::from_utf8(field.member.to_vec()).unwrap());
    fields.collect::<Vec<_>>().join(" ")
}

/// A hash of these fields, all with the value 1.
fn of(names: &str) -> Hash {
    let mut hash = Hash::default();
    names.split(' ').for_each(|name| assert!(set(&mut hash, name, "1", Lifetime::Endless)));
    hash
}

#[derive(Clone, Debug)]
enum Step {
    Set { id: u8, value: u32, lifetime: Lifetime },
    SetLong { id: u8, len: usize },
    Remove(u8),
    SetDeadline(u8, Option<UnixMillis>),
    TakeExpired { now: UnixMillis, limit: usize },
    TakeAt(u64),
    Clone,
}

fn step() -> impl Strategy<Value = Step> {
    let lifetime = prop_oneof![
        Just(Lifetime::Keep),
        Just(Lifetime::Endless),
        (1..50_i64).prop_map(Lifetime::Until),
    ];
    prop_oneof![
        10 => (any::<u8>(), any::<u32>(), lifetime)
            .prop_map(|(id, value, lifetime)| Step::Set { id, value, lifetime }),
        1 => (any::<u8>(), prop_oneof![0..70_usize, 5_000..70_000_usize])
            .prop_map(|(id, len)| Step::SetLong { id, len }),
        4 => any::<u8>().prop_map(Step::Remove),
        4 => (any::<u8>(), prop::option::of(1..50_i64))
            .prop_map(|(id, deadline)| Step::SetDeadline(id, deadline)),
        1 => (0..50_i64, 0..20_usize)
            .prop_map(|(now, limit)| Step::TakeExpired { now, limit }),
        1 => any::<u64>().prop_map(Step::TakeAt),
        1 => Just(Step::Clone),
    ]
}

fn put(hash: &mut Hash, model: &mut Model, new: (&[u8], &[u8], Lifetime), limits: &HashLimits) {
    let (field, value, lifetime) = new;
    let old = model.get(field).cloned();
    let fresh = hash.set(Text::Bytes(field), Text::Bytes(value), lifetime, limits);
    assert_eq!(fresh, old.is_none());
    let deadline = match lifetime {
        Lifetime::Keep => old.and_then(|(_, deadline)| deadline),
        Lifetime::Endless => None,
        Lifetime::Until(deadline) => Some(deadline),
    };
    model.insert(field.to_vec(), (value.to_vec(), deadline));
}

fn apply(hash: &mut Hash, model: &mut Model, step: &Step, limits: &HashLimits) {
    // Some names are integers and some are not.
    let name = |id: u8| if id.is_multiple_of(2) { id.to_string() } else { format!("field {id}") };
    match *step {
        Step::Set { id, value, lifetime } => {
            let (field, value) = (name(id), value.to_string());
            put(hash, model, (field.as_bytes(), value.as_bytes(), lifetime), limits);
        }
        Step::SetLong { id, len } => {
            let new = (name(id), vec![b'v'; len]);
            put(hash, model, (new.0.as_bytes(), &new.1, Lifetime::Keep), limits);
        }
        Step::Remove(id) => {
            let field = name(id).into_bytes();
            assert_eq!(hash.remove(&field), model.remove(&field).is_some());
        }
        Step::SetDeadline(id, deadline) => {
            let field = name(id).into_bytes();
            let known = model.get_mut(&field).map(|(_, old)| *old = deadline);
            assert_eq!(hash.set_deadline(&field, deadline), known.is_some());
        }
        Step::TakeExpired { now, limit } => {
            let passed = |deadline: Option<UnixMillis>| deadline.is_some_and(|at| at <= now);
            let all = model.values().filter(|(_, deadline)| passed(*deadline)).count();
            let taken = hash.take_expired(now, limit);
            assert_eq!(taken.len(), all.min(limit));
            assert!(taken.iter().all(|field| passed(model.remove(field).unwrap().1)));
        }
        Step::TakeAt(number) => {
            if let Some(field) = hash.take_at(number % (model.len() as u64 + 1)) {
                assert!(model.remove(&field).is_some());
            }
        }
        Step::Clone => {}
    }
}

fn check(hash: HashRef<'_>, model: &Model) {
    let all: Vec<_> = hash.iter().collect();
    assert_eq!(hash.len(), all.len() as u64);
    let read =
        all.iter().map(|field| (field.member.to_vec(), (field.value.to_vec(), field.deadline)));
    assert!(read.collect::<Model>() == *model);
    assert_eq!(all.len(), model.len());
    for (number, field) in (0..).zip(&all) {
        assert_eq!(hash.at(number).as_ref(), Some(field));
        assert_eq!(hash.get(&field.member.to_vec()).as_ref(), Some(field));
    }
    assert_eq!(hash.at(all.len() as u64), None);
    assert_eq!(hash.earliest_deadline(), model.values().filter_map(|(_, at)| *at).min());
    let (mut cursor, mut told) = (0, 0);
    loop {
        let (next, page) = hash.scan(cursor, 7);
        told += page.len();
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(told, all.len());
    if let HashRef::Packed(packed) = hash {
        assert!(packed.bytes.len() <= PACKED_MAX);
        assert_eq!(crate::listpack::validate(packed.bytes), Ok(()));
        let order = |at: Option<UnixMillis>| at.unwrap_or(UnixMillis::MAX);
        assert!(all.is_sorted_by_key(|field| order(field.deadline)));
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config {
        cases: 32, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn both_forms_match_the_model(
        steps in prop::collection::vec(step(), 1..150),
        entries in prop_oneof![Just(0_u64), Just(8), Just(1000)],
        value_bytes in prop_oneof![Just(8_usize), Just(64), Just(usize::MAX)],
    ) {
        let limits = HashLimits { entries, value_bytes };
        let (mut hash, mut model) = (Hash::default(), Model::new());
        let mut clones = Vec::new();
        for step in &steps {
            apply(&mut hash, &mut model, step, &limits);
            check(hash.borrow(), &model);
            if matches!(step, Step::Clone) {
                clones.push((hash.clone(), model.clone()));
            }
        }
        clones.iter().for_each(|(hash, model)| check(hash.borrow(), model));
    }
}

#[test]
fn fields_are_ordered_by_deadline_and_the_latest_given_comes_first() {
    let mut hash = of("a b c d e");
    assert_eq!((fields(&hash).as_str(), hash.borrow().encoding()), ("a b c d e", "listpack"));
    let until = |hash: &mut Hash, field: &str, at| hash.set_deadline(field.as_bytes(), at);
    until(&mut hash, "c", Some(1000));
    assert_eq!((fields(&hash).as_str(), hash.borrow().encoding()), ("c a b d e", "listpackex"));
    until(&mut hash, "e", Some(500));
    assert_eq!(fields(&hash), "e c a b d");
    until(&mut hash, "a", Some(9000));
    until(&mut hash, "b", Some(9000));
    assert_eq!(fields(&hash), "e c b a d");
    until(&mut hash, "a", Some(9000));
    assert_eq!(fields(&hash), "e c a b d");
    set(&mut hash, "new", "1", Lifetime::Endless);
    set(&mut hash, "c", "9", Lifetime::Endless);
    assert_eq!(fields(&hash), "e a b d new c");
    until(&mut hash, "a", None);
    assert_eq!(fields(&hash), "e b d new c a");
    set(&mut hash, "e", "7", Lifetime::Keep);
    set(&mut hash, "d", "12", Lifetime::Endless);
    until(&mut hash, "new", None);
    assert_eq!(fields(&hash), "e b d new c a");
    set(&mut hash, "x", "1", Lifetime::Until(9000));
    assert_eq!(fields(&hash), "e x b d new c a");
    until(&mut hash, "absent", Some(5));
    ["e", "x", "b"].iter().for_each(|field| assert!(until(&mut hash, field, None)));
    assert_eq!(hash.borrow().encoding(), "listpackex");
    assert_eq!(hash.borrow().earliest_deadline(), None);
}

#[test]
fn a_deadline_for_an_absent_field_changes_nothing() {
    let mut hash = of("a b");
    assert!(!hash.set_deadline(b"absent", Some(5)));
    assert_eq!(hash.borrow().encoding(), "listpack");
}

#[test]
fn a_hash_outgrows_the_limits_as_in_redis() {
    let encoding = |limits: &HashLimits, pairs: &[(&str, &str)]| {
        let mut hash = Hash::default();
        hash.expect(pairs.len() as u64, limits);
        for (field, value) in pairs {
            let (field, value) = (Text::Bytes(field.as_bytes()), Text::Bytes(value.as_bytes()));
            hash.set(field, value, Lifetime::Endless, limits);
        }
        hash.borrow().encoding()
    };
    let three = HashLimits { entries: 3, value_bytes: 3 };
    assert_eq!(encoding(&three, &[("a", "1"), ("b", "2"), ("c", "3")]), "listpack");
    assert_eq!(encoding(&three, &[("a", "1"), ("a", "2"), ("a", "3"), ("a", "4")]), "hashtable");
    assert_eq!(encoding(&three, &[("a", "123")]), "listpack");
    assert_eq!(encoding(&three, &[("a", "1234")]), "hashtable");
    assert_eq!(encoding(&three, &[("abcd", "1")]), "hashtable");
    let mut hash = of("a b c");
    set(&mut hash, "d", "1", Lifetime::Endless);
    hash.set(Text::Bytes(b"e"), Text::Integer(1), Lifetime::Keep, &three);
    assert_eq!(hash.borrow().encoding(), "hashtable");
    assert!(hash.remove(b"a") && hash.remove(b"b") && hash.borrow().encoding() == "hashtable");
}

#[test]
fn a_hash_that_is_only_too_long_goes_on_under_the_name_of_the_small_form() {
    let mut hash = Hash::default();
    let value = vec![b'v'; 1000];
    for number in 0..100_i64 {
        hash.set(Text::Integer(number), Text::Bytes(&value), Lifetime::Keep, &NO_LIMITS);
    }
    assert!(matches!(hash.borrow(), HashRef::Large(_)));
    assert_eq!(hash.borrow().encoding(), "listpack");
    assert!(hash.set_deadline(b"7", Some(5)));
    assert_eq!(hash.borrow().encoding(), "listpackex");
    assert_eq!(hash.borrow().get(b"7").unwrap().value, Text::Bytes(&value));
    let limits = HashLimits { entries: 100, ..NO_LIMITS };
    hash.set(Text::Integer(0), Text::Integer(0), Lifetime::Keep, &limits);
    assert_eq!(hash.borrow().encoding(), "listpackex");
    hash.set(Text::Integer(100), Text::Integer(0), Lifetime::Keep, &limits);
    assert_eq!(hash.borrow().encoding(), "hashtable");
}

#[test]
fn room_for_deadlines_may_make_a_hash_large() {
    let (mut hash, value) = (Hash::default(), [b'v'; 200]);
    while let HashRef::Packed(packed) = hash.borrow() {
        if packed.bytes.len() + 300 > PACKED_MAX {
            break;
        }
        let field = Text::Integer(hash.borrow().len() as i64);
        hash.set(field, Text::Bytes(&value), Lifetime::Keep, &NO_LIMITS);
    }
    assert!(matches!(hash.borrow(), HashRef::Packed(_)));
    let len = hash.borrow().len();
    assert!(hash.set_deadline(b"0", Some(5)));
    assert!(matches!(hash.borrow(), HashRef::Large(_)));
    assert_eq!((hash.borrow().len(), hash.borrow().encoding()), (len, "listpackex"));
    assert_eq!(hash.take_expired(5, 10), [b"0"]);
}

#[test]
fn integers_are_read_as_the_listpack_keeps_them() {
    let hash = of("a 17");
    let field = hash.borrow().get(b"17").unwrap();
    assert!(matches!((field.member, field.value), (Text::Integer(17), Text::Integer(1))));
    assert!(hash.borrow().random(&mut Random::from_seed(1)).is_some());
    assert_eq!(hash.borrow().get(b"017"), None);
}

#[test]
fn a_hash_from_elsewhere_is_brought_into_its_form() {
    let long = |count: i64, value: &[u8]| {
        let mut bytes = crate::listpack::new();
        for number in 0..count {
            crate::listpack::push_back(&mut bytes, Element::Integer(number));
            crate::listpack::push_back(&mut bytes, Element::Bytes(value));
        }
        let mut hash = Hash::Packed(Packed { packing: Packing::Listpack, bytes });
        hash.fit(&HashLimits { entries: 100, value_bytes: 1 });
        (matches!(hash, Hash::Large(_)), hash.borrow().encoding(), hash.borrow().len())
    };
    assert_eq!(long(100, b"value"), (false, "listpack", 100));
    assert_eq!(long(101, b"value"), (true, "hashtable", 101));
    assert_eq!(long(100, &[b'v'; 800]), (true, "listpack", 100));
}
