//! The planner at work: first the nodes without a share give all away, then those with too much
//! give to those with too little.
//!
//! Sums and shares are reckoned times the sum of all weights, so that nothing is ever rounded: 54
//! bits of figures, 30 of weights and 16 of one weight fit.
//!
//! Invariants: what has moved is in no node's list of slots to give; a step makes the sum of all
//! distances from the shares smaller, so the steps come to an end.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::{NodeLoad, RebalanceBounds, bounded};
use crate::slots::{SLOTS, Slot};

/// Slots and nodes, while a plan is made.
pub(super) struct Planner {
    nodes: Vec<NodeShare>,
    bounds: RebalanceBounds,
    /// The sum of all weights.
    weights: i128,
    /// The sum of all figures.
    whole: i128,
    steps: Vec<PlannedStep>,
}

struct NodeShare {
    weight: i128,
    load: u64,
    /// The slots that it may give, by their figures.
    slots: BTreeSet<(u64, Slot)>,
}

/// One slot goes from one node to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedStep {
    pub(super) source: usize,
    pub(super) target: usize,
    pub(super) slot: Slot,
    pub(super) figure: u64,
}

impl Planner {
    pub(super) fn new(nodes: &[NodeLoad], bounds: RebalanceBounds) -> Planner {
        let shares = nodes.iter().map(|node| {
            let slots = node.slots.iter().map(|(slot, figure)| (bounded(*figure), *slot));
            let slots: BTreeSet<(u64, Slot)> = slots.collect();
            let load = slots.iter().map(|(figure, _)| figure).sum();
            NodeShare { weight: node.weight.into(), load, slots }
        });
        let nodes: Vec<NodeShare> = shares.collect();
        let weights = nodes.iter().map(|node| node.weight).sum();
        let whole = nodes.iter().map(|node| i128::from(node.load)).sum();
        Planner { nodes, bounds, weights, whole, steps: Vec::new() }
    }

    /// Takes all slots from nodes without a share, also those that carry nothing. A target is given
    /// slots in a row until it has its share.
    pub(super) fn drain(&mut self) {
        let (givers, takers): (Vec<usize>, Vec<usize>) =
            (0..self.nodes.len()).partition(|index| self.nodes[*index].weight == 0);
        // A slot that carries nothing counts, too, so that not all of them go to one node.
        let mut given = vec![0_i128; self.nodes.len()];
        let mut last: Option<usize> = None;
        for source in givers {
            let slots: Vec<(u64, Slot)> = self.nodes[source].slots.iter().rev().copied().collect();
            for (figure, slot) in slots {
                let count = i128::from(figure.max(1));
                let lack = |index: usize| -self.excess(index) - given[index] * self.weights;
                let has_room = |index: &usize| lack(*index) >= count * self.weights;
                let by_share = |a: &usize, b: &usize| {
                    self.ratio(*a, lack(*a)).cmp(&self.ratio(*b, lack(*b))).then(b.cmp(a))
                };
                let target = last.filter(has_room);
                let target = target.or_else(|| takers.iter().copied().max_by(by_share));
                let Some(target) = target.filter(|_| !self.is_full()) else { return };
                last = Some(target);
                given[target] += count - i128::from(figure);
                self.step(PlannedStep { source, target, slot, figure });
            }
        }
    }

    /// Moves slots until all are near to their shares, or no slot brings them nearer.
    pub(super) fn balance(&mut self) {
        while !self.is_full()
            && let Some(step) = self.next_step()
        {
            self.step(step);
            // The same two go on as long as a slot fits both: their slots stay together.
            while !self.is_full()
                && let Some(step) = self.fitting(step.source, step.target)
            {
                self.step(step);
            }
        }
    }

    /// What each node will have, and how.
    pub(super) fn finish(self) -> (Vec<u64>, Vec<PlannedStep>) {
        (self.nodes.iter().map(|node| node.load).collect(), self.steps)
    }

    fn is_full(&self) -> bool {
        self.steps.len() >= self.bounds.slots_max
    }

    fn step(&mut self, step: PlannedStep) {
        let PlannedStep { source, target, slot, figure } = step;
        self.nodes[source].slots.remove(&(figure, slot));
        self.nodes[source].load -= figure;
        self.nodes[target].load += figure;
        self.steps.push(step);
    }

    /// How much more than its share a node has.
    fn excess(&self, index: usize) -> i128 {
        let node = &self.nodes[index];
        i128::from(node.load) * self.weights - self.whole * node.weight
    }

    /// So far from its share a node may be.
    fn leeway(&self, index: usize) -> i128 {
        self.whole * self.nodes[index].weight * i128::from(self.bounds.threshold) / 100
    }

    fn is_off(&self, index: usize) -> bool {
        self.excess(index).abs() > self.leeway(index)
    }

    /// A distance from the share of a node, to be compared with that of another node.
    fn ratio(&self, index: usize, distance: i128) -> Ratio {
        Ratio { distance, weight: self.nodes[index].weight }
    }

    /// The next slot, between the nodes that are furthest from their shares and can be helped.
    fn next_step(&self) -> Option<PlannedStep> {
        let shared = (0..self.nodes.len()).filter(|index| self.nodes[*index].weight > 0);
        let (mut high, mut low): (Vec<usize>, Vec<usize>) =
            shared.filter(|index| self.excess(*index) != 0).partition(|it| self.excess(*it) > 0);
        let by_ratio = |a: &usize, b: &usize| {
            let of = |index: usize| self.ratio(index, self.excess(index).abs());
            of(*b).cmp(&of(*a)).then(a.cmp(b))
        };
        high.sort_by(by_ratio);
        low.sort_by(by_ratio);
        let pairs = high.iter().flat_map(|source| low.iter().map(|target| (*source, *target)));
        let mut steps = pairs.filter_map(|(source, target)| {
            let is_off = self.is_off(source) || self.is_off(target);
            is_off.then(|| self.best(source, target)).flatten()
        });
        steps.next()
    }

    /// The greatest slot that leaves neither on the other side of its share, while one is off.
    fn fitting(&self, source: usize, target: usize) -> Option<PlannedStep> {
        if !self.is_off(source) && !self.is_off(target) {
            return None;
        }
        let room = self.excess(source).min(-self.excess(target)) / self.weights;
        let room = u64::try_from(room).ok().filter(|room| *room > 0)?;
        let slots = self.nodes[source].slots.range(..=(room, LAST));
        let (figure, slot) = slots.copied().next_back().filter(|(figure, _)| *figure > 0)?;
        Some(PlannedStep { source, target, slot, figure })
    }

    /// The slot that brings two nodes nearest to their shares: the greatest that fits, or the next
    /// greater one where that does more and harms neither.
    fn best(&self, source: usize, target: usize) -> Option<PlannedStep> {
        let fitting = self.fitting(source, target);
        let above = match fitting {
            Some(step) => self.nodes[source].slots.range((step.figure + 1, FIRST)..),
            None => self.nodes[source].slots.range((1, FIRST)..),
        };
        let above = above.copied().next();
        let above = above.map(|(figure, slot)| PlannedStep { source, target, slot, figure });
        let above = above.filter(|step| self.is_good(*step));
        let gain = |step: &PlannedStep| self.gain(*step);
        // Of two that do as much the one that fits carries less.
        [above, fitting].into_iter().flatten().max_by_key(gain)
    }

    /// By how much the sum of both distances falls, halved.
    fn gain(&self, step: PlannedStep) -> i128 {
        let (high, low) = (self.excess(step.source), -self.excess(step.target));
        let figure = i128::from(step.figure) * self.weights;
        figure.min(high).min(low).min(high + low - figure)
    }

    /// Whether each of the two ends near to its share, or nearer by half of what is carried.
    fn is_good(&self, step: PlannedStep) -> bool {
        let figure = i128::from(step.figure) * self.weights;
        let helps = |index: usize, distance: i128| {
            let after = (distance - figure).abs();
            after <= self.leeway(index) || (distance - after) * 2 >= figure
        };
        self.gain(step) > 0
            && helps(step.source, self.excess(step.source))
            && helps(step.target, -self.excess(step.target))
    }
}

const FIRST: Slot = Slot::new(0).expect("there are slots");
const LAST: Slot = Slot::new(SLOTS - 1).expect("there are slots");

/// A distance, in shares of the weight of its node.
struct Ratio {
    distance: i128,
    weight: i128,
}

impl Ratio {
    fn cmp(&self, other: &Ratio) -> Ordering {
        (self.distance * other.weight).cmp(&(other.distance * self.weight))
    }
}
