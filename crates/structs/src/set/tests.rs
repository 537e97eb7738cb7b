//! All forms against a set of std; the algebra against std's; and the rules by which a set changes
//! its form, as Redis 8.2 showed them.

use std::collections::{BTreeMap, BTreeSet};

use base::{Random, UnixMillis};
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};

use super::{LargeSet, Set, SetLimits, SetRef, difference, grown_union, intersection, union};
use crate::members::{Builder, MemberRef, Text};
use crate::packing::{PACKED_MAX, Packed, Packing};

type Model = BTreeMap<Vec<u8>, Option<UnixMillis>>;

const LIMITS: SetLimits =
    SetLimits { intset_entries: 512, listpack_entries: 128, listpack_value_bytes: 64 };

const NO_LIMITS: SetLimits = SetLimits {
    intset_entries: u64::MAX,
    listpack_entries: u64::MAX,
    listpack_value_bytes: usize::MAX,
};

/// A set as SADD makes it of these members.
fn add(names: &str, limits: &SetLimits) -> Set {
    let names: Vec<&str> = names.split(' ').collect();
    let mut set = Set::for_members(names[0].as_bytes(), names.len() as u64, limits);
    add_to(&mut set, &names.join(" "), limits);
    set
}

fn add_to(set: &mut Set, names: &str, limits: &SetLimits) {
    set.expect(names.split(' ').count() as u64, limits);
    for name in names.split(' ') {
        set.insert(Text::Bytes(name.as_bytes()), limits);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>),
    InsertUntil(Vec<u8>, UnixMillis),
    Remove(Vec<u8>),
    SetDeadline(Vec<u8>, Option<UnixMillis>),
    TakeExpired(UnixMillis),
    Pop(u64),
    Clone,
}

fn member(with_text: bool) -> impl Strategy<Value = Vec<u8>> {
    let integer = prop_oneof![10 => 0..300_i64, 1 => any::<i64>()];
    let text = prop_oneof![
        10 => (0..200_u32).prop_map(|number| format!("m{number}").into_bytes()),
        1 => (0..4_usize).prop_map(|times| vec![b'l'; times * 3_000]),
    ];
    (integer, text, 0..10).prop_map(move |(integer, text, choice)| {
        if with_text && choice > 5 { text } else { integer.to_string().into_bytes() }
    })
}

fn timed_members() -> impl Strategy<Value = Vec<(Vec<u8>, Option<UnixMillis>)>> {
    prop::collection::vec((member(true), prop::option::of(1..20_i64)), 0..60)
}

/// Deadlines, which only the large form has, are rare: most runs are without.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    (any::<bool>(), any::<bool>()).prop_flat_map(|(with_text, with_deadlines)| {
        let member = move || member(with_text);
        let step = prop_oneof![
            20 => member().prop_map(Step::Insert),
            6 => member().prop_map(Step::Remove),
            1 => any::<u64>().prop_map(Step::Pop),
            1 => Just(Step::Clone),
            2 => (member(), 1..50_i64, prop::option::of(1..50_i64), 0..3)
                .prop_map(move |(member, until, at, choice)| match choice {
                    _ if !with_deadlines => Step::Insert(member),
                    0 => Step::InsertUntil(member, until),
                    1 => Step::SetDeadline(member, at),
                    _ => Step::TakeExpired(until),
                }),
        ];
        prop::collection::vec(step, 1..200)
    })
}

fn apply(set: &mut Set, model: &mut Model, step: &Step, limits: &SetLimits) {
    match step {
        Step::Insert(member) => {
            let new = set.insert(Text::Bytes(member), limits);
            assert_eq!(new, !model.contains_key(member));
            model.entry(member.clone()).or_default();
        }
        Step::InsertUntil(member, deadline) => {
            let new = set.insert_until(Text::Bytes(member), *deadline);
            assert_eq!(new, model.insert(member.clone(), Some(*deadline)).is_none());
        }
        Step::Remove(member) => {
            assert_eq!(set.remove(Text::Bytes(member)), model.remove(member).is_some());
        }
        Step::SetDeadline(member, deadline) => {
            let known = model.get_mut(member).map(|old| *old = *deadline);
            assert_eq!(set.set_deadline(member, *deadline), known.is_some());
        }
        Step::TakeExpired(now) => {
            let passed = |deadline: &Option<UnixMillis>| deadline.is_some_and(|at| at <= *now);
            let all = model.values().filter(|deadline| passed(deadline)).count();
            let taken = set.take_expired(*now, 5);
            assert_eq!(taken.len(), all.min(5));
            assert!(taken.iter().all(|member| passed(&model.remove(member).unwrap())));
        }
        Step::Pop(seed) => {
            let popped = set.pop(&mut Random::from_seed(*seed));
            assert_eq!(popped.is_none(), model.is_empty());
            assert!(popped.is_none_or(|member| model.remove(&member).is_some()));
        }
        Step::Clone => {}
    }
}

fn check(set: SetRef<'_>, model: &Model) {
    let all: Vec<_> = set.iter().collect();
    assert_eq!((set.len(), all.len()), (all.len() as u64, model.len()));
    let read = all.iter().map(|member| (member.member.to_vec(), member.deadline));
    assert!(read.collect::<Model>() == *model);
    for (number, member) in (0..).zip(&all) {
        assert_eq!(set.at(number).as_ref(), Some(member));
        assert_eq!(set.get(member.member).as_ref(), Some(member));
        assert!(set.contains(member.member));
    }
    assert_eq!(set.at(all.len() as u64), None);
    assert_eq!(set.earliest_deadline(), model.values().filter_map(|at| *at).min());
    if let SetRef::Packed(packed) = set {
        assert!(packed.bytes.len() <= PACKED_MAX);
        match packed.packing {
            // Its integers keep the width of the widest that ever was among them.
            Packing::Intset if model.is_empty() => assert_eq!(packed.bytes.len(), 8),
            Packing::Intset => assert_eq!(crate::intset::validate(packed.bytes), Ok(())),
            _ => assert_eq!(crate::listpack::validate(packed.bytes), Ok(())),
        }
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config {
        cases: 32, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn all_forms_match_the_model(
        steps in steps(),
        limits in prop_oneof![Just(LIMITS), Just(NO_LIMITS), Just(SetLimits {
            intset_entries: 4, listpack_entries: 9, listpack_value_bytes: 3,
        })],
    ) {
        let (mut set, mut model) = (Set::default(), Model::new());
        let mut clones = Vec::new();
        for step in &steps {
            apply(&mut set, &mut model, step, &limits);
            check(set.borrow(), &model);
            if matches!(step, Step::Clone) {
                clones.push((set.clone(), model.clone()));
            }
        }
        clones.iter().for_each(|(set, model)| check(set.borrow(), model));
    }

    #[test]
    fn the_algebra_is_that_of_sets(
        inputs in prop::collection::vec((timed_members(), any::<bool>()), 1..5),
    ) {
        let now = 10;
        let (mut sets, mut models) = (Vec::new(), Vec::new());
        for (members, timed) in &inputs {
            let (mut set, mut model) = (Set::default(), Model::new());
            for (member, deadline) in members {
                match deadline.filter(|_| *timed) {
                    Some(at) => set.insert_until(Text::Bytes(member), at),
                    None => set.insert(Text::Bytes(member), &LIMITS),
                };
                let deadline = deadline.filter(|_| *timed);
                let old = model.get(member).copied().flatten();
                model.insert(member.clone(), deadline.or(old));
            }
            model.retain(|_, deadline| deadline.is_none_or(|at| at > now));
            sets.push(set);
            models.push(BTreeSet::from_iter(model.into_keys()));
        }
        let refs: Vec<SetRef<'_>> = sets.iter().map(Set::borrow).collect();
        let collect = |members: Vec<Text<'_>>| {
            let set = BTreeSet::from_iter(members.iter().map(|member| member.to_vec()));
            assert_eq!(set.len(), members.len(), "each comes once");
            set
        };
        let meet = models.iter().skip(1).fold(models[0].clone(), |meet, model| &meet & model);
        assert_eq!(collect(intersection(refs.clone(), now).collect()), meet);
        let join = models.iter().fold(BTreeSet::new(), |join, model| &join | model);
        assert_eq!(collect(union(refs.clone(), now).collect()), join);
        if let Some(grown) = grown_union(&refs, now) {
            assert!(grown.borrow().iter().all(|member| member.deadline.is_none()));
            let members = grown.borrow().iter().map(|member| member.member);
            assert_eq!(collect(members.collect()), join);
        }
        let rest = models.iter().skip(1).fold(models[0].clone(), |rest, model| &rest - model);
        assert_eq!(collect(difference(refs[0], refs[1..].to_vec(), now).collect()), rest);
    }
}

#[test]
fn a_union_grows_from_the_largest_set_and_leaves_that_as_it_is() {
    let members_of = |numbers: std::ops::Range<u32>| {
        let mut builder = Builder::new();
        let texts: Vec<String> = numbers.map(|number| format!("m:{number}")).collect();
        texts.iter().for_each(|it| builder.push(MemberRef::plain(Text::Bytes(it.as_bytes()))));
        Set::Large(LargeSet::new(builder.finish()))
    };
    let (small, large, mut few) = (members_of(0..1000), members_of(900..3000), Set::default());
    few.insert(Text::Integer(7), &LIMITS);
    let sets = [small.borrow(), large.borrow(), few.borrow()];
    let grown = grown_union(&sets, 0).expect("the largest has no deadlines");
    assert_eq!(grown.borrow().len(), 3001);
    assert!(sets.iter().flat_map(|set| set.alive(0)).all(|it| grown.borrow().contains(it)));
    assert_eq!(large.borrow().len(), 2100);
    assert!(grown_union(&[few.borrow()], 0).is_none(), "the largest is a small one");
}

#[test]
fn what_is_popped_of_a_large_set_and_what_stays_are_all_of_it() {
    for count in [1, 400, 501, 999, 1000, 2000] {
        let mut set = Set::Large(LargeSet::default());
        for number in 0..1000_u32 {
            set.insert_until(Text::Bytes(&number.to_be_bytes()), 5 + i64::from(number % 7));
        }
        let whole = set.clone();
        let popped = set.pop_many(count, &mut Random::from_seed(count));
        assert_eq!(popped.len() as u64, count.min(1000));
        assert_eq!(popped.len() as u64 + set.borrow().len(), 1000);
        assert!(popped.iter().all(|it| !set.borrow().contains(Text::Bytes(it))));
        for member in set.borrow() {
            assert_eq!(whole.borrow().get(member.member), Some(member));
        }
    }
}

#[test]
fn integers_make_the_intset_that_they_make_one_by_one() {
    for values in [vec![], vec![5], vec![3, -1, 2], vec![1 << 40, -70_000, 9], vec![i64::MIN, 0]] {
        let mut grown = Set::default();
        values.iter().for_each(|value| _ = grown.insert(Text::Integer(*value), &LIMITS));
        let made = Set::of_integers(&mut values.clone()).expect("they are few");
        let bytes = |set: &Set| match set {
            Set::Packed(packed) => (packed.packing, packed.bytes.clone()),
            Set::Large(_) => unreachable!("they are few"),
        };
        assert_eq!(bytes(&made), bytes(&grown), "{values:?}");
    }
    assert!(Set::of_integers(&mut (0..1 << 20).collect::<Vec<_>>()).is_none());
}

#[test]
fn the_algebra_of_no_sets_is_empty() {
    assert_eq!(intersection(vec![], 0).count() + union(vec![], 0).count(), 0);
}

#[test]
fn a_set_changes_its_form_as_in_redis() {
    let limits = |intset_entries, listpack_entries, listpack_value_bytes| SetLimits {
        intset_entries,
        listpack_entries,
        listpack_value_bytes,
    };
    let three = limits(3, 3, 64);
    for (names, limits, expected) in [
        ("1 2 3", LIMITS, "intset"),
        ("1 2 3 a", LIMITS, "listpack"),
        ("a 1", LIMITS, "listpack"),
        ("1 1 1 1", three, "hashtable"),
        ("1 1 1 1", limits(3, 128, 64), "listpack"),
        ("1", limits(0, 128, 64), "listpack"),
        ("1", limits(0, 0, 64), "hashtable"),
        ("a a a a", limits(512, 3, 64), "hashtable"),
        ("1 a 2 3 4 5 6", limits(512, 3, 64), "hashtable"),
        ("12345 a", limits(512, 128, 3), "hashtable"),
        ("12345", limits(512, 128, 3), "intset"),
        ("abc 123", limits(512, 128, 3), "listpack"),
        ("abc 1234", limits(512, 128, 3), "hashtable"),
        ("abcd", limits(512, 128, 3), "hashtable"),
    ] {
        assert_eq!(add(names, &limits).borrow().encoding(), expected, "{names} {limits:?}");
    }
    for (names, more, limits, expected) in [
        ("1", "1 1 1 1", limits(3, 128, 64), "hashtable"),
        ("1 2 3", "4", limits(3, 128, 64), "hashtable"),
        ("a", "a a a a", three, "hashtable"),
        ("a b c", "d", three, "hashtable"),
        ("1 2", "a", limits(512, 3, 64), "listpack"),
        ("1 2 3", "a", limits(512, 3, 64), "hashtable"),
        ("-1234", "a", limits(512, 128, 4), "hashtable"),
    ] {
        let mut set = add(names, &limits);
        add_to(&mut set, more, &limits);
        assert_eq!(set.borrow().encoding(), expected, "{names}, {more} {limits:?}");
    }
}

#[test]
fn a_set_that_is_only_too_long_goes_on_under_the_name_of_the_small_form() {
    let mut set = Set::default();
    for number in 0..20_000_i64 {
        assert!(set.insert(Text::Integer(number << 40), &NO_LIMITS));
    }
    assert!(matches!(set.borrow(), SetRef::Large(_)));
    assert_eq!(set.borrow().encoding(), "intset");
    let short = SetLimits { listpack_value_bytes: 10, ..NO_LIMITS };
    let mut other = set.clone();
    other.insert(Text::Bytes(b"text"), &short);
    assert_eq!(other.borrow().encoding(), "hashtable");
    set.insert(Text::Bytes(b"text"), &NO_LIMITS);
    assert_eq!(set.borrow().encoding(), "listpack");
    set.expect(5, &SetLimits { listpack_entries: 4, ..NO_LIMITS });
    assert_eq!(set.borrow().encoding(), "hashtable");
    assert_eq!(set.borrow().len(), 20_001);
}

#[test]
fn a_member_of_a_megabyte_and_an_empty_one_are_members() {
    let long = vec![b'l'; 1_000_000];
    for limits in [LIMITS, NO_LIMITS] {
        let mut set = Set::default();
        assert!(set.insert(Text::Bytes(&long), &limits) && set.insert(Text::Bytes(b""), &limits));
        assert!(!set.insert(Text::Bytes(&long), &limits) && !set.insert(Text::Bytes(b""), &limits));
        assert!(set.borrow().contains(Text::Bytes(&long)));
        assert!(set.remove(Text::Bytes(&long)) && set.remove(Text::Bytes(b"")));
        assert!(set.borrow().is_empty());
    }
}

#[test]
fn a_deadline_makes_a_set_large_and_adding_again_keeps_it() {
    let mut set = add("1 2 3", &LIMITS);
    assert!(!set.set_deadline(b"4", Some(9)) && set.set_deadline(b"2", None));
    assert_eq!(set.borrow().encoding(), "intset");
    assert!(set.set_deadline(b"2", Some(9)));
    assert_eq!(set.borrow().encoding(), "hashtable");
    assert!(!set.insert(Text::Integer(2), &LIMITS));
    assert_eq!(set.borrow().get(Text::Integer(2)).unwrap().deadline, Some(9));
    assert!(!set.insert_until(Text::Integer(3), 8) && set.insert_until(Text::Integer(4), 7));
    assert_eq!(set.take_expired(8, 1), [b"4"]);
    assert_eq!(set.take_expired(8, 9), [b"3"]);
    assert_eq!((set.borrow().len(), set.borrow().earliest_deadline()), (2, Some(9)));
    assert!(matches!(set.borrow().to_owned(), Set::Large(LargeSet { .. })));
}

#[test]
fn a_set_from_elsewhere_is_brought_into_its_form() {
    let integers = |count: i64, limits: &SetLimits| {
        let mut bytes = crate::intset::new();
        for number in 0..count {
            assert!(crate::intset::insert(&mut bytes, number << 40));
        }
        let mut set = Set::Packed(Packed { packing: Packing::Intset, bytes });
        set.fit(limits);
        (matches!(set, Set::Large(_)), set.borrow().encoding(), set.borrow().len())
    };
    assert_eq!(integers(512, &LIMITS), (false, "intset", 512));
    assert_eq!(integers(513, &LIMITS), (true, "hashtable", 513));
    assert_eq!(integers(10_000, &NO_LIMITS), (true, "intset", 10_000));
}

#[test]
fn many_members_are_taken_out_of_any_form_at_once() {
    let limits = SetLimits { intset_entries: 64, listpack_entries: 64, listpack_value_bytes: 64 };
    let mut random = Random::from_seed(7);
    let names =
        |prefix: &str, count| (0..count).map(|number| format!("{prefix}{number}")).collect();
    let all: [Vec<String>; 4] = [names("", 50), names("m", 50), names("m", 200), names("-", 64)];
    for members in &all {
        for count in [0, 1, 5, 49, 50, 1000] {
            let mut set = Set::default();
            for member in members {
                set.insert(Text::Bytes(member.as_bytes()), &limits);
            }
            let encoding = set.borrow().encoding();
            let taken = set.pop_many(count, &mut random);
            assert_eq!(taken.len() as u64, count.min(members.len() as u64));
            let rest = set.borrow().iter().map(|member| member.member.to_vec()).collect::<Vec<_>>();
            let mut together: Vec<Vec<u8>> = taken.into_iter().chain(rest).collect();
            together.sort();
            let mut expected: Vec<Vec<u8>> =
                members.iter().map(|member| member.clone().into_bytes()).collect();
            expected.sort();
            assert_eq!(together, expected, "each is taken or left, and none twice");
            assert_eq!(set.borrow().encoding(), encoding);
        }
    }
}
