//! The tree against a sorted or a plain vector, with its invariants checked after each step.

use std::collections::HashSet;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};

use super::node::{CHILDREN_MAX, Inner, Node};
use super::{Growth, LEAF_MAX, Leaf, Summary, Tree};

/// Three to a leaf, so that trees grow high soon.
const ELEMENT_BYTES: usize = 1300;

/// A leaf of numbers, ordered (`u64`) or positional (`()`).
#[derive(Clone, Default)]
struct Page<B>(Vec<u64>, PhantomData<B>);

trait Separator: Clone + Default + PartialOrd + Debug {
    fn of(element: u64) -> Self;
}

impl Separator for () {
    fn of(_element: u64) {}
}

impl Separator for u64 {
    fn of(element: u64) -> u64 {
        element
    }
}

#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct CountAndMaximum(u64, u64);

impl Summary for CountAndMaximum {
    fn plus(self, other: Self) -> Self {
        CountAndMaximum(self.0 + other.0, self.1.max(other.1))
    }

    fn minus(self, part: Self) -> Option<Self> {
        (part.1 < self.1).then_some(CountAndMaximum(self.0 - part.0, self.1))
    }

    fn count(self) -> u64 {
        self.0
    }
}

impl<B: Separator> Leaf for Page<B> {
    type Bound = B;
    type Summary = CountAndMaximum;

    fn summary(&self) -> CountAndMaximum {
        let maximum = self.0.iter().copied().max();
        CountAndMaximum(self.0.len() as u64, maximum.unwrap_or_default())
    }

    fn size(&self) -> usize {
        self.0.len() * ELEMENT_BYTES
    }

    fn memory(&self) -> usize {
        self.0.len() * 8
    }

    fn bound(&self) -> B {
        B::of(self.0[0])
    }

    fn bound_memory(_bound: &B) -> usize {
        5
    }

    fn split(&mut self, growth: Growth) -> Option<(B, Self)> {
        let at = match growth {
            Growth::Within => self.0.len() / 2,
            Growth::AtStart => 1,
            Growth::AtEnd => self.0.len() - 1,
        };
        let upper = Page(self.0.split_off(at), PhantomData);
        Some((upper.bound(), upper))
    }

    fn absorb(&mut self, mut next: Self) {
        self.0.append(&mut next.0);
    }
}

fn page<B>(elements: &[u64]) -> Page<B> {
    Page(elements.to_vec(), PhantomData)
}

fn cut<B>(page: &mut Page<B>, offset: u64) -> Page<B> {
    assert!(offset > 0 && offset < page.0.len() as u64);
    Page(page.0.split_off(offset as usize), PhantomData)
}

fn tree_of<B: Separator>(elements: &[u64]) -> Tree<Page<B>> {
    Tree::from_leaves(elements.chunks(3).map(page))
}

fn elements_of<B: Separator>(tree: &Tree<Page<B>>, ranks: Range<u64>) -> Vec<u64> {
    tree.leaves(ranks).flat_map(|(page, offsets)| page.0[offsets].to_vec()).collect()
}

/// Asserts what the head of `tree.rs` promises of a node; gives its summary and memory.
fn check_node<B: Separator>(
    node: &Node<Page<B>>,
    height: u32,
    at_or_above: Option<&B>,
    below: Option<&B>,
) -> (CountAndMaximum, usize) {
    let (summary, memory) = match node {
        Node::Leaf(leaf) => {
            assert_eq!(height, 0);
            assert!(!leaf.0.is_empty() && leaf.size() <= LEAF_MAX);
            for element in &leaf.0 {
                let element = B::of(*element);
                assert!(at_or_above.is_none_or(|bound| *bound <= element));
                assert!(below.is_none_or(|bound| element < *bound || B::of(0) == B::of(1)));
            }
            (leaf.summary(), node.memory())
        }
        Node::Inner(inner) => {
            let children = inner.children.len();
            assert!((1..=CHILDREN_MAX).contains(&children) && height > 0);
            assert!(inner.bounds.len() == children && inner.summaries.len() == children);
            let (mut summary, mut memory) = (CountAndMaximum::default(), 0);
            for (index, child) in inner.children.iter().enumerate() {
                let lower = if index == 0 { at_or_above } else { Some(&inner.bounds[index]) };
                let upper = inner.bounds.get(index + 1).or(below);
                let (of_child, memory_of_child) = check_node(child, height - 1, lower, upper);
                assert_eq!(of_child, inner.summaries[index]);
                summary = summary.plus(of_child);
                memory += memory_of_child + Page::bound_memory(&inner.bounds[index]);
            }
            assert_eq!(memory, inner.memory_below);
            assert!(node.memory() <= memory + 4096);
            (summary, node.memory())
        }
    };
    assert_eq!(summary, node.summary());
    assert_eq!(memory, node.memory());
    (summary, memory)
}

fn check<B: Separator>(tree: &Tree<Page<B>>, model: &[u64]) {
    if let Some(root) = &tree.root {
        check_node(root, root.height(), None, None);
        assert!(root.only_child().is_none());
    }
    assert_eq!(tree.len(), model.len() as u64);
    assert_eq!(tree.is_empty(), model.is_empty());
    assert!(elements_of(tree, 0..u64::MAX) == model);
}

#[derive(Clone, Debug)]
enum Step {
    Insert { place: usize, count: usize },
    Remove { place: usize, count: usize },
    RemoveRange { place: usize, count: usize },
    Split(usize),
    Append(usize),
    Prepend(usize),
    Clone,
    Swap,
    Read { place: usize, count: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let place = any::<usize>;
    prop_oneof![
        4 => (place(), 0..60_usize).prop_map(|(place, count)| Step::Insert { place, count }),
        1 => (place(), 0..700_usize).prop_map(|(place, count)| Step::Insert { place, count }),
        4 => (place(), 0..60_usize).prop_map(|(place, count)| Step::Remove { place, count }),
        2 => (place(), 0..40_usize).prop_map(|(place, count)| Step::RemoveRange { place, count }),
        1 => (place(), place()).prop_map(|(place, count)| Step::RemoveRange { place, count }),
        1 => place().prop_map(Step::Split),
        1 => (0..900_usize).prop_map(Step::Append),
        1 => (0..900_usize).prop_map(Step::Prepend),
        2 => any::<bool>().prop_map(|clone| if clone { Step::Clone } else { Step::Swap }),
        2 => (place(), 0..200_usize).prop_map(|(place, count)| Step::Read { place, count }),
    ]
}

fn ranks(range: &Range<usize>) -> Range<u64> {
    range.start as u64..range.end as u64
}

/// Both a tree and what it should hold.
struct Pair<B: Separator> {
    tree: Tree<Page<B>>,
    model: Vec<u64>,
}

impl<B: Separator> Clone for Pair<B> {
    fn clone(&self) -> Self {
        Pair { tree: self.tree.clone(), model: self.model.clone() }
    }
}

impl<B: Separator> Pair<B> {
    /// A range of `count` elements that exist.
    fn range(&self, place: usize, count: usize) -> Range<usize> {
        let start = place % (self.model.len() + 1);
        start..start + count % (self.model.len() - start + 1)
    }

    fn remove_range(&mut self, place: usize, count: usize) {
        let range = self.range(place, count);
        let removed = self.tree.remove_range(ranks(&range), cut);
        let expected: Vec<u64> = self.model.drain(range).collect();
        check(&removed, &expected);
    }

    fn concatenate(&mut self, count: usize, at_end: bool, base: u64) {
        let more: Vec<u64> = (base..base + count as u64).collect();
        let more_tree = tree_of(&more);
        if at_end {
            self.tree.append(more_tree);
            self.model.extend(more);
        } else {
            let upper = std::mem::replace(&mut self.tree, more_tree);
            self.tree.append(upper);
            self.model.splice(0..0, more);
        }
    }

    fn read(&self, place: usize, count: usize) {
        let range = self.range(place, count);
        let expected = &self.model[range.clone()];
        assert!(elements_of(&self.tree, ranks(&range)) == expected);
        let mut back: Vec<u64> = Vec::new();
        let mut leaves = self.tree.leaves(ranks(&range));
        while let Some((page, offsets)) = leaves.next_back() {
            back.extend(page.0[offsets].iter().rev());
        }
        assert!(back.iter().rev().eq(expected));
        let at = self.tree.at(range.start as u64).map(|(page, offset)| page.0[offset as usize]);
        assert_eq!(at, self.model.get(range.start).copied());
        let Some(maximum) = self.model.iter().max() else {
            assert!(self.tree.find_summary(|_| true).is_none());
            return;
        };
        assert!(self.tree.find_summary(|summary| summary.1 > *maximum).is_none());
        let (page, rank) = self.tree.find_summary(|summary| summary.1 == *maximum).unwrap();
        let first = self.model.iter().position(|element| element == maximum).unwrap();
        assert!((rank as usize..rank as usize + page.0.len()).contains(&first));
    }
}

/// Runs the steps; `insert` and `remove` do what only one kind of tree can do.
fn run<B: Separator>(
    steps: Vec<Step>,
    insert: fn(&mut Pair<B>, usize),
    remove: fn(&mut Pair<B>, usize),
) {
    let mut pair: Pair<B> = Pair { tree: Tree::new(), model: Vec::new() };
    let mut clones: Vec<Pair<B>> = Vec::new();
    // Numbers above and below all that single inserts make.
    let (mut high, mut low) = (1 << 62, 1 << 61);
    for step in steps {
        match step {
            Step::Insert { place, count } => {
                (0..count).for_each(|index| insert(&mut pair, place.wrapping_add(index * 7)));
            }
            Step::Remove { place, count } => {
                for index in 0..count.min(pair.model.len()) {
                    remove(&mut pair, place.wrapping_add(index * 5));
                }
            }
            Step::RemoveRange { place, count } => pair.remove_range(place, count),
            Step::Split(place) => {
                let at = pair.range(place, 0).start;
                let upper = pair.tree.split_off(at as u64, cut);
                let upper_model = pair.model.split_off(at);
                check(&upper, &upper_model);
                check(&pair.tree, &pair.model);
                pair.tree.append(upper);
                pair.model.extend(upper_model);
            }
            Step::Append(count) => {
                pair.concatenate(count, true, high);
                high += count as u64;
            }
            Step::Prepend(count) => {
                low -= count as u64;
                pair.concatenate(count, false, low);
            }
            Step::Clone => clones.push(pair.clone()),
            Step::Swap if clones.is_empty() => {}
            Step::Swap => std::mem::swap(&mut pair, &mut clones[0]),
            Step::Read { place, count } => pair.read(place, count),
        }
        check(&pair.tree, &pair.model);
        // What is said to be as it was has the same elements.
        for clone in clones.iter().filter(|clone| clone.tree.is_same(&pair.tree)) {
            assert_eq!(clone.model, pair.model);
        }
    }
    assert!(clones.iter().all(|clone| clone.tree.is_same(&clone.tree.clone())));
    for clone in &clones {
        check(&clone.tree, &clone.model);
    }
    let everything = 0..pair.model.len();
    pair.tree.remove_range(ranks(&everything), cut);
    assert_eq!((pair.tree.len(), pair.tree.memory()), (0, 0));
}

fn insert_ordered(pair: &mut Pair<u64>, place: usize) {
    // Between the numbers of both kinds of bulk, mostly.
    let element = (1 << 61) + (place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 61);
    let Err(at) = pair.model.binary_search(&element) else {
        return;
    };
    pair.model.insert(at, element);
    pair.tree.edit_by(
        |bound| bound.cmp(&element),
        |page| page.0.insert(page.0.partition_point(|other| *other < element), element),
    );
}

fn remove_ordered(pair: &mut Pair<u64>, place: usize) {
    let at = place % pair.model.len();
    let element = pair.model.remove(at);
    let (page, rank) = pair.tree.find(|bound| bound.cmp(&element)).unwrap();
    let offset = page.0.iter().position(|other| *other == element).unwrap();
    assert_eq!(rank as usize + offset, at);
    pair.tree.edit_by(|bound| bound.cmp(&element), |page| page.0.remove(offset));
}

fn insert_positional(pair: &mut Pair<()>, place: usize) {
    let at = place % (pair.model.len() + 1);
    pair.model.insert(at, place as u64);
    pair.tree.edit_at(at as u64, |page, offset| page.0.insert(offset as usize, place as u64));
}

fn remove_positional(pair: &mut Pair<()>, place: usize) {
    let at = place % pair.model.len();
    let element = pair.model.remove(at);
    let removed = pair.tree.edit_at(at as u64, |page, offset| page.0.remove(offset as usize));
    assert_eq!(removed, element);
}

proptest! {
    #![proptest_config(proptest::test_runner::Config {
        cases: 48, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn an_ordered_tree_and_its_clones_match_the_model(
        steps in prop::collection::vec(step(), 1..40)
    ) {
        run::<u64>(steps, insert_ordered, remove_ordered);
    }

    #[test]
    fn a_positional_tree_and_its_clones_match_the_model(
        steps in prop::collection::vec(step(), 1..40)
    ) {
        run::<()>(steps, insert_positional, remove_positional);
    }
}

/// The addresses of all nodes.
fn addresses<B: Separator>(node: &Node<Page<B>>, all: &mut HashSet<usize>) {
    match node {
        Node::Leaf(leaf) => {
            all.insert(Arc::as_ptr(leaf) as usize);
        }
        Node::Inner(inner) => {
            all.insert(Arc::as_ptr(inner) as usize);
            inner.children.iter().for_each(|child| addresses(child, all));
        }
    }
}

fn nodes_of<B: Separator>(tree: &Tree<Page<B>>) -> HashSet<usize> {
    let mut all = HashSet::new();
    tree.root.iter().for_each(|root| addresses(root, &mut all));
    all
}

#[test]
fn an_edit_copies_its_path_while_shared_and_nothing_when_not() {
    let elements: Vec<u64> = (0..30_000).map(|index| index * 2).collect();
    let mut tree: Tree<Page<u64>> = tree_of(&elements);
    assert_eq!(tree.root.as_ref().map(Node::height), Some(3));
    let clone = tree.clone();
    assert_eq!(nodes_of(&tree), nodes_of(&clone));

    let edit = |tree: &mut Tree<Page<u64>>, element: u64| {
        tree.edit_by(|bound| bound.cmp(&element), |page| page.0.sort_unstable());
    };
    edit(&mut tree, 30_000);
    assert_eq!(nodes_of(&tree).difference(&nodes_of(&clone)).count(), 4);
    edit(&mut tree, 30_000);
    assert_eq!(nodes_of(&tree).difference(&nodes_of(&clone)).count(), 4);
    edit(&mut tree, 0);
    assert_eq!(nodes_of(&tree).difference(&nodes_of(&clone)).count(), 7);

    drop(clone);
    let before = nodes_of(&tree);
    edit(&mut tree, 45_000);
    assert_eq!(nodes_of(&tree), before);
}

#[test]
fn cutting_and_joining_big_trees_makes_few_nodes() {
    let elements: Vec<u64> = (0..60_000).collect();
    let mut tree: Tree<Page<()>> = tree_of(&elements);
    let clone = tree.clone();
    let removed = tree.remove_range(20_000..40_001, cut);
    let before = nodes_of(&clone);
    let made = |tree| nodes_of(tree).difference(&before).count();
    assert!(made(&tree) <= 24, "{}", made(&tree));
    assert!(made(&removed) <= 24, "{}", made(&removed));
    check(&clone, &elements);
    check(&removed, &elements[20_000..40_001]);
    check(&tree, &[&elements[..20_000], &elements[40_001..]].concat());
}

#[test]
fn elements_that_come_in_order_leave_full_nodes() {
    let full = 9_000_u64.div_ceil(3);
    let mut rising: Tree<Page<()>> = Tree::new();
    (0..9_000).for_each(|element| rising.edit_at(u64::MAX, |page, _| page.0.push(element)));
    assert_eq!(rising.leaves(0..u64::MAX).count() as u64, full);
    let mut falling: Tree<Page<()>> = Tree::new();
    (0..9_000).for_each(|element| falling.edit_at(0, |page, _| page.0.insert(0, element)));
    assert!(falling.leaves(0..u64::MAX).count() as u64 <= full + 1);
    check(&falling, &(0..9_000).rev().collect::<Vec<u64>>());
    let inner_nodes = nodes_of(&rising).len() - full as usize;
    assert!(inner_nodes <= (full as usize).div_ceil(CHILDREN_MAX) + 2);
}

#[test]
fn the_nodes_of_containers_fit_a_page() {
    let children = CHILDREN_MAX * size_of::<Node<Page<u64>>>();
    assert!(size_of::<Inner<Page<u64>>>() + children + CHILDREN_MAX * (24 + 16) <= 4096);
}
