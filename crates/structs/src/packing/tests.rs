//! No edit of a small container makes it longer than its bound, however near the bound it begins
//! and whatever room the edit takes.

use base::Random;
use proptest::prelude::{ProptestConfig, Strategy, any, prop, prop_assert, proptest};

use super::{PACKED_MAX, Packed, Packing};
use crate::hash::{Hash, HashLimits};
use crate::list::{List, ListLimits, Side};
use crate::listpack::{self, Element};
use crate::members::{Lifetime, Text};
use crate::set::{Set, SetLimits};
use crate::sorted_set::{SortedSet, SortedSetLimits};

const HASH: HashLimits = HashLimits { entries: u64::MAX, value_bytes: usize::MAX };
const SET: SetLimits = SetLimits {
    intset_entries: u64::MAX,
    listpack_entries: u64::MAX,
    listpack_value_bytes: usize::MAX,
};
const SORTED_SET: SortedSetLimits = SortedSetLimits { entries: u64::MAX, value_bytes: usize::MAX };

/// One edit: which, of which element, of how many bytes, and a number for it.
#[derive(Clone, Debug)]
struct Edit {
    which: u8,
    place: usize,
    len: usize,
    number: i64,
}

/// Where a container begins: bytes of its names, and how far below the bound.
#[derive(Clone, Debug)]
struct Start {
    name_len: usize,
    gap: usize,
    /// Whether the gap is left by two more bytes for each name, as deadlines take at first.
    is_left_by_deadlines: bool,
}

impl Edit {
    fn text(&self) -> Vec<u8> {
        vec![b'v'; self.len]
    }

    /// A name that the container began with.
    fn name(&self, start: &Start) -> Vec<u8> {
        start.name(self.place % (PACKED_MAX / (start.name_len + 10)))
    }

    /// A name that it did not begin with.
    fn new_name(&self) -> Vec<u8> {
        format!("new{}{}", self.place, "n".repeat(self.len)).into_bytes()
    }
}

impl Start {
    fn name(&self, number: usize) -> Vec<u8> {
        format!("m{number:05}{}", "n".repeat(self.name_len)).into_bytes()
    }

    /// A listpack of names, each with these elements behind it.
    fn listpack(&self, others: &[Element<'_>]) -> Packed {
        let mut bytes = listpack::new();
        let (mut number, mut target) = (0, PACKED_MAX - self.gap);
        let others_len: usize = others.iter().map(|element| element.encoded_len()).sum();
        loop {
            let mut name = self.name(number);
            let group_len = Element::Bytes(&name).encoded_len() + others_len;
            let is_last = bytes.len() + 2 * group_len > target;
            if is_last {
                let fits = |len: usize| {
                    let name_len = Element::Bytes(&vec![b'l'; len]).encoded_len();
                    bytes.len() + name_len + others_len <= target
                };
                let len = (1..=2 * group_len).rev().find(|len| fits(*len)).unwrap_or(1);
                name.resize(len, b'l');
            }
            listpack::push_back(&mut bytes, Element::Bytes(&name));
            others.iter().for_each(|element| listpack::push_back(&mut bytes, *element));
            if is_last {
                break;
            }
            number += 1;
            target -= 2 * usize::from(self.is_left_by_deadlines);
        }
        Packed { packing: Packing::Listpack, bytes }
    }
}

fn start() -> impl Strategy<Value = Start> {
    (0..150_usize, 0..150_usize, any::<bool>()).prop_map(|(name_len, gap, is_left_by_deadlines)| {
        Start { name_len, gap, is_left_by_deadlines }
    })
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = (any::<u8>(), any::<usize>(), 0..60_usize, any::<i64>())
        .prop_map(|(which, place, len, number)| Edit { which, place, len, number });
    prop::collection::vec(edit, 1..80)
}

fn edit_hash(hash: &mut Hash, start: &Start, edit: &Edit) {
    let (name, value, until) = (edit.name(start), edit.text(), 1_i64 << 45);
    let mut set = |name: &[u8], lifetime| {
        hash.set(Text::Bytes(name), Text::Bytes(&value), lifetime, &HASH);
    };
    match edit.which {
        0..6 => set(&edit.new_name(), Lifetime::Keep),
        6..40 => set(&edit.new_name(), Lifetime::Until(until)),
        40..46 => set(&name, Lifetime::Keep),
        46..52 => set(&name, Lifetime::Endless),
        52..80 => set(&name, Lifetime::Until(until)),
        80..86 => _ = hash.remove(&name),
        86..92 => _ = hash.take_at(edit.place as u64 % hash.borrow().len().max(1)),
        92..96 => _ = hash.take_expired(until, 1),
        96..110 => _ = hash.set_deadline(&name, None),
        110..180 => _ = hash.set_deadline(&name, Some(until)),
        180.. => _ = hash.judge_deadline(&name, |_| Some(Some(until))),
    }
}

fn edit_set(set: &mut Set, start: &Start, edit: &Edit) {
    let name = edit.name(start);
    match edit.which {
        0..100 => _ = set.insert(Text::Bytes(&edit.new_name()), &SET),
        100..150 => _ = set.insert(Text::Integer(edit.number), &SET),
        150..170 => _ = set.insert(Text::Integer(edit.number >> 48), &SET),
        170..190 => _ = set.remove(Text::Bytes(&name)),
        190..210 => _ = set.take_at(edit.place as u64 % set.borrow().len().max(1)),
        210..240 => _ = set.pop_many(2, &mut Random::from_seed(edit.place as u64)),
        240..250 => _ = set.set_deadline(&name, None),
        250..253 => _ = set.set_deadline(&name, Some(1)),
        253.. => _ = set.insert_until(Text::Bytes(&edit.new_name()), 1),
    }
}

fn edit_sorted_set(set: &mut SortedSet, start: &Start, edit: &Edit) {
    let (name, score) = (edit.name(start), edit.number as f64 / 1e17);
    match edit.which {
        0..60 => _ = set.insert(Text::Bytes(&edit.new_name()), score, &SORTED_SET),
        60..90 => _ = set.insert(Text::Integer(edit.number), 1.0, &SORTED_SET),
        90..190 => _ = set.insert(Text::Bytes(&name), score, &SORTED_SET),
        190..220 => _ = set.remove(&name),
        220..240 => set.remove_ranks(3..5),
        240..250 => _ = set.set_deadline(&name, None),
        250.. => _ = set.set_deadline(&name, Some(1)),
    }
}

fn edit_list(list: &mut List, edit: &Edit) {
    let (text, len) = (edit.text(), list.borrow().len());
    let index = edit.place as u64 % len.max(1);
    match edit.which % 10 {
        0 => list.push(Side::Left, [Text::Bytes(&text), Text::Integer(edit.number)]),
        1 => list.push(Side::Right, [Text::Integer(edit.number), Text::Bytes(&text)]),
        2 => list.insert(index, Text::Bytes(&text)),
        3 => list.insert(index, Text::Integer(edit.number)),
        4 | 5 => _ = list.set(index, Text::Bytes(&text)),
        6 => _ = list.set(index, Text::Integer(edit.number)),
        7 => list.remove(index..len.min(index + 2)),
        8 => _ = list.remove_equal(Text::Bytes(&text), 1, Side::Left),
        _ => list.shrink(&ListLimits::new(-5)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn no_edit_of_a_small_hash_outgrows_the_bound(
        start in start(),
        edits in edits(),
        is_timed in any::<bool>(),
    ) {
        let (value, endless) = (Element::Integer(1), Element::Integer(0));
        let mut packed = match is_timed {
            true => start.listpack(&[value, endless]),
            false => start.listpack(&[value]),
        };
        if is_timed {
            packed.packing = Packing::TimedListpack;
        }
        let mut hash = Hash::Packed(packed);
        for edit in &edits {
            edit_hash(&mut hash, &start, edit);
            let Hash::Packed(packed) = &hash else { break };
            prop_assert!(packed.bytes.len() <= PACKED_MAX, "{}: {edit:?}", packed.bytes.len());
        }
    }

    #[test]
    fn no_edit_of_a_small_set_outgrows_the_bound(
        start in start(),
        edits in edits(),
        widest in prop::option::of(13..63_u32),
    ) {
        let widest = widest.map(|bits| 1_i64 << bits);
        let mut set = match widest {
            None => Set::Packed(start.listpack(&[])),
            Some(widest) => {
                let width = [1 << 15, 1 << 31].iter().filter(|most| widest >= **most).count();
                let count = ((PACKED_MAX - start.gap) / (2 << width)) as i64 - 8;
                let least = i64::from(i16::MIN);
                let mut integers: Vec<i64> = (least..least + count).collect();
                integers.push(widest);
                Set::of_integers(&mut integers).expect("so many are within the bound")
            }
        };
        for edit in &edits {
            edit_set(&mut set, &start, edit);
            let Set::Packed(packed) = &set else { break };
            prop_assert!(packed.bytes.len() <= PACKED_MAX, "{}: {edit:?}", packed.bytes.len());
        }
    }

    #[test]
    fn no_edit_of_a_small_sorted_set_outgrows_the_bound(start in start(), edits in edits()) {
        let mut set = SortedSet::Packed(start.listpack(&[Element::Integer(0)]));
        for edit in &edits {
            edit_sorted_set(&mut set, &start, edit);
            let SortedSet::Packed(packed) = &set else { break };
            prop_assert!(packed.bytes.len() <= PACKED_MAX, "{}: {edit:?}", packed.bytes.len());
        }
    }

    #[test]
    fn no_edit_of_a_small_list_outgrows_the_bound(start in start(), edits in edits()) {
        let mut list = List::Packed(start.listpack(&[]));
        for edit in &edits {
            edit_list(&mut list, edit);
            let List::Packed(packed) = &list else { break };
            prop_assert!(packed.bytes.len() <= PACKED_MAX, "{}: {edit:?}", packed.bytes.len());
        }
    }
}
