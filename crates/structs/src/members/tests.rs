//! Members against a map; what a reader that goes step by step must see; and the memory that the
//! head of `members.rs` promises.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use base::{Random, UnixMillis};
use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};

use super::{
    Builder, Lifetime, Long, MemberPage, MemberRef, Members, Payload, TAKEN_OUT, Text, Valued,
    place, sample,
};
use crate::prefetch::{PrefetchTarget, Seek, seek_together};
use crate::secret;
use crate::tree::{Growth, Leaf};

/// What there should be: value and deadline of each member.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<UnixMillis>)>;

const ENDLESS: Lifetime = Lifetime::Endless;

/// Short and long ones, an empty one, and some as long as the longest head tells apart.
fn member(id: u16) -> Vec<u8> {
    let len = match id % 64 {
        0 => 0,
        7 => 62,
        8 => 63,
        9 => 64,
        20 => 1024,
        21 => 1025,
        22 => 5_000,
        _ if id == 1023 => 70_000,
        _ => usize::from(id % 40),
    };
    let mut bytes = vec![b'x'; len];
    let number = id.to_le_bytes();
    if len == 0 {
        bytes
    } else {
        let told = len.min(2);
        bytes[..told].copy_from_slice(&number[..told]);
        bytes
    }
}

fn value_len() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => 0..40_usize,
        2 => prop_oneof![252..256_usize, 900..1100_usize],
        1 => prop_oneof![2_000..3_000_usize, 60_000..70_000_usize],
    ]
}

fn lifetime() -> impl Strategy<Value = Lifetime> {
    prop_oneof![
        3 => prop_oneof![proptest::prelude::Just(Lifetime::Keep), proptest::prelude::Just(ENDLESS)],
        1 => (1..1000_i64).prop_map(Lifetime::Until),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Insert { id: u16, value_len: usize, lifetime: Lifetime },
    InsertMany { first: u16, count: u16, fill: u8, lifetime: Lifetime },
    Remove(u16),
    RemoveMany { first: u16, count: u16 },
    SetDeadline(u16, Option<UnixMillis>),
    TakeExpired { now: UnixMillis, limit: usize },
    TakeAt(u64),
    Clone,
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..1024_u16;
    prop_oneof![
        6 => (id.clone(), value_len(), lifetime())
            .prop_map(|(id, value_len, lifetime)| Step::Insert { id, value_len, lifetime }),
        2 => (id.clone(), 0..400_u16, any::<u8>(), lifetime()).prop_map(
            |(first, count, fill, lifetime)| Step::InsertMany { first, count, fill, lifetime }
        ),
        3 => id.clone().prop_map(Step::Remove),
        1 => (id.clone(), 0..700_u16).prop_map(|(first, count)| Step::RemoveMany { first, count }),
        4 => (id, prop::option::of(1..1000_i64))
            .prop_map(|(id, deadline)| Step::SetDeadline(id, deadline)),
        1 => (0..1000_i64, 0..300_usize)
            .prop_map(|(now, limit)| Step::TakeExpired { now, limit }),
        1 => any::<u64>().prop_map(Step::TakeAt),
        1 => proptest::prelude::Just(Step::Clone),
    ]
}

/// Puts a member into both, and tells both whether it is new.
fn insert<P: Payload>(
    members: &mut Members<P>,
    model: &mut Model,
    (id, value, lifetime): (u16, &[u8], Lifetime),
) {
    let (member, value) = (member(id), if P::VALUED { value } else { b"" });
    let new = members.insert(Text::Bytes(&member), Text::Bytes(value), lifetime);
    let old = model.get(&member).cloned();
    assert_eq!(new, old.is_none());
    let deadline = match lifetime {
        Lifetime::Keep => old.and_then(|(_, deadline)| deadline),
        Lifetime::Endless => None,
        Lifetime::Until(deadline) => Some(deadline),
    };
    model.insert(member, (value.to_vec(), deadline));
}

fn remove<P: Payload>(members: &mut Members<P>, model: &mut Model, id: u16) {
    let member = member(id);
    assert_eq!(members.remove(&member), model.remove(&member).is_some());
}

fn apply<P: Payload>(members: &mut Members<P>, model: &mut Model, step: &Step) {
    match *step {
        Step::Insert { id, value_len, lifetime } => {
            insert(members, model, (id, &vec![id as u8; value_len], lifetime));
        }
        Step::InsertMany { first, count, fill, lifetime } => {
            for id in first..first + count {
                // Another value of the same length where there is one already.
                insert(members, model, (id % 1024, &[id as u8, fill], lifetime));
            }
        }
        Step::Remove(id) => remove(members, model, id),
        Step::RemoveMany { first, count } => {
            (first..first + count).for_each(|id| remove(members, model, id % 1024));
        }
        Step::SetDeadline(id, deadline) => {
            let member = member(id);
            let known = model.get_mut(&member).map(|(_, old)| *old = deadline);
            assert_eq!(members.set_deadline(&member, deadline), known.is_some());
        }
        Step::TakeExpired { now, limit } => {
            let passed = |deadline: Option<UnixMillis>| deadline.is_some_and(|at| at <= now);
            let all = model.values().filter(|(_, deadline)| passed(*deadline)).count();
            let work = members.expiry_work(now, u64::MAX);
            assert_eq!(work == 0, all == 0, "no page is looked into for nothing");
            assert!(work >= all as u64 * (TAKEN_OUT + 1), "each is counted");
            let taken = members.take_expired(now, limit);
            assert_eq!(taken.len(), all.min(limit));
            for member in taken {
                assert!(passed(model.remove(&member).unwrap().1));
            }
        }
        Step::TakeAt(number) => {
            let taken = members.take_at(number % (model.len() as u64 + 1));
            let past_end = number % (model.len() as u64 + 1) == model.len() as u64;
            let known = taken.map(|member| model.remove(&member).is_some());
            assert_eq!(known, (!past_end).then_some(true));
        }
        Step::Clone => {}
    }
}

fn to_model<'a>(members: impl Iterator<Item = MemberRef<'a>>) -> Model {
    let mut model = Model::new();
    for MemberRef { member, value, deadline } in members {
        let old = model.insert(member.to_vec(), (value.to_vec(), deadline));
        assert!(old.is_none(), "{member:?} came twice");
    }
    model
}

/// Asserts that the members are these, and what the heads of the files promise.
fn check<P: Payload>(members: &Members<P>, model: &Model) {
    assert!(to_model(members.iter()) == *model);
    assert_eq!(members.len(), model.len() as u64);
    let earliest = model.values().filter_map(|(_, deadline)| *deadline).min();
    assert_eq!(members.earliest_deadline(), earliest);
    for (member, (value, deadline)) in model {
        let found = members.get(member).unwrap();
        assert!(found.value == Text::Bytes(value) && found.deadline == *deadline);
    }
    let mut above = 0;
    for (page, _) in members.tree.leaves(0..members.len()) {
        let mut highest = 0;
        for found in page.iter() {
            let hash = secret::hasher().hash(&found.member.to_vec());
            assert!(place(hash) >= above);
            highest = highest.max(place(hash));
        }
        above = highest + 1;
        page.check();
    }
}

fn run<P: Payload>(steps: &[Step]) {
    let (mut members, mut model) = (Members::<P>::new(), Model::new());
    let mut clones = Vec::new();
    for step in steps {
        apply(&mut members, &mut model, step);
        if matches!(step, Step::Clone) {
            clones.push((members.clone(), model.clone()));
        }
    }
    check(&members, &model);
    for (members, model) in &clones {
        check(members, model);
    }
    for member in model.keys() {
        assert!(members.remove(member));
    }
    assert_eq!(members.memory(), 0);
}

proptest! {
    #![proptest_config(proptest::test_runner::Config {
        cases: 24, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn fields_and_their_clones_match_the_model(steps in prop::collection::vec(step(), 1..60)) {
        run::<Valued>(&steps);
    }

    #[test]
    fn members_and_their_clones_match_the_model(steps in prop::collection::vec(step(), 1..60)) {
        run::<()>(&steps);
    }

    #[test]
    fn a_scan_tells_all_that_is_there_all_the_time(
        kept in prop::collection::btree_set(0..2000_u32, 1..400),
        changes in prop::collection::vec((0..2000_u32, any::<bool>(), 0..150_u32), 1..40),
        count in 0..60_usize,
    ) {
        let name = |number: u32| number.to_string().into_bytes();
        let mut members = Members::<()>::new();
        for number in &kept {
            members.insert(Text::Bytes(&name(*number)), Text::Bytes(b""), ENDLESS);
        }
        let mut told = BTreeSet::new();
        let mut cursor = 0;
        let mut steps = 0;
        loop {
            let (next, page) = members.scan(cursor, count);
            assert!(next < 1 << 53);
            assert!(next == 0 || next > cursor);
            told.extend(page.iter().map(|member| member.member.to_vec()));
            if next == 0 {
                break;
            }
            cursor = next;
            let (first, added, many) = changes[steps % changes.len()];
            steps += 1;
            for number in (first..first + many).map(|number| number % 2000) {
                if added {
                    members.insert(Text::Bytes(&name(number)), Text::Bytes(b""), ENDLESS);
                } else if !kept.contains(&number) {
                    members.remove(&name(number));
                }
            }
        }
        for number in &kept {
            assert!(told.contains(&name(*number)));
        }
    }

    #[test]
    fn a_built_one_equals_one_that_grew(
        ids in prop::collection::vec((0..1024_u16, prop::option::of(1..1000_i64)), 0..2000),
    ) {
        let mut builder = Builder::<Valued>::new();
        let mut model = Model::new();
        for (id, deadline) in ids {
            let (member, value) = (member(id), member(id));
            if let Entry::Vacant(vacant) = model.entry(member) {
                let (member, value) = (Text::Bytes(vacant.key()), Text::Bytes(&value));
                builder.push(MemberRef { member, value, deadline });
                vacant.insert((value.to_vec(), deadline));
            }
        }
        check(&builder.finish(), &model);
    }
}

#[test]
fn a_scan_tells_nothing_twice_while_nothing_changes() {
    let mut members = Members::<()>::new();
    for number in 0..5_000_i64 {
        members.insert(Text::Integer(number), Text::Bytes(b""), ENDLESS);
    }
    let (mut cursor, mut told) = (0, 0);
    let mut seen = BTreeSet::new();
    loop {
        let (next, page) = members.scan(cursor, 10);
        assert!((1..=10).contains(&page.len()));
        told += page.len();
        seen.extend(page.iter().map(|member| member.member.to_integer()));
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!((told, seen.len()), (5_000, 5_000));
}

#[test]
fn a_builder_of_many_runs_keeps_one_of_equal_members() {
    let mut builder = Builder::<Valued>::new();
    for round in 0..2_i64 {
        for number in 0..60_000_i64 {
            let (member, value) = (Text::Integer(number), Text::Integer(number + round));
            builder.push(MemberRef { member, value, deadline: None });
        }
    }
    let members = builder.finish();
    assert_eq!(members.len(), 60_000);
    for number in [0, 1, 31_415, 59_999_i64] {
        let value = members.get(number.to_string().as_bytes()).unwrap().value;
        assert!(value == Text::Integer(number) || value == Text::Integer(number + 1));
    }
}

#[test]
fn a_clone_is_read_on_in_ranges_while_the_original_changes() {
    let mut members = Members::<()>::new();
    for number in 0..10_000_i64 {
        members.insert(Text::Integer(number), Text::Bytes(b""), ENDLESS);
    }
    let (clone, mut seen) = (members.clone(), BTreeSet::new());
    for start in (0..10_000).step_by(37) {
        let part: Vec<_> = clone.range(start..start + 37).collect();
        assert_eq!(part.len() as u64, 37.min(10_000 - start));
        seen.extend(part.iter().map(|member| member.member.to_integer()));
        (0..20).for_each(|_| drop(members.take_at(0)));
    }
    assert_eq!(seen.len(), 10_000);
}

#[test]
fn a_long_member_or_value_lies_beside_the_page_and_is_shared() {
    let long = vec![b'm'; 1_000_000];
    let mut members = Members::<Valued>::new();
    members.insert(Text::Bytes(&long), Text::Bytes(&long), ENDLESS);
    members.insert(Text::Bytes(b""), Text::Bytes(b""), ENDLESS);
    assert!(members.get(b"").unwrap().value.is_empty());
    let found = members.get(&long).unwrap();
    assert!(matches!((found.member, found.value), (Text::Long(_), Text::Long(_))));
    assert!(found.member == found.value && found.value == Text::Bytes(&long));
    assert!(members.memory() < 2_100_000);

    // Another hash takes them over without copying, and a page is copied without them.
    let mut other = Members::<Valued>::new();
    other.insert(found.member, found.value, ENDLESS);
    let address = |text: Text<'_>| match text {
        Text::Long(long) => base::SharedBytes::chunk_at(long, 0).as_ptr(),
        Text::Bytes(_) | Text::Integer(_) => std::ptr::null(),
    };
    assert_eq!(address(other.get(&long).unwrap().value), address(found.value));
    let mut clone = members.clone();
    clone.insert(Text::Bytes(b"x"), Text::Bytes(b"y"), ENDLESS);
    assert_eq!(address(clone.get(&long).unwrap().member), address(found.member));
    assert!(!members.contains(b"x"));

    // Other bytes of the same length are told apart.
    let mut other_long = long.clone();
    other_long[999_999] = b'n';
    assert!(found.member != Text::Bytes(&other_long));
    assert!(found.member != Text::Long(&Long::new(&other_long)));
    assert!(found.member == Text::Long(&Long::new(&long)));
    assert!(members.remove(&long) && members.memory() < 1_000);
}

#[test]
fn members_of_one_place_stay_in_one_page() {
    // What lies beside a page brings its hash, so that here it can be chosen.
    let page_of = |hashes: &[u64]| {
        let mut page = MemberPage::<()>::default();
        for (number, hash) in hashes.iter().enumerate() {
            let member = vec![number as u8; 1_100];
            page.insert(*hash, MemberRef::plain(Text::Bytes(&member)));
        }
        page
    };
    let mut alike = page_of(&[77 << 11, 77 << 11 | 1, 77 << 11 | 2047]);
    assert!(alike.split(Growth::Within).is_none());
    assert_eq!(alike.len(), 3);
    let mut page = page_of(&[1 << 11, 2 << 11, 2 << 11 | 5, 2 << 11 | 9, 2 << 11 | 9, 3 << 11]);
    let (bound, upper) = page.split(Growth::Within).unwrap();
    assert_eq!((page.len(), upper.len(), bound), (5, 1, 3));
    assert_eq!(page.find(2 << 11 | 9, &[4; 1_100]), Some(4));
    assert_eq!(page.find(2 << 11 | 9, &[3; 1_100]), Some(3));
    assert_eq!(page.find(2 << 11 | 9, &[2; 1_100]), None);
    assert_eq!((page.bound(), upper.bound()), (1, 3));
    page.absorb(upper);
    assert_eq!((page.len(), page.find(3 << 11, &[5; 1_100])), (6, Some(5)));
}

#[test]
fn a_page_stays_small_whatever_comes() {
    let mut members = Members::<Valued>::new();
    for number in 0..3_000_u32 {
        let len = [0, 500, 1_023, 1_024, 1_025, 4_000, 70_000][number as usize % 7];
        let value = vec![b'v'; len];
        members.insert(Text::Bytes(&number.to_le_bytes()), Text::Bytes(&value), ENDLESS);
    }
    for (page, _) in members.tree.leaves(0..members.len()) {
        assert!(page.page_len() <= 4096);
    }
}

#[test]
fn each_member_is_drawn_equally_often() {
    let mut members = Members::<()>::new();
    (0..500_i64).for_each(|number| {
        members.insert(Text::Integer(number), Text::Bytes(b""), ENDLESS);
    });
    let mut random = Random::from_seed(3);
    let mut counts = vec![0_u32; 500];
    for _ in 0..100_000 {
        let drawn = members.random(&mut random).unwrap().member.to_integer().unwrap();
        counts[drawn as usize] += 1;
    }
    assert!(counts.iter().all(|count| (120..300).contains(count)), "{counts:?}");
    assert!(Members::<()>::new().random(&mut random).is_none());
}

#[test]
fn samples_are_distinct_and_each_number_equally_likely() {
    let mut random = Random::from_seed(5);
    for (bound, count) in [(0, 5), (1, 1), (10, 3), (10, 10), (10, 20), (100, 2), (1000, 130)] {
        let drawn = sample(bound, count, &mut random);
        assert_eq!(drawn.len() as u64, count.min(bound));
        assert_eq!(BTreeSet::from_iter(&drawn).len(), drawn.len());
        assert!(drawn.iter().all(|number| *number < bound));
    }
    // Both ways of drawing: one in twenty, and one in five.
    for (bound, count) in [(40_u64, 2_u64), (40, 8)] {
        let mut counts = vec![0_u64; bound as usize];
        for _ in 0..20_000 {
            sample(bound, count, &mut random).iter().for_each(|drawn| counts[*drawn as usize] += 1);
        }
        let mean = 20_000 * count / bound;
        let near = mean - mean / 5..mean + mean / 5;
        assert!(counts.iter().all(|count| near.contains(count)), "{counts:?}");
    }
}

/// Redis looks at no field but the one whose time is lifted.
#[test]
fn lifting_all_of_many_deadlines_that_are_alike_takes_steps_in_proportion() {
    let steps_of = |count: u32| {
        let mut members = Members::<Valued>::new();
        let names: Vec<String> = (0..count).map(|number| format!("field:{number}")).collect();
        for name in &names {
            let until = Lifetime::Until(1_000_000);
            members.insert(Text::Bytes(name.as_bytes()), Text::Bytes(b"value"), until);
        }
        let before = base::step_count::taken()?;
        names.iter().for_each(|name| _ = members.set_deadline(name.as_bytes(), None));
        assert_eq!(members.earliest_deadline(), None);
        Some((base::step_count::taken()? - before) / u64::from(count))
    };
    let (Some(few), Some(many)) = (steps_of(100), steps_of(20_000)) else { return };
    assert!(few <= 12 && many <= 12, "{few} and {many} steps for each");
}

#[test]
fn a_deadline_costs_nothing_where_there_is_none_and_six_bytes_where_there_is() {
    let mut members = Members::<Valued>::new();
    for number in 0..50_i64 {
        members.insert(Text::Integer(number), Text::Bytes(b"value"), ENDLESS);
    }
    let size = |members: &Members<Valued>| {
        members.tree.leaves(0..50).map(|(page, _)| page.size()).sum::<usize>()
    };
    let before = size(&members);
    for number in 0..50_i64 {
        let member = number.to_string();
        assert!(members.set_deadline(member.as_bytes(), Some(i64::MAX)));
    }
    assert_eq!(size(&members), before + 50 * 6);
    assert_eq!(members.earliest_deadline(), Some((1 << 48) - 1));
    assert!(members.set_deadline(b"7", Some(-5)));
    assert_eq!(members.earliest_deadline(), Some(1));
    assert!(members.set_deadline(b"7", None) && !members.set_deadline(b"absent", Some(1)));
    assert_eq!(members.get(b"7").unwrap().deadline, None);
    assert_eq!(members.earliest_deadline(), Some((1 << 48) - 1));
}

/// Bytes a member, measured from one count to its double so that no phase of filling is left out.
fn bytes_each<P: Payload>(value: &[u8]) -> f64 {
    let mut members = Members::<P>::new();
    let mut worst = 0_f64;
    for number in 0..100_000_u64 {
        let member = format!("{number:016}");
        members.insert(Text::Bytes(member.as_bytes()), Text::Bytes(value), ENDLESS);
        if number >= 50_000 && number % 2_500 == 0 {
            worst = worst.max(members.memory() as f64 / number as f64);
        }
    }
    worst
}

#[test]
fn a_member_of_16_bytes_takes_at_most_25() {
    let each = bytes_each::<()>(b"");
    println!("a member of 16 bytes takes at most {each:.1}");
    assert!(each <= 25.0, "{each}");
}

#[test]
fn a_field_of_16_bytes_with_a_value_of_8_takes_at_most_34() {
    let each = bytes_each::<Valued>(b"12345678");
    println!("a field of 16 bytes with a value of 8 takes at most {each:.1}");
    assert!(each <= 34.0, "{each}");
}

/// What is fetched ahead is what the lookup reads then: mostly, as two members of a page may have
/// one fingerprint, and then the first of them is taken for either.
#[test]
fn seeks_end_where_lookups_do() {
    let mut members = Members::<()>::new();
    let names: Vec<Vec<u8>> = (0..5_000).map(|id| format!("member:{id}").into_bytes()).collect();
    for name in &names {
        members.insert(Text::Bytes(name), Text::Bytes(&[]), ENDLESS);
    }
    let is_right = |name: &&Vec<u8>| {
        let hash = secret::hasher().hash(name);
        let page = members.tree.get(|bound| bound.cmp(&place(hash))).expect("it has pages");
        let mut found = usize::MAX;
        (0..4).for_each(|step| page.approach(hash, step, &mut found));
        page.find(hash, name) == Some(found)
    };
    let right = names.iter().filter(is_right).count();
    assert!(right > names.len() / 2, "{right}");
    let mut seeks: Vec<Seek<'_>> = names.iter().filter_map(|name| members.seek(name)).collect();
    assert_eq!(seeks.len(), names.len());
    seek_together(&mut seeks);
    assert!(Members::<()>::new().seek(b"member:1").is_none());
}
