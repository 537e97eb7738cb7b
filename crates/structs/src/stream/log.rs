//! The entries of a stream, by ID: a tree of nodes.
//!
//! Invariant: every node has a live entry, so the tree's count is the stream's length.

use std::cmp::Ordering;
use std::ops::Range;

use super::NodeLimits;
use super::id::EntryId;
use super::node::{Pair, StreamEntry, StreamNode, Verdict};
use crate::tree::{Leaves, Tree};

/// All entries.
#[derive(Clone, Default)]
pub(super) struct Log {
    tree: Tree<StreamNode>,
}

impl Log {
    pub(super) fn from_nodes(nodes: Vec<StreamNode>) -> Log {
        Log { tree: Tree::from_leaves(nodes) }
    }

    pub(super) fn len(&self) -> u64 {
        self.tree.len()
    }

    pub(super) fn memory(&self) -> usize {
        self.tree.memory()
    }

    pub(super) fn nodes(&self) -> impl DoubleEndedIterator<Item = &StreamNode> {
        self.tree.leaves(0..self.tree.len()).map(|(node, _)| node)
    }

    /// How many nodes there are, in O(1).
    pub(super) fn node_count(&self) -> u64 {
        self.tree.summary().nodes
    }

    /// Adds an entry with a greater ID than any before.
    pub(super) fn append(&mut self, id: EntryId, pairs: &[Pair<'_>], limits: NodeLimits) {
        let text: usize = pairs.iter().map(|(field, value)| field.len() + value.len()).sum();
        let fits = self.last_node().is_some_and(|node| limits.admit(node, text));
        if fits {
            self.tree.edit_by(last, |node| node.push(id, pairs));
            return;
        }
        if !self.tree.is_empty() {
            self.tree.edit_by(last, StreamNode::finish);
        }
        self.tree.append(Tree::from_leaves([StreamNode::with_first(id, pairs)]));
    }

    /// Deletes the entries of these rising IDs, each node in one sweep; tells which there were.
    pub(super) fn delete_all(&mut self, ids: &[EntryId]) -> Vec<EntryId> {
        let (mut found, mut rest) = (Vec::new(), ids);
        while let Some(first) = rest.first() {
            let Some(node) = self.tree.get(|bound| bound.cmp(first)) else { break };
            // What is between two nodes is none's.
            let within = rest.partition_point(|id| *id <= node.last_id()).max(1);
            let (here, behind) = rest.split_at(within);
            // A look first: an edit copies what clones share.
            let there = node.find_all(here);
            if !there.is_empty() {
                self.tree.edit_by(|bound| bound.cmp(first), |node| node.delete_all(&there));
            }
            found.extend(there);
            rest = behind;
        }
        found
    }

    pub(super) fn get(&self, id: EntryId) -> Option<StreamEntry<'_>> {
        self.range(id, id).next()
    }

    /// How many entries lie before the node that has, or would have, an ID.
    pub(super) fn about_below(&self, id: EntryId) -> u64 {
        self.tree.find(|bound| bound.cmp(&id)).map_or(0, |(_, rank)| rank)
    }

    /// How many entries are below an ID.
    pub(super) fn below(&self, id: EntryId) -> u64 {
        let Some((node, rank)) = self.tree.find(|bound| bound.cmp(&id)) else { return 0 };
        let in_node = self.range(node.first_id(), EntryId::MAX).take(node.live());
        rank + in_node.take_while(|item| item.id < id).count() as u64
    }

    /// How many entries that node has.
    pub(super) fn node_size(&self, id: EntryId) -> u64 {
        self.tree.get(|bound| bound.cmp(&id)).map_or(0, |node| node.live() as u64)
    }

    /// The entries from one ID to another, both included.
    pub(super) fn range(&self, from: EntryId, to: EntryId) -> StreamIter<'_> {
        let first = self.tree.find(|bound| bound.cmp(&from)).map_or(0, |(_, rank)| rank);
        let nodes = self.tree.leaves(first..self.tree.len());
        StreamIter { nodes, node: None, from, to, is_backward: false }
    }

    /// As [`Log::range`], the last entry first.
    pub(super) fn range_back(&self, from: EntryId, to: EntryId) -> StreamIter<'_> {
        let found = self.tree.find(|bound| bound.cmp(&to));
        let end = found.map_or(0, |(node, rank)| rank + node.live() as u64);
        StreamIter { nodes: self.tree.leaves(0..end), node: None, from, to, is_backward: true }
    }

    /// Removes the entries of these ranks, which are those of whole nodes.
    pub(super) fn remove_nodes(&mut self, ranks: Range<u64>) -> Removed {
        let between = |_: &mut StreamNode, _| unreachable!("the ranks lie between nodes");
        Removed(self.tree.remove_range(ranks, between))
    }

    /// Sweeps the node with the entry of this rank: see [`StreamNode::sweep`].
    pub(super) fn sweep(&mut self, rank: u64, decide: impl FnMut(EntryId) -> Verdict) -> usize {
        self.tree.edit_at(rank, |node, _| node.sweep(decide))
    }

    /// The node with the entry of this rank.
    pub(super) fn node_at(&self, rank: u64) -> Option<&StreamNode> {
        self.tree.at(rank).map(|(node, _)| node)
    }

    fn last_node(&self) -> Option<&StreamNode> {
        self.tree.get(last)
    }
}

/// Nodes that were taken out at once. Dropping them takes time in proportion to their number.
pub struct Removed(Tree<StreamNode>);

impl Removed {
    /// How many entries they have.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Leads to the last node.
fn last(_: &EntryId) -> Ordering {
    Ordering::Less
}

/// Entries of a range of IDs, in one of both directions.
pub struct StreamIter<'a> {
    nodes: Leaves<'a, StreamNode>,
    /// The node at hand, and where the walk is in it.
    node: Option<(&'a StreamNode, usize)>,
    from: EntryId,
    to: EntryId,
    is_backward: bool,
}

impl<'a> Iterator for StreamIter<'a> {
    type Item = StreamEntry<'a>;

    fn next(&mut self) -> Option<StreamEntry<'a>> {
        loop {
            let (node, offset) = match self.node {
                Some(place) => place,
                None if self.is_backward => {
                    let (node, _) = self.nodes.next_back()?;
                    (node, node.items_end())
                }
                None => {
                    let (node, _) = self.nodes.next()?;
                    (node, start_in(node, self.from))
                }
            };
            let found = match self.is_backward {
                true => node.item_before(offset),
                false => node.item_at(offset),
            };
            let Some(item) = found else {
                self.node = None;
                continue;
            };
            self.node = Some((node, if self.is_backward { item.start() } else { item.end() }));
            let is_past = if self.is_backward { item.id < self.from } else { item.id > self.to };
            if is_past {
                // Whatever else comes is past the range too.
                (self.from, self.to) = (EntryId::MAX, EntryId::MIN);
                return None;
            }
            if !item.is_deleted() && item.id >= self.from && item.id <= self.to {
                return Some(item);
            }
        }
    }
}

/// Where to begin looking for entries at or above an ID: a walk from behind finds it sooner when it
/// is among the last, where readers that follow a stream ask.
fn start_in(node: &StreamNode, from: EntryId) -> usize {
    if from <= node.master() {
        return node.items_start();
    }
    let last = node.last_id();
    let (behind, ahead) = match last.ms > node.master().ms {
        true => (from.ms.saturating_sub(node.master().ms), last.ms.saturating_sub(from.ms)),
        false => (from.seq.saturating_sub(node.master().seq), last.seq.saturating_sub(from.seq)),
    };
    if behind < ahead {
        return node.items_start();
    }
    let mut start = node.items_end();
    while let Some(item) = node.item_before(start).filter(|item| item.id >= from) {
        start = item.start();
    }
    start
}

impl NodeLimits {
    /// Whether a node may take an entry of so many bytes. Redis goes by these numbers.
    fn admit(self, node: &StreamNode, text: usize) -> bool {
        let within_bytes = node.bytes().len() + text < self.bytes_max();
        let entries = || node.live() + node.deleted();
        within_bytes && (self.entries == 0 || entries() < self.entries)
    }
}
