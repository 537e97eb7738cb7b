//! What a tree shares with its clones. Invariant: nothing here follows more than the root and its
//! children.

use std::sync::Arc;

use super::Leaf;
use super::node::Node;

impl<L: Leaf> Node<L> {
    /// Whether both are one node.
    pub(super) fn is_same(&self, other: &Node<L>) -> bool {
        match (self, other) {
            (Node::Leaf(leaf), Node::Leaf(other)) => Arc::ptr_eq(leaf, other),
            (Node::Inner(inner), Node::Inner(other)) => Arc::ptr_eq(inner, other),
            _ => false,
        }
    }

    /// Where the node lies, which tells it from all others that are alive.
    pub(super) fn address(&self) -> usize {
        match self {
            Node::Leaf(leaf) => Arc::as_ptr(leaf).addr(),
            Node::Inner(inner) => Arc::as_ptr(inner).addr(),
        }
    }

    /// Heap bytes that go with so many clones of the node, if there are no more: what other trees
    /// share with it they keep, as far as its children tell.
    pub(super) fn memory_of_clones(&self, clones: usize) -> usize {
        let shared = match self {
            Node::Leaf(leaf) if Arc::strong_count(leaf) > clones => return 0,
            Node::Inner(inner) if Arc::strong_count(inner) > clones => return 0,
            Node::Leaf(_) => 0,
            Node::Inner(inner) => {
                inner.children.iter().filter(|it| it.is_shared()).map(Node::memory).sum()
            }
        };
        self.memory() - shared
    }

    fn is_shared(&self) -> bool {
        match self {
            Node::Leaf(leaf) => Arc::strong_count(leaf) > 1,
            Node::Inner(inner) => Arc::strong_count(inner) > 1,
        }
    }
}
