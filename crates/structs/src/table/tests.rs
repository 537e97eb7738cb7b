//! The table against a naive model, its invariants, its bounds.

use std::cell::Cell;

use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};

use super::segment::size_class;
use super::{Address, Bucket, Place, Table};
use crate::arena::class_size;

thread_local! {
    static MOVES: Cell<usize> = const { Cell::new(0) };
}

/// Called for every word that is put into a bucket.
pub(super) fn count_move() {
    MOVES.set(MOVES.get() + 1);
}

/// A table with the hashes that its owner would compute. Addresses are indexes into `hashes`,
/// counted from 1.
#[derive(Default)]
struct Model {
    table: Table,
    hashes: Vec<u64>,
    present: Vec<Address>,
}

impl Model {
    fn hash(&self, address: Address) -> u64 {
        self.hashes[address.get() as usize - 1]
    }

    fn new_address(&mut self, hash: u64) -> Address {
        self.hashes.push(hash);
        Address::new(self.hashes.len() as u64).unwrap()
    }

    fn insert(&mut self, hash: u64) -> Address {
        let address = self.new_address(hash);
        self.present.push(address);
        let hashes = &self.hashes;
        self.table.insert(hash, address, |address| hashes[address.get() as usize - 1]);
        address
    }

    fn find(&self, address: Address) -> Option<Place> {
        self.table.find(self.hash(address), |candidate| candidate == address)
    }

    fn replace(&mut self, index: usize) {
        let old = self.present[index];
        let new = self.new_address(self.hash(old));
        let place = self.find(old).unwrap();
        assert_eq!(self.table.replace(place, new), old);
        assert_eq!(self.table.at(place), new);
        self.present[index] = new;
    }

    fn remove(&mut self, index: usize) {
        let address = self.present.swap_remove(index);
        let place = self.find(address).unwrap();
        assert_eq!(self.table.at(place), address);
        assert_eq!(self.table.remove(place), address);
        assert_eq!(self.find(address), None);
    }

    fn remove_any(&mut self, random: u64) {
        if !self.present.is_empty() {
            self.remove(random as usize % self.present.len());
        }
    }

    /// The structure holds, and the contents are those of the model.
    fn check(&self) {
        self.table.check(|address| self.hash(address));
        assert_eq!(self.table.len(), self.present.len());
        assert_eq!(self.table.is_empty(), self.present.is_empty());
        assert!(self.present.iter().all(|address| self.find(*address).is_some()));
        let mut expected = self.marks();
        for address in self.table.iter() {
            let once = std::mem::replace(&mut expected[address.get() as usize], false);
            assert!(once, "{address:?} is foreign, or there twice");
        }
        assert!(!expected.contains(&true));
    }

    /// Which addresses are present, by their number.
    fn marks(&self) -> Vec<bool> {
        let mut marks = vec![false; self.hashes.len() + 1];
        for address in &self.present {
            marks[address.get() as usize] = true;
        }
        marks
    }
}

/// SplitMix64: well-spread hashes of successive numbers.
fn spread(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[derive(Clone, Debug)]
enum Step {
    Insert { many: usize, seed: u64, mask: u64 },
    Remove { many: usize, seed: u64 },
    Replace { seed: u64 },
    Walk { at_least: usize },
}

/// Hashes of all 64 bits, all under one prefix, or of 2,048 values.
fn mask() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(u64::MAX),
        1 => Just(u64::MAX >> 3),
        1 => Just(0xffe0_0000_0000_0000),
    ]
}

/// Besides, hashes of 64 values or a single one, which take too long where there are many.
fn narrow_mask() -> impl Strategy<Value = u64> {
    prop_oneof![3 => mask(), 1 => Just(0x0000_0700_0700_0000), 1 => Just(0)]
}

fn step(many: usize, mask: impl Strategy<Value = u64>) -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..many, any::<u64>(), mask)
            .prop_map(|(many, seed, mask)| Step::Insert { many, seed, mask }),
        3 => (1..many, any::<u64>()).prop_map(|(many, seed)| Step::Remove { many, seed }),
        1 => any::<u64>().prop_map(|seed| Step::Replace { seed }),
        3 => (0..200_usize).prop_map(|at_least| Step::Walk { at_least }),
    ]
}

/// Runs the steps; a walk goes on through all of them, and begins anew when it has ended.
fn run(steps: &[Step]) {
    let mut model = Model::default();
    let mut position = 0;
    // Of the walk that is under way: what was there all the time, and what it has met of that.
    let mut unseen: Vec<bool> = Vec::new();
    for step in steps {
        match *step {
            Step::Insert { many, seed, mask } => {
                for number in 0..many as u64 {
                    model.insert(spread(seed.wrapping_add(number)) & mask);
                }
            }
            Step::Remove { many, seed } => {
                for number in 0..many as u64 {
                    model.remove_any(spread(seed.wrapping_add(number)));
                }
            }
            Step::Replace { seed } if !model.present.is_empty() => {
                model.replace(seed as usize % model.present.len());
            }
            Step::Replace { .. } => {}
            Step::Walk { at_least } => {
                if position == 0 {
                    unseen = model.marks();
                }
                let next = model.table.walk(position, at_least, |address| {
                    // What came after the walk began has no mark.
                    unseen.get_mut(address.get() as usize).into_iter().for_each(|it| *it = false);
                });
                assert!(next.is_none_or(|next| next > position && next.trailing_zeros() >= 26));
                position = next.unwrap_or(0);
                assert!(position != 0 || !unseen.contains(&true));
            }
        }
        model.check();
        for (unseen, present) in unseen.iter_mut().zip(model.marks()) {
            *unseen &= present;
        }
    }
    while !model.present.is_empty() {
        model.remove(model.present.len() - 1);
    }
    model.check();
    assert_eq!(model.table.memory(), 0);
}

proptest! {
    #![proptest_config(proptest::test_runner::Config {
        cases: 128, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn small_tables_match_the_model(
        steps in prop::collection::vec(step(30, narrow_mask()), 1..40)
    ) {
        run(&steps);
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config {
        cases: 8, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn large_tables_match_the_model(steps in prop::collection::vec(step(5_000, mask()), 1..14)) {
        run(&steps);
    }
}

#[test]
fn an_address_is_below_2_48_and_not_zero() {
    assert_eq!(Address::new(0), None);
    assert_eq!(Address::new(1 << 48), None);
    assert_eq!(Address::new((1 << 48) - 1).map(Address::get), Some((1 << 48) - 1));
}

#[test]
fn an_empty_table_has_nothing_and_no_memory() {
    let table = Table::new();
    assert_eq!(table.find(7, |_| true), None);
    assert_eq!(table.first_candidate(7), None);
    assert_eq!(table.sample(7), None);
    assert_eq!(table.walk(0, 10, |_| unreachable!()), None);
    assert_eq!(table.memory(), 0);
    table.prefetch(7);
}

#[test]
fn a_thousand_equal_hashes_work() {
    let mut model = Model::default();
    for hash in [0, u64::MAX, 0x1234_5678_9abc_def0] {
        for _ in 0..1_000 {
            model.insert(hash);
        }
        model.check();
    }
    for number in 0..3_000 {
        model.remove_any(spread(number));
    }
    assert_eq!(model.table.memory(), 0);
}

#[test]
fn equal_hashes_beyond_a_segment_do_not_blow_up_the_directory() {
    let mut model = Model::default();
    for number in 0..10_000 {
        model.insert(if number % 2 == 0 { 1 << 63 } else { spread(number) });
    }
    let shape = model.table.shape();
    assert!(shape.depth <= 6, "{shape:?}");
    assert_eq!(shape.words, 10_000);
    assert_eq!(shape.buckets_by_fill.iter().sum::<usize>(), shape.buckets);
}

#[test]
fn no_step_moves_more_than_one_segment() {
    let mut model = Model::default();
    let mut most = 0;
    for number in 0..300_000 {
        MOVES.set(0);
        model.insert(spread(number));
        most = most.max(MOVES.get());
    }
    assert!((2_500..=512 * 6 + 1).contains(&most), "an insertion moved {most} words");
    model.table.check(|address| model.hash(address));
    let shape = model.table.shape();
    assert!(shape.longest_run <= 24, "{shape:?}");
    most = 0;
    for number in 0..300_000 {
        MOVES.set(0);
        model.remove_any(spread(number));
        most = most.max(MOVES.get());
    }
    assert!((500..=512 * 6).contains(&most), "a removal moved {most} words");
    assert_eq!(model.table.memory(), 0);
}

#[test]
fn an_entry_costs_about_twelve_bytes() {
    let mut model = Model::default();
    let mut cost = 0.0;
    for number in 0..50_000 {
        model.insert(spread(number));
        if number >= 60 {
            cost += model.table.memory() as f64 / model.table.len() as f64;
        }
    }
    let average = cost / (50_000 - 60) as f64;
    assert!(average <= 12.3, "{average} bytes an entry");
}

#[test]
fn a_walk_without_changes_sees_every_entry_once() {
    for len in [1, 7, 8, 9, 100, 3_000, 20_000] {
        let mut model = Model::default();
        for number in 0..len {
            model.insert(spread(number));
        }
        let mut seen = Vec::new();
        let mut position = Some(0);
        while let Some(from) = position {
            let before = seen.len();
            position = model.table.walk(from, 10, |address| seen.push(address.get()));
            assert!(seen.len() < before + 50);
        }
        seen.sort_unstable();
        assert!(seen.iter().copied().eq(1..=len));
    }
}

#[test]
fn a_walk_tells_the_first_bits_of_each_hash() {
    for len in [1, 100, 20_000] {
        let mut model = Model::default();
        for number in 0..len {
            model.insert(spread(number));
        }
        let (mut seen, mut from) = (0, Some(0));
        while let Some(place) = from {
            from = model.table.walk_positions(place, 10, |position, address| {
                let hash = spread(address.get() - 1);
                assert_eq!(position >> 48, hash >> 48, "as many as a table keeps of any hash");
                assert!(position <= hash, "the rest are zeros");
                seen += 1;
            });
        }
        assert_eq!(seen, len);
    }
}

#[test]
fn what_a_walk_tells_of_a_hash_finds_the_entry_while_others_go() {
    let mut model = Model::default();
    for number in 0..20_000 {
        model.insert(spread(number));
    }
    let mut told = Vec::new();
    let mut from = Some(0);
    while let Some(place) = from {
        model.table.prefetch_walk(place, 100);
        from = model
            .table
            .walk_positions(place, 100, |position, address| told.push((position, address)));
    }
    // In an order of its own, so that segments shrink and join all the while.
    told.sort_unstable_by_key(|(position, _)| position.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    assert_eq!(told.len(), 20_000);
    for (position, address) in told {
        let place = model.table.find(position, |found| found == address);
        assert_eq!(model.table.remove(place.expect("nobody took it")), address);
    }
    assert_eq!((model.table.len(), model.table.memory()), (0, 0));
}

#[test]
fn a_walk_over_few_entries_stops_at_its_budget() {
    let mut model = Model::default();
    // One entry far behind many: the directory keeps its depth, most segments are empty.
    for number in 0..20_000 {
        model.insert(spread(number) | 1 << 63);
    }
    let mut steps = 0;
    let mut position = Some(0);
    while let Some(from) = position {
        position = model.table.walk(from, 1, |_| {});
        steps += 1;
    }
    assert!(steps > 1_000);
}

#[test]
fn samples_reach_every_entry_about_equally() {
    for len in [1, 3, 100, 10_000] {
        let mut model = Model::default();
        for number in 0..len {
            model.insert(spread(number));
        }
        let mut counts = vec![0_u32; len as usize];
        for number in 0..len * 100 {
            let address = model.table.sample(spread(number + 1_000_000)).unwrap();
            counts[address.get() as usize - 1] += 1;
        }
        assert!(counts.iter().all(|count| (30..250).contains(count)), "{len}: {counts:?}");
    }
}

#[test]
fn the_first_candidate_is_nearly_always_the_entry() {
    let mut model = Model::default();
    for number in 0..5_000 {
        model.insert(spread(number));
    }
    let right = model
        .present
        .iter()
        .filter(|address| model.table.first_candidate(model.hash(**address)) == Some(**address));
    assert!(right.count() > 4_700);
}

#[test]
fn drain_hands_out_everything_and_frees_the_memory() {
    let mut model = Model::default();
    for number in 0..5_000 {
        model.insert(spread(number));
    }
    let mut count = 0;
    model.table.drain(|_| count += 1);
    assert_eq!((count, model.table.len(), model.table.memory()), (5_000, 0, 0));
}

#[test]
fn what_is_relocated_is_found_at_its_new_address() {
    for len in [0, 1, 7, 300, 3000, 40_000] {
        let mut table = Table::new();
        for number in 1..=len {
            let address = Address::new(number).unwrap();
            table.insert(spread(number), address, |address| spread(address.get()));
        }
        let (mut position, mut steps) = (Some(0), 0);
        let relocate = |address: Address| {
            // Every other one moves, once.
            let number = address.get();
            let moves = number <= len && number.is_multiple_of(2);
            moves.then(|| Address::new(number + len).unwrap())
        };
        while let Some(from) = position {
            position = table.relocate(from, 16, |_| (), relocate);
            steps += 1;
        }
        assert!(steps as u64 >= len / 32, "{steps} steps for {len}");
        table.check(|address| {
            spread(if address.get() > len { address.get() - len } else { address.get() })
        });
        for number in 1..=len {
            let expected = if number.is_multiple_of(2) { number + len } else { number };
            let found = table.find(spread(number), |address| address.get() == expected);
            assert!(found.is_some(), "{number} of {len}");
        }
        assert_eq!(table.len() as u64, len);
    }
}

#[test]
fn segments_are_classes_of_the_arena_and_so_lie_on_cache_lines() {
    for size in (1..5000).map(|buckets| size_class(buckets) * size_of::<Bucket>()) {
        assert_eq!(class_size(size), size);
    }
}
