//! Leaves in the order of a key that their summaries give, the least first.
//!
//! Invariant: the key of a sum is the least of its parts' keys, so a node is opened only when no
//! leaf that was found yet comes before all below it.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use base::step_count;

use super::node::Node;
use super::{Leaf, Tree};

/// The leaves of a tree, nodes of which are opened as that is asked for.
pub struct RankedLeaves<'t, L: Leaf, K: Ord, F: Fn(&L::Summary, &L::Bound) -> K> {
    nodes: BinaryHeap<Reverse<RankedNode<'t, L, K>>>,
    key: F,
}

struct RankedNode<'t, L: Leaf, K: Ord> {
    key: K,
    node: &'t Node<L>,
}

impl<L: Leaf> Tree<L> {
    /// The leaves by a key of a summary and of a bound of all elements that it sums up.
    pub fn ranked_leaves<K: Ord, F: Fn(&L::Summary, &L::Bound) -> K>(
        &self,
        key: F,
    ) -> RankedLeaves<'_, L, K, F> {
        let mut ranked = RankedLeaves { nodes: BinaryHeap::new(), key };
        ranked.nodes.extend(self.root.as_ref().map(|root| ranked.rank(&root.summary(), root)));
        ranked
    }
}

impl<'t, L: Leaf, K: Ord, F: Fn(&L::Summary, &L::Bound) -> K> RankedLeaves<'t, L, K, F> {
    fn rank(&self, summary: &L::Summary, node: &'t Node<L>) -> Reverse<RankedNode<'t, L, K>> {
        Reverse(RankedNode { key: (self.key)(summary, &node.first_bound()), node })
    }

    /// The next leaf, unless its key, and those of all that are left, are above this one.
    pub fn next_up_to(&mut self, limit: Option<&K>) -> Option<&'t L> {
        loop {
            let Reverse(next) = self.nodes.peek()?;
            if limit.is_some_and(|limit| next.key > *limit) {
                return None;
            }
            step_count::step();
            match self.nodes.pop()?.0.node {
                Node::Leaf(leaf) => return Some(leaf),
                Node::Inner(inner) => {
                    let parts = inner.summaries.iter().zip(&inner.children);
                    let ranked: Vec<_> = parts.map(|(sum, child)| self.rank(sum, child)).collect();
                    self.nodes.extend(ranked);
                }
            }
        }
    }
}

impl<L: Leaf, K: Ord> Ord for RankedNode<'_, L, K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl<L: Leaf, K: Ord> PartialOrd for RankedNode<'_, L, K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<L: Leaf, K: Ord> PartialEq for RankedNode<'_, L, K> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<L: Leaf, K: Ord> Eq for RankedNode<'_, L, K> {}
