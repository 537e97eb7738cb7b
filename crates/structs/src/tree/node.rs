//! The nodes of a tree: how they are searched, edited, split and joined. A node that an edit has
//! passed is again what the head of `tree.rs` promises, but may be too large itself until the node
//! above has split it, or empty until the node above has dropped it.

use std::cmp::Ordering;
use std::sync::Arc;

use base::step_count;

use super::{ChildSelector, Growth, JOINED_MAX, LEAF_MAX, Leaf, Summary};
use crate::blob::ARC_COUNTERS;

/// Children of an inner node at most; with bounds of 24 bytes they fit a page.
pub(super) const CHILDREN_MAX: usize = 64;

/// Children that two neighbours may have together to become one node.
const JOINED_CHILDREN_MAX: usize = CHILDREN_MAX / 4 * 3;

pub(super) enum Node<L: Leaf> {
    Leaf(Arc<L>),
    Inner(Arc<Inner<L>>),
}

pub(super) struct Inner<L: Leaf> {
    pub(super) bounds: Vec<L::Bound>,
    pub(super) summaries: Vec<L::Summary>,
    pub(super) children: Vec<Node<L>>,
    /// The sum of `summaries`.
    summary: L::Summary,
    /// Heap bytes of the children and all below them, and of the bounds.
    pub(super) memory_below: usize,
}

/// Whether a node is on the first or on the last path of its tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edges {
    first: bool,
    last: bool,
}

impl Edges {
    /// Those of the root.
    pub(super) const BOTH: Edges = Edges { first: true, last: true };

    fn of_child(self, index: usize, children: usize) -> Edges {
        Edges { first: self.first && index == 0, last: self.last && index + 1 == children }
    }

    fn growth(self) -> Growth {
        match self {
            Edges { last: true, .. } => Growth::AtEnd,
            Edges { first: true, .. } => Growth::AtStart,
            _ => Growth::Within,
        }
    }
}

/// What an edit made of a node, as far as nodes above keep it.
pub(super) struct Change<S> {
    before: Measure<S>,
    after: Measure<S>,
}

/// What nodes above keep of a node, or act upon.
#[derive(PartialEq)]
pub(super) struct Measure<S> {
    /// What its bound limits: bytes of a leaf, children of an inner node.
    size: usize,
    /// Heap bytes of the node and all below it.
    memory: usize,
    summary: S,
}

impl<S: Summary> Measure<S> {
    #[inline]
    fn of_leaf<L: Leaf<Summary = S>>(leaf: &L) -> Measure<S> {
        let memory = ARC_COUNTERS + size_of::<L>() + leaf.memory();
        Measure { size: leaf.size(), memory, summary: leaf.summary() }
    }

    #[inline]
    fn of_inner<L: Leaf<Summary = S>>(inner: &Inner<L>) -> Measure<S> {
        let memory = ARC_COUNTERS + inner.own_memory() + inner.memory_below;
        Measure { size: inner.children.len(), memory, summary: inner.summary }
    }
}

impl<L: Leaf> Node<L> {
    #[inline]
    fn measure(&self) -> Measure<L::Summary> {
        match self {
            Node::Leaf(leaf) => Measure::of_leaf(&**leaf),
            Node::Inner(inner) => Measure::of_inner(inner),
        }
    }

    pub(super) fn summary(&self) -> L::Summary {
        match self {
            Node::Leaf(leaf) => leaf.summary(),
            Node::Inner(inner) => inner.summary,
        }
    }

    /// Heap bytes of the node and all below it.
    pub(super) fn memory(&self) -> usize {
        self.measure().memory
    }

    fn size(&self) -> usize {
        self.measure().size
    }

    /// Whether the node may be a root as it is.
    pub(super) fn is_sound_root(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.summary().count() > 0 && leaf.size() <= LEAF_MAX,
            Node::Inner(inner) => (2..=CHILDREN_MAX).contains(&inner.children.len()),
        }
    }

    pub(super) fn is_oversize(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.size() > LEAF_MAX,
            Node::Inner(inner) => inner.children.len() > CHILDREN_MAX,
        }
    }

    /// Whether a neighbour might be found to join it with.
    fn is_small(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.size() <= JOINED_MAX / 2,
            Node::Inner(inner) => inner.children.len() <= JOINED_CHILDREN_MAX / 2,
        }
    }

    /// Whether both may become one node.
    fn fits_with(&self, next: &Node<L>) -> bool {
        let joined_max = match self {
            Node::Leaf(_) => JOINED_MAX,
            Node::Inner(_) => JOINED_CHILDREN_MAX,
        };
        self.size() + next.size() <= joined_max
    }

    /// How many inner nodes lie between here and a leaf.
    pub(super) fn height(&self) -> u32 {
        let mut node = self;
        let mut height = 0;
        while let Node::Inner(inner) = node {
            height += 1;
            node = &inner.children[0];
        }
        height
    }

    /// A true bound of all elements below.
    pub(super) fn first_bound(&self) -> L::Bound {
        let mut node = self;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf.bound(),
                Node::Inner(inner) => node = &inner.children[0],
            }
        }
    }

    /// The child of an inner node that has no other.
    pub(super) fn only_child(&self) -> Option<Node<L>> {
        match self {
            Node::Inner(inner) if inner.children.len() == 1 => Some(inner.children[0].clone()),
            _ => None,
        }
    }

    /// The first leaf at or behind the element of rank `from` whose summary satisfies a condition,
    /// and the rank of its first element.
    pub(super) fn find_summary(
        &self,
        from: u64,
        holds: &mut impl FnMut(&L::Summary) -> bool,
    ) -> Option<(&L, u64)> {
        step_count::step();
        match self {
            Node::Leaf(leaf) => holds(&leaf.summary()).then_some((leaf, 0)),
            Node::Inner(inner) => {
                let mut before = 0;
                for (child, summary) in inner.children.iter().zip(&inner.summaries) {
                    if from < before + summary.count() && holds(summary) {
                        let from = from.saturating_sub(before);
                        if let Some((leaf, rank)) = child.find_summary(from, holds) {
                            return Some((leaf, before + rank));
                        }
                    }
                    before += summary.count();
                }
                None
            }
        }
    }

    /// Edits the leaf that a descent ends at, and repairs all nodes below this one. Tells what
    /// became of this one, if nodes above keep anything of it that is true no more.
    pub(super) fn edit<D: ChildSelector<L>, R>(
        &mut self,
        by: &mut D,
        edges: Edges,
        edit: impl FnOnce(&mut L, &D) -> R,
    ) -> (R, Option<Change<L::Summary>>) {
        match self {
            Node::Leaf(leaf) => {
                let before = Measure::of_leaf(&**leaf);
                let result = edit(Arc::make_mut(leaf), by);
                let after = Measure::of_leaf(&**leaf);
                (result, (after != before).then_some(Change { before, after }))
            }
            Node::Inner(inner) => {
                if let Some(inner) = Arc::get_mut(inner) {
                    return inner.edit(by, edges, edit);
                }
                // The copy of a node may be smaller than the node.
                let before = Measure::of_inner(inner);
                let inner = Arc::make_mut(inner);
                let (result, _) = inner.edit(by, edges, edit);
                (result, Some(Change { before, after: Measure::of_inner(inner) }))
            }
        }
    }

    /// Splits what is too large: the upper part and its bound.
    fn split(&mut self, growth: Growth) -> Option<(L::Bound, Node<L>)> {
        match self {
            Node::Leaf(leaf) => {
                let (bound, upper) = Arc::make_mut(leaf).split(growth)?;
                Some((bound, Node::Leaf(Arc::new(upper))))
            }
            Node::Inner(inner) => {
                let upper = Arc::make_mut(inner).split(growth);
                Some((upper.bounds[0].clone(), Node::Inner(Arc::new(upper))))
            }
        }
    }

    /// Takes over all that is in the next node, whose bound is given.
    fn absorb(&mut self, bound: L::Bound, next: Node<L>) {
        match (self, next) {
            (Node::Leaf(leaf), Node::Leaf(next)) => {
                Arc::make_mut(leaf).absorb(Arc::unwrap_or_clone(next));
            }
            (Node::Inner(inner), Node::Inner(next)) => {
                Arc::make_mut(inner).absorb(bound, Arc::unwrap_or_clone(next));
            }
            _ => unreachable!("all leaves lie at one height"),
        }
    }

    /// Divides at the element of rank `index`. The nodes along the cut may be small.
    pub(super) fn cut(
        self,
        index: u64,
        cut: impl FnOnce(&mut L, u64) -> L,
    ) -> (Option<Node<L>>, Option<Node<L>>) {
        if index == 0 {
            return (None, Some(self));
        }
        if index >= self.summary().count() {
            return (Some(self), None);
        }
        match self {
            Node::Leaf(mut leaf) => {
                let upper = cut(Arc::make_mut(&mut leaf), index);
                (Some(Node::Leaf(leaf)), Some(Node::Leaf(Arc::new(upper))))
            }
            Node::Inner(inner) => {
                let (lower, upper) = Arc::unwrap_or_clone(inner).cut(index, cut);
                (Some(Node::Inner(Arc::new(lower))), Some(Node::Inner(Arc::new(upper))))
            }
        }
    }
}

impl<L: Leaf> Inner<L> {
    /// A node without children.
    fn new() -> Inner<L> {
        Inner {
            bounds: Vec::new(),
            summaries: Vec::new(),
            children: Vec::new(),
            summary: L::Summary::default(),
            memory_below: 0,
        }
    }

    /// A node above others.
    pub(super) fn above(children: impl Iterator<Item = Node<L>>) -> Inner<L> {
        let mut inner = Inner::new();
        for child in children {
            inner.put(inner.children.len(), child.first_bound(), child);
        }
        inner.sum_up();
        inner
    }

    #[inline]
    pub(super) fn child(&self, index: usize) -> &Node<L> {
        &self.children[index]
    }

    fn own_memory(&self) -> usize {
        size_of::<Inner<L>>()
            + self.bounds.capacity() * size_of::<L::Bound>()
            + self.summaries.capacity() * size_of::<L::Summary>()
            + self.children.capacity() * size_of::<Node<L>>()
    }

    /// How many elements lie below the children before this one.
    #[inline]
    pub(super) fn count_before(&self, index: usize) -> u64 {
        self.summaries[..index].iter().map(|summary| summary.count()).sum()
    }

    #[inline]
    pub(super) fn child_by_bound(&self, by: &mut impl FnMut(&L::Bound) -> Ordering) -> usize {
        self.bounds[1..].partition_point(|bound| by(bound) != Ordering::Greater)
    }

    /// The child with the element of this rank, and the element's rank there.
    #[inline]
    pub(super) fn child_by_rank(&self, mut rank: u64) -> (usize, u64) {
        let last = self.children.len() - 1;
        // What grows or is taken at its end asks for the last child, again and again.
        let before_last = self.summary.count() - self.summaries[last].count();
        if rank >= before_last {
            return (last, rank - before_last);
        }
        for (index, summary) in self.summaries[..last].iter().enumerate() {
            if rank < summary.count() {
                return (index, rank);
            }
            rank -= summary.count();
        }
        (last, rank)
    }

    fn edit<D: ChildSelector<L>, R>(
        &mut self,
        by: &mut D,
        edges: Edges,
        edit: impl FnOnce(&mut L, &D) -> R,
    ) -> (R, Option<Change<L::Summary>>) {
        let index = by.child(self);
        let below = edges.of_child(index, self.children.len());
        let (result, change) = self.children[index].edit(by, below, edit);
        let Some(change) = change else { return (result, None) };
        let before = Measure::of_inner(self);
        self.repair(index, &change, edges);
        (result, Some(Change { before, after: Measure::of_inner(self) }))
    }

    /// After an edit of a child: what is kept of it is true again, and it is neither empty nor too
    /// large nor needlessly small.
    fn repair(&mut self, index: usize, change: &Change<L::Summary>, edges: Edges) {
        step_count::step();
        let Change { before, after } = change;
        self.memory_below = self.memory_below + after.memory - before.memory;
        let old = std::mem::replace(&mut self.summaries[index], after.summary);
        if after.summary.count() == 0 {
            self.remove(index);
        } else if self.children[index].is_oversize() {
            self.split_child(index, edges);
        } else if !(after.size < before.size && self.join_if_small(index)) {
            if old == after.summary {
                return;
            }
            if let Some(others) = self.summary.minus(old) {
                self.summary = others.plus(after.summary);
                return;
            }
        }
        self.sum_up();
    }

    fn sum_up(&mut self) {
        let unit = L::Summary::default();
        self.summary = self.summaries.iter().fold(unit, |sum, summary| sum.plus(*summary));
    }

    /// Puts a child in, without summing up.
    fn put(&mut self, index: usize, bound: L::Bound, child: Node<L>) {
        step_count::step();
        self.memory_below += child.memory() + L::bound_memory(&bound);
        if self.children.len() == self.children.capacity() {
            // By half, but not beyond what a node holds just before it is split.
            let half = (self.children.len() / 2).max(4);
            self.reserve(half.min((CHILDREN_MAX + 1).saturating_sub(self.children.len()).max(1)));
        }
        self.bounds.insert(index, bound);
        self.summaries.insert(index, child.summary());
        self.children.insert(index, child);
    }

    fn reserve(&mut self, children: usize) {
        self.bounds.reserve_exact(children);
        self.summaries.reserve_exact(children);
        self.children.reserve_exact(children);
    }

    fn set_bound(&mut self, index: usize, bound: L::Bound) {
        let old = std::mem::replace(&mut self.bounds[index], bound);
        self.memory_below += L::bound_memory(&self.bounds[index]);
        self.memory_below -= L::bound_memory(&old);
    }

    /// Takes a child out, without summing up.
    fn remove(&mut self, index: usize) -> (L::Bound, Node<L>) {
        step_count::step();
        let bound = self.bounds.remove(index);
        let child = self.children.remove(index);
        self.summaries.remove(index);
        self.memory_below -= child.memory() + L::bound_memory(&bound);
        (bound, child)
    }

    /// Takes the children from an index on out, without summing up.
    fn take_from(&mut self, index: usize) -> Inner<L> {
        let bounds = self.bounds.split_off(index);
        let summaries = self.summaries.split_off(index);
        let children = self.children.split_off(index);
        let memory_below = children.iter().map(Node::memory).sum::<usize>()
            + bounds.iter().map(L::bound_memory).sum::<usize>();
        self.memory_below -= memory_below;
        Inner { bounds, summaries, children, summary: L::Summary::default(), memory_below }
    }

    /// Changes a child by other means than an edit, without summing up.
    fn change<R>(&mut self, index: usize, change: impl FnOnce(&mut Node<L>) -> R) -> R {
        let child = &mut self.children[index];
        let before = child.memory();
        let result = change(child);
        self.summaries[index] = child.summary();
        self.memory_below = self.memory_below + child.memory() - before;
        result
    }

    /// Splits a child until no part is too large; tells whether it could be split. The edges are
    /// those of this node.
    pub(super) fn split_child(&mut self, index: usize, edges: Edges) -> bool {
        let growth = edges.of_child(index, self.children.len()).growth();
        let (mut at, mut end) = (index, index + 1);
        while at < end {
            let upper = match self.children[at].is_oversize() {
                true => self.change(at, |child| child.split(growth)),
                false => None,
            };
            match upper {
                Some((bound, upper)) => {
                    self.put(at + 1, bound, upper);
                    end += 1;
                }
                None => at += 1,
            }
        }
        self.sum_up();
        end > index + 1
    }

    /// Joins a child with a neighbour, if both fit one node well; whether it did.
    fn join_if_small(&mut self, index: usize) -> bool {
        if !self.children[index].is_small() {
            return false;
        }
        let fits = |lower: usize| {
            let next = self.children.get(lower + 1);
            next.is_some_and(|next| self.children[lower].fits_with(next))
        };
        let before = index.checked_sub(1).filter(|before| fits(*before));
        let Some(lower) = before.or_else(|| fits(index).then_some(index)) else { return false };
        let (bound, next) = self.remove(lower + 1);
        self.change(lower, |child| child.absorb(bound, next));
        true
    }

    fn split(&mut self, growth: Growth) -> Inner<L> {
        step_count::step();
        let children = self.children.len();
        let index = match growth {
            Growth::Within => children / 2,
            Growth::AtStart => children.saturating_sub(CHILDREN_MAX).max(1),
            Growth::AtEnd => CHILDREN_MAX.min(children - 1),
        };
        let mut upper = self.take_from(index);
        upper.sum_up();
        self.sum_up();
        upper
    }

    fn absorb(&mut self, bound: L::Bound, mut next: Inner<L>) {
        step_count::step();
        next.set_bound(0, bound);
        self.reserve(next.children.len());
        self.bounds.append(&mut next.bounds);
        self.summaries.append(&mut next.summaries);
        self.children.append(&mut next.children);
        self.memory_below += next.memory_below;
        self.sum_up();
    }

    /// Divides at an element that is not the first here.
    fn cut(mut self, index: u64, cut: impl FnOnce(&mut L, u64) -> L) -> (Inner<L>, Inner<L>) {
        step_count::step();
        let (at, rank) = self.child_by_rank(index);
        let mut upper = self.take_from(at + 1);
        let (bound, child) = self.remove(at);
        let (child_lower, child_upper) = child.cut(rank, cut);
        if let Some(child) = child_upper {
            upper.put(0, bound.clone(), child);
        }
        if let Some(child) = child_lower {
            self.put(at, bound, child);
        }
        self.sum_up();
        upper.sum_up();
        (self, upper)
    }

    /// Joins small nodes along the first or the last path below.
    pub(super) fn repair_edge(&mut self, first: bool) {
        let index = if first { 0 } else { self.children.len() - 1 };
        self.change(index, |child| {
            if let Node::Inner(inner) = child {
                Arc::make_mut(inner).repair_edge(first);
            }
        });
        self.join_if_small(index);
        self.sum_up();
    }

    /// Puts a lower tree above all that is here, or below it. `height` is that of the children.
    pub(super) fn attach(&mut self, height: u32, at_end: bool, tree: Node<L>) {
        let edge = if at_end { self.children.len() - 1 } else { 0 };
        if tree.height() < height {
            self.change(edge, |child| match child {
                Node::Inner(inner) => Arc::make_mut(inner).attach(height - 1, at_end, tree),
                Node::Leaf(_) => unreachable!("no tree is lower than a leaf"),
            });
            self.split_child(edge, Edges { first: !at_end, last: at_end });
            return;
        }
        let bound = tree.first_bound();
        if at_end {
            self.put(edge + 1, bound, tree);
        } else {
            // What was first here is no longer, so that its bound counts.
            self.set_bound(0, self.children[0].first_bound());
            self.put(0, bound, tree);
        }
        self.join_if_small(if at_end { edge + 1 } else { 0 });
        self.sum_up();
    }
}

impl<L: Leaf> Clone for Node<L> {
    fn clone(&self) -> Node<L> {
        match self {
            Node::Leaf(leaf) => Node::Leaf(Arc::clone(leaf)),
            Node::Inner(inner) => Node::Inner(Arc::clone(inner)),
        }
    }
}

impl<L: Leaf> Clone for Inner<L> {
    fn clone(&self) -> Inner<L> {
        Inner {
            bounds: self.bounds.clone(),
            summaries: self.summaries.clone(),
            children: self.children.clone(),
            summary: self.summary,
            memory_below: self.memory_below,
        }
    }
}
