//! Both forms against a sorted vector, clones kept aside; scans under change; what it all costs.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

use base::Random;
use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};

use super::index::LIGHT_MAX;
use super::{ItemRef, Ordered, SortedSet, SortedSetLimits, SortedSetRef};
use crate::listpack::{Element, Listpack};
use crate::members::Text;
use crate::tree::Leaf;

const SMALL: SortedSetLimits = SortedSetLimits { entries: 128, value_bytes: 64 };
const NEVER_SMALL: SortedSetLimits = SortedSetLimits { entries: 0, value_bytes: 0 };
const ALWAYS_SMALL: SortedSetLimits =
    SortedSetLimits { entries: u64::MAX, value_bytes: usize::MAX };

/// What a sorted set should hold: by member, the score and the deadline.
type Model = BTreeMap<Vec<u8>, (f64, Option<i64>)>;

fn in_order(model: &Model) -> Vec<(Vec<u8>, f64, Option<i64>)> {
    let mut items: Vec<_> = model
        .iter()
        .map(|(member, (score, deadline))| (member.clone(), *score, *deadline))
        .collect();
    items.sort_by(|this, that| this.1.partial_cmp(&that.1).unwrap().then(this.0.cmp(&that.0)));
    items
}

fn owned(item: ItemRef<'_>) -> (Vec<u8>, f64, Option<i64>) {
    (item.member.to_vec(), item.score, item.deadline)
}

/// Few members, so that steps meet; some empty, long, or beside the page; some numbers.
fn member(number: usize) -> Vec<u8> {
    match number % 40 {
        0 if number == 0 => Vec::new(),
        0 => vec![b'x'; 900 + number * 7 % 2000],
        1 => format!("{}{number}", "y".repeat(70 + number % 200)).into_bytes(),
        2 | 3 => number.to_string().into_bytes(),
        _ => format!("member:{number:05}").into_bytes(),
    }
}

fn score(number: usize) -> f64 {
    match number % 16 {
        0 => f64::INFINITY,
        1 => f64::NEG_INFINITY,
        2 => -0.0,
        3 => 0.0,
        4..=9 => (number / 16 % 4) as f64,
        10..=12 => number as f64 / 7.0 - 100.0,
        13 => 1e300,
        _ => (number / 16 % 300) as f64 - 150.0,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert { from: usize, count: usize, scores: usize },
    Remove { from: usize, count: usize },
    RemoveRanks { from: usize, count: usize },
    Deadline { from: usize, count: usize, deadline: Option<i64> },
    Expire { now: i64, limit: usize },
    Clone,
    Swap,
    Read { from: usize, to: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let place = || 0..700_usize;
    let count = || prop_oneof![6 => 0..30_usize, 1 => 0..500_usize];
    let deadline =
        || prop_oneof![2 => (1..1000_i64).prop_map(Some), 1 => any::<bool>().prop_map(|_| None)];
    prop_oneof![
        5 => (place(), count(), any::<u16>()).prop_map(|(from, count, scores)| {
            Step::Insert { from, count, scores: scores.into() }
        }),
        3 => (place(), count()).prop_map(|(from, count)| Step::Remove { from, count }),
        2 => (place(), count()).prop_map(|(from, count)| Step::RemoveRanks { from, count }),
        1 => (place(), count(), deadline()).prop_map(|(from, count, deadline)| {
            Step::Deadline { from, count, deadline }
        }),
        1 => (0..1000_i64, 0..40_usize).prop_map(|(now, limit)| Step::Expire { now, limit }),
        1 => any::<bool>().prop_map(|clone| if clone { Step::Clone } else { Step::Swap }),
        3 => (place(), place()).prop_map(|(from, to)| Step::Read { from, to }),
    ]
}

fn apply(set: &mut SortedSet, model: &mut Model, limits: &SortedSetLimits, step: &Step) {
    match *step {
        Step::Insert { from, count, scores } => {
            for number in from..from + count {
                let (member, mut score) = (member(number), score(scores.wrapping_mul(number)));
                if limits.entries == u64::MAX {
                    // The small form does not know minus zero.
                    score += 0.0;
                }
                let old = model.get(&member).copied();
                let told = set.insert(Text::Bytes(&member), score, limits);
                assert_eq!(told, old.map(|(score, _)| score));
                let entry = model.entry(member).or_insert((score, None));
                if entry.0 != score {
                    entry.0 = score;
                }
            }
        }
        Step::Remove { from, count } => {
            for number in from..from + count {
                let member = member(number);
                let told = set.remove(&member);
                assert_eq!(told, model.remove(&member).map(|(score, _)| score));
            }
        }
        Step::RemoveRanks { from, count } => {
            let ranks = from as u64..(from + count) as u64;
            set.remove_ranks(ranks);
            for (member, ..) in in_order(model).into_iter().skip(from).take(count) {
                model.remove(&member);
            }
        }
        // The small form knows no deadlines.
        Step::Deadline { .. } if limits.entries == u64::MAX => {}
        Step::Deadline { from, count, deadline } => {
            for number in from..from + count {
                let member = member(number);
                let deadline = deadline.map(|deadline| deadline + number as i64 % 90);
                let found = model.get_mut(&member);
                assert_eq!(set.set_deadline(&member, deadline), found.is_some());
                if let Some(found) = found {
                    found.1 = deadline;
                }
            }
        }
        Step::Expire { now, limit } => {
            let is_passed = |deadline: Option<i64>| deadline.is_some_and(|at| at <= now);
            let passed = model.values().filter(|(_, deadline)| is_passed(*deadline)).count();
            let taken = set.take_expired(now, limit);
            assert_eq!(taken.len(), passed.min(limit));
            for member in taken {
                assert!(is_passed(model.remove(&member).unwrap().1));
            }
        }
        Step::Clone | Step::Swap | Step::Read { .. } => {}
    }
}

/// Compares everything that can be read.
fn check(set: SortedSetRef<'_>, model: &Model) {
    let items = in_order(model);
    assert_eq!(set.len(), items.len() as u64);
    assert_eq!(set.is_empty(), items.is_empty());
    assert!(set.items(0..u64::MAX).map(owned).eq(items.iter().cloned()));
    assert!(set.items_back(0..u64::MAX).map(owned).eq(items.iter().rev().cloned()));
    assert_eq!(set.earliest_deadline(), items.iter().filter_map(|item| item.2).min());
    for (rank, item) in items.iter().enumerate().skip(items.len() % 7).step_by(7) {
        let (told_rank, told_score) = set.rank(&item.0).unwrap();
        assert_eq!((told_rank as usize, told_score), (rank, item.1));
        assert_eq!(set.score(&item.0), Some(item.1));
        assert_eq!(told_score.is_sign_negative(), item.1.is_sign_negative());
    }
    let mut told: Vec<_> = Vec::new();
    let mut cursor = 0;
    loop {
        let (next, step) = set.scan(cursor, 10);
        assert!(next == 0 || next > cursor && next < 1 << 53);
        told.extend(step.into_iter().map(owned));
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    told.sort_by(|this, that| this.1.partial_cmp(&that.1).unwrap().then(this.0.cmp(&that.0)));
    assert!(told == items);
    if let SortedSetRef::Large(large) = set {
        check_index(large.ordered());
    }
}

/// What the heads of `ordered.rs` and `index.rs` promise.
fn check_index(ordered: &Ordered) {
    let mut light: BTreeMap<u64, usize> = BTreeMap::new();
    for (page, offsets) in ordered.tree.leaves(0..u64::MAX) {
        for offset in offsets.filter(|offset| !page.in_index(*offset)) {
            *light.entry((page.score(offset) + 0.0).to_bits()).or_default() += 1;
        }
    }
    assert!(light.values().all(|count| *count <= LIGHT_MAX));
    let lights: usize = light.values().sum();
    assert_eq!(ordered.index.light.len(), lights as u64);
    assert_eq!(ordered.index.full.len(), ordered.len() - lights as u64);
}

fn read(set: SortedSetRef<'_>, model: &Model, from: usize, to: usize) {
    let items = in_order(model);
    let ranks = from as u64..to as u64;
    let expected: Vec<_> = items.iter().take(to).skip(from).cloned().collect();
    assert!(set.items(ranks.clone()).map(owned).eq(expected.iter().cloned()));
    assert!(set.items_back(ranks).map(owned).eq(expected.into_iter().rev()));
    assert_eq!(set.at(from as u64).map(owned), items.get(from).cloned());
    let found = set.get(&member(from)).map(|item| (item.score, item.deadline));
    assert_eq!(found, model.get(&member(from)).copied());
    let ends = |number: usize| {
        let limit = score(number);
        match number % 3 {
            0 => Bound::Included(limit),
            1 => Bound::Excluded(limit),
            _ => Bound::Unbounded,
        }
    };
    let (least, most) = (ends(from), ends(to));
    let is_above = |score: f64| match least {
        Bound::Included(least) => score >= least,
        Bound::Excluded(least) => score > least,
        Bound::Unbounded => true,
    };
    let is_below = |score: f64| match most {
        Bound::Included(most) => score <= most,
        Bound::Excluded(most) => score < most,
        Bound::Unbounded => true,
    };
    let ranks = set.ranks_by_score(least, most);
    let within: Vec<_> =
        items.into_iter().filter(|item| is_above(item.1) && is_below(item.1)).collect();
    assert_eq!(ranks.end - ranks.start, within.len() as u64);
    assert!(set.items(ranks).map(owned).eq(within));
}

fn run(limits: &SortedSetLimits, steps: Vec<Step>) {
    let mut set = SortedSet::for_members(1, 0, limits);
    let mut model = Model::new();
    let mut clones: Vec<(SortedSet, Model)> = Vec::new();
    for step in steps {
        apply(&mut set, &mut model, limits, &step);
        match step {
            Step::Clone => clones.push((set.clone(), model.clone())),
            Step::Swap if !clones.is_empty() => {
                let (other, other_model) = clones.remove(0);
                clones.push((std::mem::replace(&mut set, other), model));
                model = other_model;
            }
            Step::Read { from, to } => read(set.borrow(), &model, from, to),
            _ => {}
        }
        check(set.borrow(), &model);
    }
    for (clone, model) in &clones {
        check(clone.borrow(), model);
    }
    set.remove_ranks(0..u64::MAX);
    check(set.borrow(), &Model::new());
    if let SortedSet::Large(large) = set {
        assert_eq!(large.memory(), 0);
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config {
        cases: 24, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn the_large_form_matches_the_model(steps in prop::collection::vec(step(), 1..30)) {
        run(&NEVER_SMALL, steps);
    }

    #[test]
    fn the_small_form_matches_the_model(steps in prop::collection::vec(step(), 1..20)) {
        run(&ALWAYS_SMALL, steps);
    }

    #[test]
    fn members_are_ordered_by_bytes_within_a_score(
        numbers in prop::collection::hash_set(0..3000_usize, 0..600),
        probes in prop::collection::vec((0..3000_usize, 0..3000_usize, 0..9_usize), 20),
        large in any::<bool>(),
    ) {
        let limits = if large { NEVER_SMALL } else { ALWAYS_SMALL };
        let mut set = SortedSet::for_members(1, 0, &limits);
        let mut members: Vec<Vec<u8>> = numbers.into_iter().map(member).collect();
        for member in &members {
            set.insert(Text::Bytes(member), 5.0, &limits);
        }
        members.sort();
        members.dedup();
        for (from, to, kind) in probes {
            let (from, to) = (member(from), member(to));
            let end = |kind, member| match kind {
                0 => Bound::Included(member),
                1 => Bound::Excluded(member),
                _ => Bound::Unbounded,
            };
            let range = (end(kind % 3, &from[..]), end(kind / 3, &to[..]));
            let expected = members.iter().filter(|member| {
                let member = &member[..];
                std::ops::RangeBounds::<[u8]>::contains(&range, member)
            });
            let ranks = set.borrow().ranks_by_member(range.0, range.1, false);
            let told = set.borrow().items(ranks).map(|item| item.member.to_vec());
            assert!(told.eq(expected.cloned()));
        }
    }
}

#[test]
fn a_scan_tells_every_member_that_stays_whatever_changes_meanwhile() {
    let mut random = Random::from_seed(11);
    let mut set = SortedSet::for_members(1, 0, &NEVER_SMALL);
    let put = |set: &mut SortedSet, number: u64, score: f64| {
        let member = format!("member:{number}");
        set.insert(Text::Bytes(member.as_bytes()), score, &NEVER_SMALL);
    };
    (0..3000).for_each(|number| put(&mut set, number, (number % 7) as f64));
    let mut told: HashSet<Vec<u8>> = HashSet::new();
    let mut cursor = 0;
    loop {
        let (next, step) = set.borrow().scan(cursor, 7);
        told.extend(step.into_iter().map(|item| item.member.to_vec()));
        // Those below 1000 stay, but their scores change: light ones become full and back.
        for _ in 0..20 {
            put(&mut set, random.below(1000), random.below(400) as f64);
            put(&mut set, 3000 + random.below(1000), 3.0);
            set.remove(format!("member:{}", 1000 + random.below(3000)).as_bytes());
        }
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    for number in 0..1000 {
        assert!(told.contains(format!("member:{number}").as_bytes()), "{number}");
    }
}

#[test]
fn a_sorted_set_becomes_large_beyond_its_limits_and_keeps_its_members() {
    let mut set = SortedSet::default();
    for number in 0..128 {
        set.insert(Text::Bytes(format!("{number}").as_bytes()), number as f64, &SMALL);
        assert_eq!(set.borrow().encoding(), "listpack");
    }
    assert_eq!(set.insert(Text::Bytes(b"5"), 7.0, &SMALL), Some(5.0));
    assert_eq!(set.borrow().encoding(), "listpack");
    set.insert(Text::Bytes(b"one more"), 0.0, &SMALL);
    assert_eq!((set.borrow().encoding(), set.borrow().len()), ("skiplist", 129));
    assert_eq!(set.borrow().rank(b"5"), Some((7, 7.0)));

    let mut long = SortedSet::default();
    long.insert(Text::Bytes(&[b'x'; 65]), 1.0, &SMALL);
    assert_eq!(long.borrow().encoding(), "skiplist");
    assert_eq!(SortedSet::for_members(129, 1, &SMALL).borrow().encoding(), "skiplist");
    assert_eq!(SortedSet::for_members(128, 64, &SMALL).borrow().encoding(), "listpack");
}

#[test]
fn beyond_64_kb_the_form_is_large_and_named_small() {
    let mut set = SortedSet::default();
    for number in 0..9000 {
        let member = format!("member:{number}");
        set.insert(Text::Bytes(member.as_bytes()), 0.5, &ALWAYS_SMALL);
    }
    assert!(matches!(set, SortedSet::Large(_)));
    assert_eq!((set.borrow().encoding(), set.borrow().len()), ("listpack", 9000));
    set.insert(Text::Bytes(b"another"), 0.5, &SMALL);
    assert_eq!(set.borrow().encoding(), "skiplist");
}

#[test]
fn scores_are_packed_in_the_bytes_of_redis() {
    let mut set = SortedSet::default();
    for (member, score) in [("a", -0.0), ("b", 1e18), ("c", 5e18), ("d", 3.5), ("e", f64::INFINITY)]
    {
        set.insert(Text::Bytes(member.as_bytes()), score, &SMALL);
    }
    let SortedSet::Packed(packed) = set else { panic!("it is small") };
    let listpack = Listpack::new(&packed.bytes);
    let texts: Vec<String> = listpack
        .iter()
        .map(|element| match element {
            Element::Integer(number) => format!("integer {number}"),
            Element::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        })
        .collect();
    let expected = [
        "a",
        "integer 0",
        "d",
        "3.5",
        "b",
        "integer 1000000000000000000",
        "c",
        "5e+18",
        "e",
        "inf",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn sorted_input_is_built_in_one_go_and_takes_changes() {
    let mut model = Model::new();
    for number in 0..5000 {
        model.insert(member(number), (score(number), (number % 9 == 0).then_some(7)));
    }
    let items = in_order(&model);
    let refs: Vec<ItemRef<'_>> = items
        .iter()
        .map(|(member, score, deadline)| ItemRef {
            member: Text::Bytes(member),
            score: *score,
            deadline: *deadline,
        })
        .collect();
    let mut set = SortedSet::from_sorted(&refs, &SMALL);
    check(set.borrow(), &model);
    for step in [
        Step::Insert { from: 4000, count: 3000, scores: 13 },
        Step::Remove { from: 100, count: 2000 },
        Step::RemoveRanks { from: 300, count: 1500 },
        Step::Expire { now: 8, limit: 10_000 },
    ] {
        apply(&mut set, &mut model, &NEVER_SMALL, &step);
        check(set.borrow(), &model);
    }
    let few = SortedSet::from_sorted(&refs[1..2], &SMALL);
    assert_eq!(few.borrow().len(), 1);
}

/// A step of a scan looks a light member up among those of its score, but only where there are
/// light ones.
#[test]
fn a_scan_of_equal_scores_visits_few_pages() {
    let mut ordered = Ordered::default();
    for number in 0..20_000 {
        let member = format!("member:{number:09}");
        ordered.insert(Text::Bytes(member.as_bytes()), 1.0);
    }
    assert_eq!(ordered.index.light.len(), LIGHT_MAX as u64);
    let light = ordered.tree.leaves(0..u64::MAX).filter(|(page, _)| page.summary().has_light());
    assert!(light.count() <= LIGHT_MAX);
    check_index(&ordered);
    let mut told = HashSet::new();
    let mut cursor = 0;
    loop {
        let (next, step) = ordered.scan(cursor, 100);
        assert!(step.len() <= 200);
        told.extend(step.into_iter().map(|item| item.member.to_vec()));
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(told.len(), 20_000);
}

/// With members of 16 bytes and different scores, added in no order.
#[test]
fn a_member_takes_less_than_48_bytes() {
    let mut random = Random::from_seed(3);
    let mut ordered = Ordered::default();
    let members = 100_000;
    for number in 0..members {
        let member = format!("member:{number:09}");
        let score = random.next_u64() as f64 / 1e6;
        ordered.insert(Text::Bytes(member.as_bytes()), score);
    }
    let bytes = ordered.memory() as f64 / f64::from(members);
    println!("{bytes:.1} bytes a member of 16 bytes");
    assert!(bytes <= 48.0, "{bytes:.1}");
}
