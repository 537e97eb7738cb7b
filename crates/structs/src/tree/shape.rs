//! Trees made in bulk: from leaves, and one of two.

use std::cmp::Ordering;
use std::sync::Arc;

use super::node::{CHILDREN_MAX, Inner, Node};
use super::{Leaf, Tree};

/// A tree of these leaves, level by level, all nodes full but for the last ones.
pub(super) fn build<L: Leaf>(leaves: impl Iterator<Item = L>) -> Tree<L> {
    let mut level: Vec<Node<L>> = leaves.map(|leaf| Node::Leaf(Arc::new(leaf))).collect();
    while level.len() > 1 {
        let mut above: Vec<Node<L>> = Vec::with_capacity(level.len().div_ceil(CHILDREN_MAX));
        let mut nodes = level.into_iter().peekable();
        while nodes.peek().is_some() {
            above.push(Node::Inner(Arc::new(Inner::above(nodes.by_ref().take(CHILDREN_MAX)))));
        }
        level = above;
    }
    Tree { root: level.pop() }
}

/// The root of a tree of all that is below both. The root may be too large.
pub(super) fn concatenate<L: Leaf>(mut lower: Node<L>, mut upper: Node<L>) -> Node<L> {
    let (lower_height, upper_height) = (lower.height(), upper.height());
    match (&mut lower, &mut upper, lower_height.cmp(&upper_height)) {
        (Node::Inner(inner), _, Ordering::Greater) => {
            Arc::make_mut(inner).attach(lower_height - 1, true, upper);
            lower
        }
        (_, Node::Inner(inner), Ordering::Less) => {
            Arc::make_mut(inner).attach(upper_height - 1, false, lower);
            upper
        }
        _ => {
            let mut top = Inner::above([lower].into_iter());
            top.attach(lower_height, true, upper);
            Node::Inner(Arc::new(top))
        }
    }
}
