//! Which transaction had to be before which, and why; the components of that graph in which all
//! were before each other, by Tarjan's algorithm.
//!
//! Invariant: a path from one transaction to another exists exactly if the history shows that the
//! one took effect before the other. Real time needs only linearly many edges, since they go
//! through one node for each completion.

use std::collections::HashMap;

use super::history::{Element, Key, Outcome, Transaction, reads};
use super::orders::Orders;

/// A transaction, or a moment when one was completed.
pub(super) type Node = u32;

/// Why something is before something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Both appended to a list, and this was first.
    Append,
    /// The other read what this had appended.
    Read,
    /// This read a list before the other appended to it.
    ReadBefore,
    /// This was over when the other began.
    Time,
}

/// A step from one node to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) to: Node,
    pub(super) reason: Reason,
    /// The list; of no meaning for time.
    pub(super) key: Key,
}

/// The reasons that a search goes by.
#[derive(Clone, Copy)]
pub(super) struct Reasons(u8);

impl Reasons {
    pub(super) fn of(reasons: &[Reason]) -> Self {
        Self(reasons.iter().fold(0, |mask, reason| mask | bit(*reason)))
    }

    pub(super) fn and(self, reason: Reason) -> Self {
        Self(self.0 | bit(reason))
    }

    fn has(self, reason: Reason) -> bool {
        self.0 & bit(reason) != 0
    }
}

fn bit(reason: Reason) -> u8 {
    1 << reason as u8
}

/// What was before what.
pub(super) struct Graph {
    edges: Vec<Vec<Edge>>,
    /// Nodes below are transactions.
    pub(super) transactions: Node,
}

impl Graph {
    /// All nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = Node> {
        0..self.edges.len() as Node
    }

    /// The steps from a node for these reasons.
    pub(super) fn steps(&self, from: Node, reasons: Reasons) -> impl Iterator<Item = &Edge> {
        self.edges[from as usize].iter().filter(move |edge| reasons.has(edge.reason))
    }

    fn add(&mut self, from: Node, edge: Edge) {
        if from != edge.to {
            self.edges[from as usize].push(edge);
        }
    }

    fn add_node(&mut self) -> Node {
        self.edges.push(Vec::new());
        self.edges.len() as Node - 1
    }
}

/// The graph of a history.
pub(super) fn build(history: &[Transaction], orders: &Orders<'_>) -> Graph {
    let transactions = history.len() as Node;
    let mut graph = Graph { edges: vec![Vec::new(); history.len()], transactions };
    add_appends(&mut graph, orders);
    add_reads(&mut graph, history, orders);
    add_time(&mut graph, history);
    graph
}

fn node_of(orders: &Orders<'_>, key: Key, element: Element) -> Option<Node> {
    orders.writer(key, element).map(|writer| writer.transaction as Node)
}

fn add_appends(graph: &mut Graph, orders: &Orders<'_>) {
    for (key, order) in &orders.lists {
        for pair in order.elements.windows(2) {
            let nodes = [pair[0], pair[1]].map(|element| node_of(orders, *key, element));
            if let [Some(from), Some(to)] = nodes {
                graph.add(from, Edge { to, reason: Reason::Append, key: *key });
            }
        }
    }
}

fn add_reads(graph: &mut Graph, history: &[Transaction], orders: &Orders<'_>) {
    for (reader, key, list) in reads(history) {
        let order = &orders.lists[&key];
        let reader = reader as Node;
        if let Some(writer) = list.last().and_then(|last| node_of(orders, key, *last)) {
            graph.add(writer, Edge { to: reader, reason: Reason::Read, key });
        }
        let mut add_later = |to| graph.add(reader, Edge { to, reason: Reason::ReadBefore, key });
        match order.elements.get(list.len()) {
            Some(next) => {
                node_of(orders, key, *next).into_iter().for_each(&mut add_later);
            }
            None => order.unread.iter().for_each(|writer| add_later(*writer as Node)),
        }
    }
}

/// Each completion is a node, and after the one before; a beginning is after the last of them.
fn add_time(graph: &mut Graph, history: &[Transaction]) {
    const BEGINS: u8 = 0;
    const ENDS: u8 = 1;
    let mut events = Vec::new();
    for (number, transaction) in history.iter().enumerate() {
        if transaction.outcome != Outcome::Aborted {
            events.push((transaction.invoked, BEGINS, number as Node));
        }
        if transaction.outcome == Outcome::Committed {
            events.push((transaction.completed, ENDS, number as Node));
        }
    }
    // What begins at the very moment when another ends may have been before it.
    events.sort_unstable();
    let mut last = None;
    for (_, event, number) in events {
        let step = |to| Edge { to, reason: Reason::Time, key: 0 };
        if event == BEGINS {
            last.into_iter().for_each(|moment| graph.add(moment, step(number)));
        } else {
            let moment = graph.add_node();
            graph.add(number, step(moment));
            last.into_iter().for_each(|before| graph.add(before, step(moment)));
            last = Some(moment);
        }
    }
}

/// The components of more than one node, within the given nodes and for these reasons.
pub(super) fn components(graph: &Graph, nodes: &[Node], reasons: Reasons) -> Vec<Vec<Node>> {
    let marks = nodes.iter().map(|node| (*node, Mark::default())).collect();
    let mut search = Search {
        graph,
        reasons,
        marks,
        count: 0,
        stack: Vec::new(),
        calls: Vec::new(),
        found: Vec::new(),
    };
    for node in nodes {
        search.run(*node);
    }
    search.found
}

/// What Tarjan's algorithm knows of a node.
#[derive(Clone, Copy, Default)]
struct Mark {
    /// When the node was first met, counted from 1; 0 means never.
    met: u32,
    /// The first met of those that can be reached from it.
    low: u32,
    is_on_stack: bool,
}

/// A run of Tarjan's algorithm, without recursion: paths are as long as histories.
struct Search<'a> {
    graph: &'a Graph,
    reasons: Reasons,
    marks: HashMap<Node, Mark>,
    count: u32,
    stack: Vec<Node>,
    /// The path to where the search is: each node with the number of its next step.
    calls: Vec<(Node, usize)>,
    found: Vec<Vec<Node>>,
}

impl Search<'_> {
    fn run(&mut self, start: Node) {
        if self.marks[&start].met == 0 {
            self.enter(start);
        }
        while let Some((node, at)) = self.calls.last_mut() {
            let (node, step) = (*node, self.graph.edges[*node as usize].get(*at));
            *at += 1;
            match step {
                Some(step) if self.reasons.has(step.reason) => self.follow(node, step.to),
                Some(_) => {}
                None => self.leave(node),
            }
        }
    }

    fn mark(&mut self, node: Node) -> &mut Mark {
        self.marks.get_mut(&node).expect("only nodes that are searched are entered")
    }

    fn enter(&mut self, node: Node) {
        self.count += 1;
        *self.mark(node) = Mark { met: self.count, low: self.count, is_on_stack: true };
        self.stack.push(node);
        self.calls.push((node, 0));
    }

    fn follow(&mut self, node: Node, to: Node) {
        match self.marks.get(&to).copied() {
            None => {}
            Some(Mark { met: 0, .. }) => self.enter(to),
            Some(there) if there.is_on_stack => self.lower(node, there.met),
            Some(_) => {}
        }
    }

    fn lower(&mut self, node: Node, low: u32) {
        let mark = self.mark(node);
        mark.low = mark.low.min(low);
    }

    fn leave(&mut self, node: Node) {
        self.calls.pop();
        let mark = *self.mark(node);
        if let Some((parent, _)) = self.calls.last() {
            self.lower(*parent, mark.low);
        }
        if mark.low != mark.met {
            return;
        }
        let begin = self.stack.iter().rposition(|other| *other == node);
        let component = self.stack.split_off(begin.expect("a node leaves before its component"));
        for member in &component {
            self.mark(*member).is_on_stack = false;
        }
        if component.len() > 1 {
            self.found.push(component);
        }
    }
}
