//! Arrays against a `BTreeMap`: by random steps with clones kept aside, as rings against what is
//! said of rings, and what each costs.

use std::collections::BTreeMap;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};

use super::indexes::Indexes;
use super::{Array, ArrayRef, INDEX_MAX, LargeArray, SMALL_MAX};
use crate::members::Text;
use crate::tree::{LEAF_MAX, Leaf};

type Model = BTreeMap<u64, Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Fill { from: u64, texts: Vec<u16> },
    Set { index: u64, text: u16 },
    Remove { index: u64 },
    RemoveRange { ends: (u64, u64) },
    Keep,
}

/// Few different texts: numbers, short and long strings, some beside the page.
fn text(number: u16) -> Vec<u8> {
    let byte = b'a' + (number % 7) as u8;
    match number % 16 {
        0..=4 => (i64::from(number) - 40).to_string().into_bytes(),
        5 => Vec::new(),
        6..=12 => vec![byte; usize::from(number % 50)],
        13 => vec![byte; 1000 + usize::from(number % 50)],
        14 => vec![byte; 1025 + usize::from(number % 4)],
        _ => vec![byte; 70_000],
    }
}

/// Indexes that meet: near the start, around what 32 bits hold, and at the very end.
fn index() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0..3000_u64,
        2 => (0..50_u64).prop_map(|step| step * 1_000_003),
        1 => (0..20_u64).prop_map(|offset| u64::from(u32::MAX) - 10 + offset),
        1 => (0..20_u64).prop_map(|offset| i64::MAX as u64 - 10 + offset),
        1 => (0..20_u64).prop_map(|offset| INDEX_MAX - offset),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let texts = prop::collection::vec(0..128_u16, 1..200);
    prop_oneof![
        3 => (0..3000_u64, texts).prop_map(|(from, texts)| Step::Fill { from, texts }),
        4 => (index(), 0..128_u16).prop_map(|(index, text)| Step::Set { index, text }),
        4 => index().prop_map(|index| Step::Remove { index }),
        2 => (index(), index()).prop_map(|ends| Step::RemoveRange { ends }),
        1 => Just(Step::Keep),
    ]
}

fn take(array: &mut Array, model: &mut Model, step: &Step) {
    let mut put = |array: &mut Array, index: u64, number: u16| {
        let text = text(number);
        let is_new = array.set(index, Text::Bytes(&text));
        assert_eq!(is_new, model.insert(index, text).is_none());
    };
    match step {
        Step::Fill { from, texts } => {
            (*from..).zip(texts).for_each(|(index, text)| put(array, index, *text));
        }
        Step::Set { index, text } => put(array, *index, *text),
        Step::Remove { index } => {
            assert_eq!(array.remove(*index), model.remove(index).is_some());
        }
        Step::RemoveRange { ends } => {
            let range = ends.0.min(ends.1)..=ends.0.max(ends.1);
            let before = model.len();
            model.retain(|index, _| !range.contains(index));
            assert_eq!(array.remove_range(range), (before - model.len()) as u64);
        }
        Step::Keep => {}
    }
}

fn to_model(array: ArrayRef<'_>) -> Model {
    array.items(0..=INDEX_MAX).map(|(index, text)| (index, text.to_vec())).collect()
}

/// Everything that can be asked gives what the model says.
fn compare(array: ArrayRef<'_>, model: &Model, probes: &[(u64, u64)]) {
    assert_eq!(array.count(), model.len() as u64);
    assert_eq!(array.is_empty(), model.is_empty());
    assert_eq!(array.len(), model.keys().next_back().map_or(0, |last| last + 1));
    assert_eq!(to_model(array), *model);
    let back: Model =
        array.items(0..=INDEX_MAX).rev().map(|(index, text)| (index, text.to_vec())).collect();
    assert_eq!(back, *model);
    for &(a, b) in probes {
        let range = a.min(b)..=a.max(b);
        assert_eq!(array.get(a).map(Text::to_vec), model.get(&a).cloned());
        let expected: Vec<_> = model.range(range.clone()).map(|(index, _)| *index).collect();
        let indexes: Vec<_> = array.items(range.clone()).map(|(index, _)| index).collect();
        assert_eq!(indexes, expected);
        assert_eq!(array.count_in(range.clone()), expected.len() as u64);
        let slots = *range.start()..=range.start().saturating_add(99).min(*range.end());
        let expected: Vec<_> = slots.clone().map(|index| model.get(&index).cloned()).collect();
        let told = |slot: Option<Text<'_>>| slot.map(Text::to_vec);
        assert_eq!(array.slots(slots.clone()).map(told).collect::<Vec<_>>(), expected);
        let back: Vec<_> = array.slots_back(slots).map(told).collect();
        assert_eq!(back.into_iter().rev().collect::<Vec<_>>(), expected);
    }
    if let ArrayRef::Large(large) = array {
        check_pages(large);
    }
}

/// The invariants of pages, and that what is summed up is true.
fn check_pages(large: &LargeArray) {
    let (mut pages, mut counts) = (0, (0, 0));
    for (page, _) in large.tree.leaves(0..large.tree.len()) {
        assert!(page.len() > 0);
        assert!(page.size() <= LEAF_MAX || page.len() == 1, "{} bytes", page.size());
        let indexes: Vec<u64> = (0..page.len()).map(|place| page.index(place)).collect();
        assert!(indexes.is_sorted_by(|a, b| a < b));
        let is_run = indexes[indexes.len() - 1] - indexes[0] == indexes.len() as u64 - 1;
        if is_run {
            counts.0 += page.len() as u64;
        } else {
            counts.1 += page.len() as u64;
        }
        pages += 1;
    }
    let array = ArrayRef::Large(large);
    assert_eq!(array.pages(), pages);
    let told = array.page_counts();
    assert_eq!(
        (told.runs + told.gapped, told.in_runs, told.in_gapped),
        (pages, counts.0, counts.1)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn arrays_are_maps(
        steps in prop::collection::vec(step(), 1..60),
        probes in prop::collection::vec((index(), index()), 8),
    ) {
        let (mut array, mut model) = (Array::default(), Model::new());
        let mut kept: Vec<(Array, Model)> = Vec::new();
        for step in &steps {
            if matches!(step, Step::Keep) {
                kept.push((array.clone(), model.clone()));
            }
            take(&mut array, &mut model, step);
        }
        compare(array.borrow(), &model, &probes);
        for (array, model) in &kept {
            compare(array.borrow(), model, &probes);
        }
    }

    #[test]
    fn indexes_are_what_was_put_in(
        indexes in prop::collection::btree_set(index(), 1..80),
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let mut model: Vec<u64> = indexes.iter().copied().collect();
        let mut all = Indexes::default();
        // Neither rising nor falling, so that gaps open and close within.
        for index in indexes.iter().step_by(2).chain(indexes.iter().skip(1).step_by(2).rev()) {
            let place = all.find(*index).expect_err("it is not there yet");
            all.insert(place, *index);
            assert_eq!(all.find(*index), Ok(place));
        }
        assert_eq!(all.to_vec(), model);
        for index in gone {
            if !model.is_empty() {
                let place = index.index(model.len());
                assert_eq!(all.find(model[place]), Ok(place));
                model.remove(place);
                all.remove(place);
            }
        }
        assert_eq!(all.to_vec(), model);
        let mut lower = all.clone();
        let upper = lower.split_off(model.len() / 2);
        assert_eq!([lower.to_vec(), upper.to_vec()].concat(), model);
        lower.append(&upper);
        assert_eq!(lower.to_vec(), model);
    }
}

/// A ring by its definition: the newest slots in a row, of a size that may change.
#[test]
fn rings_keep_the_newest() {
    for text_len in [1, 300] {
        for (old, new) in [(5_u64, 3_u64), (3, 5), (4, 4), (1, 7), (7, 1)] {
            for filled in 1..2 * old {
                let mut array = Array::default();
                let text = |number: u64| vec![b'a' + number as u8; text_len];
                for number in 0..filled {
                    array.make_ring(old);
                    let index = array.borrow().next() % old;
                    array.set(index, Text::Bytes(&text(number)));
                    array.seek(index + 1);
                }
                array.make_ring(new);
                let kept = filled.min(old).min(new);
                let expected: Vec<_> = (filled - kept..filled).map(text).collect();
                assert_eq!(newest(&array, u64::MAX), expected, "{filled} in {old}, then {new}");
                assert_eq!(array.borrow().ring(), new);
            }
        }
    }
}

fn newest(array: &Array, most: u64) -> Vec<Vec<u8>> {
    let array = array.borrow();
    let ranges = array.newest(most).into_iter().flatten();
    let slots = ranges.flat_map(|range| array.slots(range));
    slots.map(|slot| slot.map_or_else(Vec::new, Text::to_vec)).collect()
}

#[test]
fn a_ring_that_shrinks_stops_at_a_hole() {
    let mut array = Array::default();
    array.make_ring(5);
    for index in 0..5 {
        array.set(index, Text::Integer(index as i64));
    }
    array.seek(5);
    array.remove(3);
    array.make_ring(3);
    assert_eq!(newest(&array, 9), [b"4"]);
    assert_eq!((array.borrow().next(), array.borrow().ring()), (1, 3));
}

#[test]
fn state_survives_growth() {
    let mut array = Array::default();
    array.make_ring(10_000);
    array.seek(u64::MAX);
    for index in 0..5000 {
        array.set(index, Text::Integer(index as i64));
    }
    assert!(matches!(array, Array::Large(_)));
    assert_eq!((array.borrow().next(), array.borrow().ring()), (u64::MAX, 10_000));
    let told: Vec<_> = array.borrow().newest(3).into_iter().collect();
    assert_eq!(told, [None, Some(u64::MAX - 3..=u64::MAX - 1)]);
}

/// What an element costs, and that distance costs nothing.
#[test]
fn memory_per_element() {
    let fill = |distance: u64| {
        let mut array = Array::default();
        for number in 0..100_000_u64 {
            let text = format!("{number:016}x");
            array.set(number * distance, Text::Bytes(&text.as_bytes()[..16]));
        }
        let Array::Large(large) = array else { panic!("it is large") };
        large.memory() as f64 / 1e5
    };
    let [dense, near, far] = [1, 1000, 1 << 40].map(fill);
    assert!(dense < 21.0, "{dense} bytes for each of a run");
    assert!(near < 25.5, "{near} bytes with gaps");
    assert!(far < 29.5, "{far} bytes with wide gaps");
}

#[test]
fn no_place_to_append_at_makes_a_small_array_longer_than_its_bound() {
    for gap in 0..40 {
        let mut array = Array::default();
        let len = SMALL_MAX - 40 - gap;
        array.set(0, Text::Bytes(&vec![b'v'; len]));
        array.set(1 << 62, Text::Bytes(&vec![b'v'; gap]));
        assert!(matches!(array, Array::Packed(_)));
        for (next, ring) in [(INDEX_MAX / 2, 0), (INDEX_MAX / 2, INDEX_MAX / 3), (5, 5)] {
            array.set_state(next, ring);
            assert_eq!((array.borrow().next(), array.borrow().ring()), (next, ring));
            let Array::Packed(packed) = &array else { continue };
            assert!(packed.bytes.len() <= SMALL_MAX, "{} with a gap of {gap}", packed.bytes.len());
        }
    }
}
