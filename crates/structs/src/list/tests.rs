//! Lists against a `VecDeque`: by random steps with clones kept aside, and what each costs.

use std::collections::VecDeque;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};

use super::{LargeList, List, ListLimits, ListRef, Side};
use crate::listpack;
use crate::members::Text;
use crate::packing::PACKED_MAX;

#[derive(Clone, Debug)]
enum Step {
    Push { right: bool, texts: Vec<u16> },
    Insert { at: u16, text: u16 },
    Set { at: u16, text: u16 },
    Remove { at: u16, count: u16 },
    RemoveEqual { text: u16, most: u8, right: bool },
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

fn step() -> impl Strategy<Value = Step> {
    let texts = prop::collection::vec(0..128_u16, 1..120);
    prop_oneof![
        4 => (any::<bool>(), texts).prop_map(|(right, texts)| Step::Push { right, texts }),
        3 => (any::<u16>(), 0..128_u16).prop_map(|(at, text)| Step::Insert { at, text }),
        3 => (any::<u16>(), 0..128_u16).prop_map(|(at, text)| Step::Set { at, text }),
        3 => (any::<u16>(), 0..900_u16).prop_map(|(at, count)| Step::Remove { at, count }),
        2 => (0..128_u16, any::<u8>(), any::<bool>())
            .prop_map(|(text, most, right)| Step::RemoveEqual { text, most, right }),
        1 => Just(Step::Keep),
    ]
}

fn side(right: bool) -> Side {
    if right { Side::Right } else { Side::Left }
}

fn take(list: &mut List, model: &mut VecDeque<Vec<u8>>, step: &Step, limits: &ListLimits) {
    match step {
        Step::Push { right, texts } => {
            let texts: Vec<_> = texts.iter().map(|number| text(*number)).collect();
            list.expect(texts.len() as u64, texts.iter().map(Vec::len).sum(), limits);
            list.push(side(*right), texts.iter().map(|text| Text::Bytes(text)));
            for text in texts {
                if *right { model.push_back(text) } else { model.push_front(text) }
            }
        }
        Step::Insert { at, text: number } => {
            let (at, text) = (usize::from(*at) % (model.len() + 1), text(*number));
            list.expect(1, text.len(), limits);
            list.insert(at as u64, Text::Bytes(&text));
            model.insert(at, text);
        }
        Step::Set { at, text: number } if !model.is_empty() => {
            let (at, text) = (usize::from(*at) % model.len(), text(*number));
            list.expect(1, text.len(), limits);
            assert!(list.set(at as u64, Text::Bytes(&text)));
            model[at] = text;
        }
        Step::Remove { at, count } if !model.is_empty() => {
            let start = usize::from(*at) % model.len();
            let end = (start + usize::from(*count)).min(model.len());
            list.remove(start as u64..end as u64);
            model.drain(start..end);
        }
        Step::RemoveEqual { text: number, most, right } => {
            let text = text(*number);
            let equal = (0..model.len()).filter(|at| model[*at] == text);
            let gone: Vec<_> = match right {
                true => equal.rev().take(usize::from(*most)).collect(),
                false => {
                    equal.take(usize::from(*most)).collect::<Vec<_>>().into_iter().rev().collect()
                }
            };
            let removed = list.remove_equal(Text::Bytes(&text), u64::from(*most), side(*right));
            assert_eq!(removed, gone.len() as u64);
            for at in gone {
                model.remove(at);
            }
        }
        Step::Set { .. } | Step::Remove { .. } | Step::Keep => {}
    }
    list.shrink(limits);
}

fn check(list: ListRef<'_>, model: &VecDeque<Vec<u8>>) {
    assert_eq!(list.len(), model.len() as u64);
    assert!(list.iter().map(Text::to_vec).eq(model.iter().cloned()));
    assert!(list.iter().rev().map(Text::to_vec).eq(model.iter().rev().cloned()));
    let (third, end) = (model.len() / 3, model.len() - model.len() / 5);
    let part = list.range(third as u64..end as u64);
    assert!(part.map(Text::to_vec).eq(model.range(third..end).cloned()));
    for at in (0..model.len()).step_by(37) {
        assert_eq!(list.get(at as u64).map(Text::to_vec).as_ref(), model.get(at));
    }
    assert!(list.get(model.len() as u64).is_none());
    let entries = model.iter().map(|text| listpack::Element::Bytes(text).encoded_len());
    assert_eq!(list.listpack_bytes(), listpack::EMPTY_LEN + entries.sum::<usize>());
    match list {
        ListRef::Packed(packed) => assert_eq!(listpack::validate(packed.bytes), Ok(())),
        ListRef::Large(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_list_is_what_a_deque_is_and_clones_stay_what_they_were(
        steps in prop::collection::vec(step(), 1..40),
        size in prop_oneof![Just(-1_i64), Just(-2), Just(-5), Just(0), Just(3), Just(1000)],
    ) {
        let limits = ListLimits::new(size);
        let (mut list, mut model) = (List::default(), VecDeque::new());
        let mut kept = Vec::new();
        for step in &steps {
            take(&mut list, &mut model, step, &limits);
            check(list.borrow(), &model);
            if matches!(step, Step::Keep) {
                kept.push((list.clone(), model.clone()));
            }
        }
        for (list, model) in &kept {
            check(list.borrow(), model);
        }
        let texts = model.iter().map(|text| Text::Bytes(text));
        let built = List::from_texts(texts.clone(), &limits);
        check(built.borrow(), &model);
        check(ListRef::Large(&LargeList::from_texts(texts)), &model);
    }
}

fn pushed(count: usize, text: &[u8], limits: &ListLimits) -> List {
    let mut list = List::default();
    for _ in 0..count {
        list.expect(1, text.len(), limits);
        list.push(Side::Right, [Text::Bytes(text)]);
    }
    list
}

#[test]
fn a_list_is_a_quicklist_beyond_its_limits_and_a_listpack_again_at_half_of_them() {
    let limits = ListLimits::new(-1);
    let mut list = pushed(227, &[b'x'; 16], &limits);
    assert_eq!((list.borrow().encoding(), list.borrow().listpack_bytes()), ("listpack", 4093));
    list.expect(1, 4, &limits);
    list.push(Side::Left, [Text::Integer(1)]);
    assert_eq!(list.borrow().encoding(), "quicklist");
    list.remove(113..228);
    list.shrink(&limits);
    assert_eq!((list.borrow().encoding(), list.borrow().listpack_bytes()), ("listpack", 2025));

    let limits = ListLimits::new(5);
    let mut list = pushed(5, b"x", &limits);
    assert_eq!(list.borrow().encoding(), "listpack");
    list.expect(1, 1, &limits);
    list.push(Side::Right, [Text::Bytes(b"x")]);
    assert_eq!(list.borrow().encoding(), "quicklist");
    list.remove(0..3);
    list.shrink(&limits);
    assert_eq!(list.borrow().encoding(), "quicklist");
    list.remove(0..1);
    list.shrink(&limits);
    assert_eq!(list.borrow().encoding(), "listpack");
}

#[test]
fn the_classes_of_bytes_are_those_of_the_directive() {
    let classes = [-1, -2, -3, -4, -5, -6, i64::MIN].map(|size| ListLimits::new(size).bytes);
    assert_eq!(classes, [4096, 8192, 16_384, 32_768, 65_536, 65_536, 65_536]);
    assert_eq!(ListLimits::new(0), ListLimits::new(1));
}

#[test]
fn a_listpack_that_would_be_too_long_is_one_by_name_only() {
    let limits = ListLimits::new(-5);
    let mut list = List::default();
    list.expect(40_000, 40_000, &limits);
    list.push(Side::Right, std::iter::repeat_n(Text::Bytes(b"x"), 40_000));
    assert!(matches!(list, List::Large(_)));
    assert_eq!(list.borrow().encoding(), "listpack");
    list.remove(0..35_000);
    list.shrink(&limits);
    assert!(matches!(&list, List::Packed(packed) if packed.bytes.len() < PACKED_MAX));
    assert_eq!(list.borrow().len(), 5_000);
}

#[test]
fn a_million_elements_of_16_bytes_take_less_than_19_bytes_each() {
    let limits = ListLimits::new(-2);
    for side in [Side::Left, Side::Right] {
        let mut list = List::default();
        for number in 0..1_000_000 {
            let text = format!("element:{number:08}");
            list.expect(1, text.len(), &limits);
            list.push(side, [Text::Bytes(text.as_bytes())]);
        }
        let List::Large(large) = &list else { panic!("a million elements are many") };
        let each = large.memory() as f64 / 1e6;
        assert!((18.0..19.0).contains(&each), "{each} bytes each from {side:?}");
        let texts = list.borrow().iter();
        let built = LargeList::from_texts(texts).memory() as f64 / 1e6;
        assert!((18.0..19.0).contains(&built), "{built} bytes each when built");
    }
}

#[test]
fn a_clone_costs_little_and_shares() {
    let limits = ListLimits::new(-2);
    let list = pushed(100_000, b"an element of many", &limits);
    let mut other = list.clone();
    other.remove(10..99_990);
    other.insert(5, Text::Bytes(b"new"));
    assert_eq!((list.borrow().len(), other.borrow().len()), (100_000, 21));
    assert_eq!(other.borrow().get(5).map(Text::to_vec), Some(b"new".to_vec()));
}
