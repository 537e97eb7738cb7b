//! Walks over the leaves of a tree, by rank, from both ends. Each step descends from the root: a
//! walk keeps nothing but two numbers, and a leaf has far more elements than the tree has levels.

use std::ops::Range;
use std::sync::Arc;

use super::{ByRank, Leaf, Summary, Tree};

/// The parts of leaves with the elements of a range of ranks, borrowed: the leaf, and the offsets
/// of the elements in it.
pub struct Leaves<'a, L: Leaf> {
    tree: &'a Tree<L>,
    ranks: Range<u64>,
}

/// The parts of leaves with the elements of a range of ranks, with a tree of its own: the leaf,
/// which may be kept, and the offsets of the elements in it.
pub struct IntoLeaves<L: Leaf> {
    tree: Tree<L>,
    ranks: Range<u64>,
}

impl<'a, L: Leaf> Leaves<'a, L> {
    pub(super) fn new(tree: &'a Tree<L>, ranks: Range<u64>) -> Leaves<'a, L> {
        Leaves { tree, ranks: ranks.start..ranks.end.min(tree.len()) }
    }
}

impl<L: Leaf> IntoLeaves<L> {
    pub(super) fn new(tree: Tree<L>, ranks: Range<u64>) -> IntoLeaves<L> {
        let end = ranks.end.min(tree.len());
        IntoLeaves { tree, ranks: ranks.start..end }
    }

    /// How many elements are still to come.
    pub fn elements_left(&self) -> u64 {
        self.ranks.end.saturating_sub(self.ranks.start)
    }
}

/// Takes the first part of a range.
fn step<'a, L: Leaf>(
    tree: &'a Tree<L>,
    ranks: &mut Range<u64>,
) -> Option<(&'a Arc<L>, Range<usize>)> {
    if ranks.is_empty() {
        return None;
    }
    let (leaf, first) = tree.descend(&mut ByRank { left: ranks.start })?;
    let end = (first + leaf.summary().count()).min(ranks.end);
    let offsets = (ranks.start - first) as usize..(end - first) as usize;
    ranks.start = end;
    Some((leaf, offsets))
}

/// Takes the last part of a range.
fn step_back<'a, L: Leaf>(
    tree: &'a Tree<L>,
    ranks: &mut Range<u64>,
) -> Option<(&'a Arc<L>, Range<usize>)> {
    if ranks.is_empty() {
        return None;
    }
    let (leaf, first) = tree.descend(&mut ByRank { left: ranks.end - 1 })?;
    let start = first.max(ranks.start);
    let offsets = (start - first) as usize..(ranks.end - first) as usize;
    ranks.end = start;
    Some((leaf, offsets))
}

impl<'a, L: Leaf> Iterator for Leaves<'a, L> {
    type Item = (&'a L, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        step(self.tree, &mut self.ranks).map(|(leaf, offsets)| (&**leaf, offsets))
    }
}

impl<L: Leaf> DoubleEndedIterator for Leaves<'_, L> {
    fn next_back(&mut self) -> Option<Self::Item> {
        step_back(self.tree, &mut self.ranks).map(|(leaf, offsets)| (&**leaf, offsets))
    }
}

impl<L: Leaf> Iterator for IntoLeaves<L> {
    type Item = (Arc<L>, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        step(&self.tree, &mut self.ranks).map(|(leaf, offsets)| (Arc::clone(leaf), offsets))
    }
}

impl<L: Leaf> DoubleEndedIterator for IntoLeaves<L> {
    fn next_back(&mut self) -> Option<Self::Item> {
        step_back(&self.tree, &mut self.ranks).map(|(leaf, offsets)| (Arc::clone(leaf), offsets))
    }
}
