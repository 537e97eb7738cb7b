//! Which slots go where, so that every primary has its share: a plan, made of figures alone.
//!
//! Invariants: the same figures make the same plan; a slot moves once at most. No step leaves a
//! node that has a share further from it than before, unless it stays within the threshold. Where
//! no slot is greater than what the threshold leaves to any node, all nodes end within it.

mod planner;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::planner::Planner;
use crate::id::NodeId;
use crate::slots::{Slot, SlotSet};

/// So many slots go by one move at most: a move that ends early costs no more than these.
const SLOTS_OF_MOVE: usize = 64;

/// A greater figure of a slot counts as this.
const FIGURE_MAX: u64 = 1 << 40;

/// A primary with what each of its slots carries.
#[derive(Clone, Debug)]
pub struct NodeLoad {
    /// Its name.
    pub id: NodeId,
    /// Its share, compared with the weights of others; a node of none gives all slots away.
    pub weight: u16,
    /// Its slots, and the figure of each.
    pub slots: Vec<(Slot, u64)>,
}

/// How far a plan goes.
#[derive(Clone, Copy, Debug)]
pub struct RebalanceBounds {
    /// A node this near to its share, in percent of it, is left alone.
    pub threshold: u8,
    /// So many slots move at most.
    pub slots_max: usize,
}

/// What is to be done, and what comes of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RebalancePlan {
    /// The nodes, in the order in which they were given.
    pub nodes: Vec<NodeBalance>,
    /// What moves, the most urgent first.
    pub moves: Vec<PlannedMove>,
}

/// The figures of a node, before a plan and behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeBalance {
    /// Its name.
    pub id: NodeId,
    /// Its share, compared with the weights of others.
    pub weight: u16,
    /// The sum of its figures.
    pub before: u64,
    /// The sum that it will have.
    pub after: u64,
}

/// Slots that go together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedMove {
    /// The node that gives them.
    pub source: NodeId,
    /// The node that takes them.
    pub target: NodeId,
    /// The slots.
    pub slots: SlotSet,
    /// The sum of their figures.
    pub figure: u64,
}

impl RebalancePlan {
    /// Plans for these nodes.
    pub fn new(nodes: &[NodeLoad], bounds: RebalanceBounds) -> RebalancePlan {
        let mut planner = Planner::new(nodes, bounds);
        planner.drain();
        planner.balance();
        let (loads, steps) = planner.finish();
        let balances = nodes.iter().zip(loads).map(|(node, after)| NodeBalance {
            id: node.id,
            weight: node.weight,
            before: node.slots.iter().map(|(_, figure)| bounded(*figure)).sum(),
            after,
        });
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        let mut of_pair: BTreeMap<(usize, usize), Vec<(Slot, u64)>> = BTreeMap::new();
        for step in steps {
            let pair = (step.source, step.target);
            let slots = of_pair.entry(pair).or_default();
            if slots.is_empty() {
                pairs.push(pair);
            }
            slots.push((step.slot, step.figure));
        }
        let mut moves = Vec::new();
        for (source, target) in pairs {
            let mut slots = of_pair.remove(&(source, target)).unwrap_or_default();
            slots.sort_unstable();
            moves.extend(slots.chunks(SLOTS_OF_MOVE).map(|chunk| PlannedMove {
                source: nodes[source].id,
                target: nodes[target].id,
                slots: chunk.iter().map(|(slot, _)| *slot).collect(),
                figure: chunk.iter().map(|(_, figure)| figure).sum(),
            }));
        }
        RebalancePlan { nodes: balances.collect(), moves }
    }

    /// How far the node is from its share that is furthest from it, in percent: now.
    pub fn imbalance(&self) -> f64 {
        self.furthest(|node| node.before)
    }

    /// As [`Self::imbalance`], once all is done.
    pub fn planned_imbalance(&self) -> f64 {
        self.furthest(|node| node.after)
    }

    fn furthest(&self, figure: fn(&NodeBalance) -> u64) -> f64 {
        let whole: f64 = self.nodes.iter().map(|node| figure(node) as f64).sum();
        let weights: f64 = self.nodes.iter().map(|node| f64::from(node.weight)).sum();
        let shares = self.nodes.iter().filter(|node| node.weight > 0).map(|node| {
            let share = whole * f64::from(node.weight) / weights;
            if share > 0.0 { (figure(node) as f64 - share).abs() / share * 100.0 } else { 0.0 }
        });
        shares.fold(0.0, f64::max)
    }
}

fn bounded(figure: u64) -> u64 {
    figure.min(FIGURE_MAX)
}
