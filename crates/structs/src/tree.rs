//! The tree that every large container is: counted, ordered or positional, shared by clones.
//! Its shape and why: docs/decisions/containers.md.
//!
//! ```text
//!  inner node   bounds    [ -  | b1 | b2 | .. ]     at most 64 of each
//!               summaries [ s0 | s1 | s2 | .. ]
//!               children  [  *    *    *   .. ]
//!                            |    '-- elements at or above b1 and below b2
//!  leaf         [ items ]  at most LEAF_MAX bytes
//! ```
//!
//! Invariants: all leaves lie at one height; no leaf is empty; a root that is an inner node has two
//! children or more; no node is larger than its bound, but for a leaf that cannot be split; the
//! summary of a node is the sum of those below it. The bound of a node's first child is never
//! looked at: what lies below it belongs there too, as far as the nodes above allow.
//!
//! A clone takes O(1) and holds what the tree was: a change copies those nodes of its path that a
//! clone holds too, and no others. Nothing recurses deeper than the tree is high.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use base::step_count;

mod clones;
mod iter;
mod node;
mod ranked;
mod shape;

pub use iter::Leaves;
use node::{Edges, Inner, Node};
pub use ranked::RankedLeaves;

/// Bytes of elements above which a leaf is split. With what an allocator and an `Arc` put around
/// them they fit one page.
pub const LEAF_MAX: usize = 4096 - 16;

/// Bytes of elements that two neighbours may have together to become one leaf: far enough below
/// [`LEAF_MAX`] that no leaf is split and joined in turn.
const JOINED_MAX: usize = LEAF_MAX / 4 * 3;

/// Makes room for so many bytes more in those of a leaf, in steps that leave little unused in many
/// leaves.
pub(crate) fn reserve_in_leaf(bytes: &mut Vec<u8>, more: usize) {
    let needed = bytes.len() + more;
    if needed > bytes.capacity() {
        let ample = (needed + needed / 4).next_multiple_of(64);
        let capacity = ample.min(LEAF_MAX).max(needed);
        bytes.reserve_exact(capacity - bytes.len());
    }
}

/// What a tree's lowest nodes hold: a page of elements of one container. `Default` is the empty
/// leaf, which the tree makes for its first element.
pub trait Leaf: Clone + Default {
    /// What separates leaves: every element of a leaf is at or above the leaf's bound and below
    /// the next leaf's. `()` where elements are found by position only.
    type Bound: Clone;
    /// What inner nodes keep of each child.
    type Summary: Summary;

    /// Count and more of the elements here. Called after each edit, so a summary should not walk
    /// them.
    fn summary(&self) -> Self::Summary;

    /// Bytes that the elements take: a leaf is split above [`LEAF_MAX`], and joined with a
    /// neighbour when both fit well into one.
    fn size(&self) -> usize;

    /// Heap bytes that the leaf owns, with what lies beside the page, in O(1). The tree adds the
    /// size of `Self`.
    fn memory(&self) -> usize;

    /// A bound for the elements here: the least of them. Never asked of an empty leaf.
    fn bound(&self) -> Self::Bound;

    /// Heap bytes that a bound owns.
    fn bound_memory(_bound: &Self::Bound) -> usize {
        0
    }

    /// Moves the upper part into a new leaf and tells a bound for it; both are left with elements.
    /// `None`, and nothing done, when no bound can separate the elements, as with one alone.
    fn split(&mut self, growth: Growth) -> Option<(Self::Bound, Self)>;

    /// Takes over all elements of the next leaf.
    fn absorb(&mut self, next: Self);
}

/// What inner nodes keep of each child; forms a monoid with `Default` as its unit.
pub trait Summary: Copy + Default + PartialEq {
    /// The summary of both.
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// The summary of all but one of its parts; `None` where it does not tell that. So an edit
    /// need not sum up all children of each node on its path.
    fn minus(self, part: Self) -> Option<Self>;
    /// How many elements.
    fn count(self) -> u64;
}

/// Where a tree grows, as far as its shape tells: how a full node is best split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Within: both parts should have room.
    Within,
    /// In the first leaf: elements may come in falling order, so the upper part should stay full.
    AtStart,
    /// In the last leaf: elements may come in rising order, so the lower part should stay full.
    AtEnd,
}

/// A counted B+ tree whose clones share what they have in common.
///
/// Dropping the last clone takes time in proportion to the nodes: send a big one to another thread
/// to be dropped.
pub struct Tree<L: Leaf> {
    root: Option<Node<L>>,
}

impl<L: Leaf> Tree<L> {
    /// An empty tree, without memory.
    pub const fn new() -> Tree<L> {
        Tree { root: None }
    }

    /// A tree of these leaves, none of them empty and none to be split, in their order.
    pub fn from_leaves(leaves: impl IntoIterator<Item = L>) -> Tree<L> {
        shape::build(leaves.into_iter())
    }

    /// Count and more of all elements, in O(1).
    pub fn summary(&self) -> L::Summary {
        self.root.as_ref().map_or_else(L::Summary::default, Node::summary)
    }

    /// The number of elements.
    pub fn len(&self) -> u64 {
        self.summary().count()
    }

    /// Whether the tree is a clone of `other`, or `other` one of it, and neither has changed since,
    /// in O(1). As long as both live an edit of either gives it a root of its own.
    pub fn is_same(&self, other: &Tree<L>) -> bool {
        match (&self.root, &other.root) {
            (None, None) => true,
            (Some(root), Some(other)) => root.is_same(other),
            _ => false,
        }
    }

    /// Where the root lies: clones that have not changed since have the same, and nobody else.
    pub fn address(&self) -> Option<usize> {
        self.root.as_ref().map(Node::address)
    }

    /// Heap bytes that are free once so many clones are gone, of which this is one: none if there
    /// are more, or if a tree was cloned and has changed since, what both share.
    pub fn memory_of_clones(&self, clones: usize) -> usize {
        self.root.as_ref().map_or(0, |root| root.memory_of_clones(clones))
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Heap bytes, as asked of the allocator, in O(1). What clones share is counted in each.
    pub fn memory(&self) -> usize {
        self.root.as_ref().map_or(0, Node::memory)
    }

    /// The last leaf whose bound is not above the probe, or the first leaf; `by` tells how a bound
    /// compares with the probe. With it comes the rank of its first element.
    pub fn find(&self, by: impl FnMut(&L::Bound) -> Ordering) -> Option<(&L, u64)> {
        self.descend(&mut ByBound(by)).map(|(leaf, rank)| (&**leaf, rank))
    }

    /// The leaf that [`Tree::find`] finds.
    #[inline]
    pub fn get(&self, by: impl FnMut(&L::Bound) -> Ordering) -> Option<&L> {
        self.leaf(&mut ByBound(by))
    }

    /// The leaf that holds the element of this rank, and the element's offset there.
    pub fn at(&self, index: u64) -> Option<(&L, u64)> {
        if index >= self.len() {
            return None;
        }
        let mut by = ByRank { left: index };
        let leaf = self.leaf(&mut by)?;
        Some((leaf, by.left))
    }

    /// The first leaf whose summary satisfies a condition, and the rank of its first element. The
    /// condition must hold for a sum if it holds for a part of it.
    pub fn find_summary(&self, holds: impl FnMut(&L::Summary) -> bool) -> Option<(&L, u64)> {
        self.find_summary_from(0, holds)
    }

    /// As [`Tree::find_summary`], from the leaf on that holds the element of rank `from`.
    pub fn find_summary_from(
        &self,
        from: u64,
        mut holds: impl FnMut(&L::Summary) -> bool,
    ) -> Option<(&L, u64)> {
        let root = self.root.as_ref()?;
        (from < self.len()).then(|| root.find_summary(from, &mut holds)).flatten()
    }

    /// Edits the leaf that [`Tree::find`] finds; in an empty tree a new one.
    pub fn edit_by<R>(
        &mut self,
        by: impl FnMut(&L::Bound) -> Ordering,
        edit: impl FnOnce(&mut L) -> R,
    ) -> R {
        self.edit(ByBound(by), |leaf, _| edit(leaf))
    }

    /// Edits the leaf that holds the element of this rank, which comes with the element's offset
    /// there. A rank past the end means the end of the last leaf.
    pub fn edit_at<R>(&mut self, index: u64, edit: impl FnOnce(&mut L, u64) -> R) -> R {
        let by = ByRank { left: index.min(self.len()) };
        self.edit(by, |leaf, by| edit(leaf, by.left))
    }

    /// The parts of leaves that hold the elements of these ranks, in order, from both ends.
    pub fn leaves(&self, ranks: Range<u64>) -> Leaves<'_, L> {
        Leaves::new(self, ranks)
    }

    /// Moves the elements from rank `index` on into a new tree, in O(log n). `cut` moves the
    /// elements of a leaf from an offset on into a new leaf; neither is left empty.
    pub fn split_off(&mut self, index: u64, cut: impl FnOnce(&mut L, u64) -> L) -> Tree<L> {
        let Some(root) = self.root.take() else {
            return Tree::new();
        };
        let (lower, upper) = root.cut(index, cut);
        let mut upper = Tree { root: upper };
        self.root = lower;
        self.repair_edge(false);
        upper.repair_edge(true);
        upper
    }

    /// Adds all elements of another tree, which are above all of this one, in O(log n).
    pub fn append(&mut self, other: Tree<L>) {
        self.root = match (self.root.take(), other.root) {
            (Some(lower), Some(upper)) => Some(shape::concatenate(lower, upper)),
            (lower, upper) => lower.or(upper),
        };
        self.repair_root();
    }

    /// Takes the elements of these ranks out, in O(log n). `cut` is that of [`Tree::split_off`].
    pub fn remove_range(
        &mut self,
        ranks: Range<u64>,
        mut cut: impl FnMut(&mut L, u64) -> L,
    ) -> Tree<L> {
        if ranks.is_empty() {
            return Tree::new();
        }
        let mut removed = self.split_off(ranks.start, &mut cut);
        let rest = removed.split_off(ranks.end - ranks.start, &mut cut);
        self.append(rest);
        removed
    }

    fn edit<D: ChildSelector<L>, R>(&mut self, mut by: D, edit: impl FnOnce(&mut L, &D) -> R) -> R {
        step_count::step();
        let is_new = self.root.is_none();
        let root = self.root.get_or_insert_with(|| Node::Leaf(Arc::default()));
        let (result, change) = root.edit(&mut by, Edges::BOTH, edit);
        if is_new || change.is_some() {
            self.repair_root();
        }
        result
    }

    /// The leaf that a descent ends at. Without counting what lies before it: that reads half of
    /// what a node keeps, and so costs more than the search.
    #[inline]
    fn leaf(&self, by: &mut impl ChildSelector<L>) -> Option<&L> {
        step_count::step();
        let mut node = self.root.as_ref()?;
        loop {
            match node {
                Node::Leaf(leaf) => return Some(leaf),
                Node::Inner(inner) => node = inner.child(by.child(inner)),
            }
        }
    }

    /// The leaf that a descent ends at, and the rank of its first element.
    #[inline]
    fn descend(&self, by: &mut impl ChildSelector<L>) -> Option<(&Arc<L>, u64)> {
        step_count::step();
        let mut node = self.root.as_ref()?;
        let mut rank = 0;
        loop {
            match node {
                Node::Leaf(leaf) => return Some((leaf, rank)),
                Node::Inner(inner) => {
                    let index = by.child(inner);
                    rank += inner.count_before(index);
                    node = inner.child(index);
                }
            }
        }
    }

    /// Makes the tree as high as it has to be after its root was changed.
    fn repair_root(&mut self) {
        while let Some(root) = self.root.take_if(|root| !root.is_sound_root()) {
            if root.summary().count() == 0 {
                return;
            }
            if let Some(child) = root.only_child() {
                self.root = Some(child);
                continue;
            }
            let mut top = Inner::above([root].into_iter());
            let is_split = top.split_child(0, Edges::BOTH);
            let top = Node::Inner(Arc::new(top));
            if !is_split {
                self.root = top.only_child();
                return;
            }
            self.root = Some(top);
        }
    }

    /// Joins small nodes along the first or the last path.
    fn repair_edge(&mut self, first: bool) {
        if let Some(Node::Inner(inner)) = &mut self.root {
            Arc::make_mut(inner).repair_edge(first);
        }
        self.repair_root();
    }
}

/// How a walk from the root chooses a child at each inner node.
trait ChildSelector<L: Leaf> {
    fn child(&mut self, inner: &Inner<L>) -> usize;
}

struct ByBound<F>(F);

impl<L: Leaf, F: FnMut(&L::Bound) -> Ordering> ChildSelector<L> for ByBound<F> {
    #[inline]
    fn child(&mut self, inner: &Inner<L>) -> usize {
        inner.child_by_bound(&mut self.0)
    }
}

/// By rank; what is left is the offset in the child, at last in the leaf.
struct ByRank {
    left: u64,
}

impl<L: Leaf> ChildSelector<L> for ByRank {
    #[inline]
    fn child(&mut self, inner: &Inner<L>) -> usize {
        let (index, left) = inner.child_by_rank(self.left);
        self.left = left;
        index
    }
}

impl<L: Leaf> Clone for Tree<L> {
    fn clone(&self) -> Tree<L> {
        Tree { root: self.root.clone() }
    }
}

impl<L: Leaf> Default for Tree<L> {
    fn default() -> Tree<L> {
        Tree::new()
    }
}

#[cfg(test)]
mod tests;
