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

impl<'a, L: Leaf> Leaves<'a, L> {
    pub(super) fn new(tree: &'a Tree<L>, ranks: Range<u64>) -> Leaves<'a, L> {
        Leaves { tree, ranks: ranks.start..ranks.end.min(tree.len()) }
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
