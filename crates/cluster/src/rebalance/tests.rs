//! Plans: what is promised of each, and some that are known.

use std::collections::BTreeMap;

use base::Random;
use proptest::prelude::{Strategy, prop, prop_assert, prop_assert_eq, prop_assume, proptest};

use super::{NodeLoad, RebalanceBounds, RebalancePlan};
use crate::id::NodeId;
use crate::slots::{Slot, SlotSet};

const ALL: usize = 16_384;

/// Nodes of these weights, with figures of slots that lie one behind the other.
fn nodes(figures: &[(u16, Vec<u64>)]) -> Vec<NodeLoad> {
    let mut slots = Slot::all();
    let mut random = Random::from_seed(1);
    let nodes = figures.iter().map(|(weight, figures)| NodeLoad {
        id: NodeId::random(&mut random),
        weight: *weight,
        slots: figures.iter().map(|figure| (slots.next().unwrap(), *figure)).collect(),
    });
    nodes.collect()
}

fn plan(nodes: &[NodeLoad], threshold: u8) -> RebalancePlan {
    RebalancePlan::new(nodes, RebalanceBounds { threshold, slots_max: ALL })
}

fn after(plan: &RebalancePlan) -> Vec<u64> {
    plan.nodes.iter().map(|node| node.after).collect()
}

fn moved(plan: &RebalancePlan) -> usize {
    plan.moves.iter().map(|it| it.slots.len()).sum()
}

/// Carries a plan out: the figures of each node's slots.
fn carried_out(nodes: &[NodeLoad], plan: &RebalancePlan) -> Vec<BTreeMap<Slot, u64>> {
    let mut all: Vec<BTreeMap<Slot, u64>> =
        nodes.iter().map(|node| node.slots.iter().copied().collect()).collect();
    let place = |id: NodeId| nodes.iter().position(|node| node.id == id).unwrap();
    for it in &plan.moves {
        let mut sum = 0;
        for slot in it.slots.iter() {
            let figure = all[place(it.source)].remove(&slot).expect("the source has the slot");
            sum += figure;
            all[place(it.target)].insert(slot, figure);
        }
        assert_eq!(sum, it.figure);
    }
    all
}

#[test]
fn a_new_node_gets_its_share_in_as_few_ranges_as_it_has_sources() {
    let before = nodes(&[(1, vec![1; 5461]), (1, vec![1; 5462]), (1, vec![1; 5461]), (1, vec![])]);
    let plan = plan(&before, 0);
    assert_eq!(after(&plan), [4096; 4]);
    assert_eq!(moved(&plan), 4096);
    let ids: Vec<NodeId> = before.iter().map(|node| node.id).collect();
    for source in &ids[..3] {
        let of_it = plan.moves.iter().filter(|it| it.source == *source);
        let slots = of_it.fold(SlotSet::empty(), |all, it| all.or(&it.slots));
        assert_eq!(slots.ranges().len(), 1);
    }
    assert!(plan.moves.iter().all(|it| it.target == ids[3] && it.slots.len() <= 64));
    assert_eq!((plan.imbalance(), plan.planned_imbalance()), (100.0, 0.0));
}

#[test]
fn great_slots_go_first_so_few_go() {
    let before = nodes(&[(1, vec![1, 1, 1, 1, 90, 6]), (1, vec![0; 6])]);
    // Half of the hundred cannot be reached: the great slot stays, the rest would not be enough.
    assert_eq!(after(&plan(&before, 2)), [90, 10]);
    let before = nodes(&[(1, vec![10, 20, 30, 1, 1, 38]), (1, vec![0; 6])]);
    let plan = plan(&before, 5);
    assert_eq!((after(&plan), moved(&plan)), (vec![52, 48], 2));
}

#[test]
fn what_is_within_the_threshold_stays() {
    let before = nodes(&[(1, vec![1; 102]), (1, vec![1; 98])]);
    assert_eq!(plan(&before, 2).moves, []);
    assert_eq!(after(&plan(&before, 1)), [101, 99]);
    assert_eq!(plan(&nodes(&[]), 0), RebalancePlan::default());
    assert_eq!(plan(&nodes(&[(1, vec![0; 9]), (3, vec![])]), 0).moves, []);
}

#[test]
fn a_node_gets_as_much_as_its_weight_says() {
    let before = nodes(&[(1, vec![1; 300]), (2, vec![1; 300]), (3, vec![1; 300])]);
    assert_eq!(after(&plan(&before, 0)), [150, 300, 450]);
}

#[test]
fn a_node_without_weight_gives_all_away_also_what_carries_nothing() {
    let before = nodes(&[(0, vec![0; 50]), (1, vec![0; 10]), (1, vec![0; 10])]);
    let result = plan(&before, 2);
    let slots: Vec<usize> = carried_out(&before, &result).iter().map(BTreeMap::len).collect();
    assert_eq!(slots, [0, 35, 35]);
    let before = nodes(&[(1, vec![5; 20]), (0, vec![7; 20]), (1, vec![5; 20])]);
    assert_eq!(after(&plan(&before, 5)), [170, 0, 170]);
}

#[test]
fn no_more_slots_move_than_may() {
    let before = nodes(&[(0, vec![1; 30]), (1, vec![1; 70]), (1, vec![])]);
    for slots_max in [0, 1, 29, 31] {
        let bounds = RebalanceBounds { threshold: 0, slots_max };
        assert_eq!(moved(&RebalancePlan::new(&before, bounds)), slots_max);
    }
}

/// Some nodes, with slots of very different figures.
fn any_nodes() -> impl Strategy<Value = Vec<(u16, Vec<u64>)>> {
    let figure = (0..40_u32, 0..1000_u64).prop_map(|(size, figure)| figure << (size % 30) >> 10);
    let node = (0..4_u16, prop::collection::vec(figure, 0..200));
    prop::collection::vec(node, 1..8)
}

fn nodes_of_small_slots() -> impl Strategy<Value = Vec<(u16, Vec<u64>)>> {
    let node = (1..4_u16, prop::collection::vec(0..10_u64, 0..300));
    prop::collection::vec(node, 2..7)
}

proptest! {
    #[test]
    fn a_plan_can_be_carried_out_and_comes_to_what_was_said(
        figures in any_nodes(),
        threshold in 0..20_u8,
        slots_max in 0..3000_usize,
    ) {
        let nodes = nodes(&figures);
        let bounds = RebalanceBounds { threshold, slots_max };
        let plan = RebalancePlan::new(&nodes, bounds);
        prop_assert!(moved(&plan) <= slots_max);
        prop_assert_eq!(&plan, &RebalancePlan::new(&nodes, bounds));
        let result = carried_out(&nodes, &plan);
        let sums: Vec<u64> = result.iter().map(|slots| slots.values().sum()).collect();
        prop_assert_eq!(sums, after(&plan));
        let mut seen = SlotSet::empty();
        for it in &plan.moves {
            prop_assert!(it.slots.and(&seen).is_empty());
            seen = seen.or(&it.slots);
            let target = nodes.iter().find(|node| node.id == it.target).unwrap();
            prop_assert!(target.weight > 0);
        }
        if slots_max > 200 * 8 && nodes.iter().any(|node| node.weight > 0) {
            let rest = nodes.iter().zip(&result).filter(|(node, _)| node.weight == 0);
            prop_assert!(rest.map(|(_, slots)| slots.len()).sum::<usize>() == 0);
        }
    }

    #[test]
    fn no_plan_makes_the_imbalance_greater(
        figures in any_nodes(),
        threshold in 0..20_u8,
        slots_max in 0..2000_usize,
    ) {
        let figures: Vec<_> = figures.into_iter().map(|(weight, it)| (weight.max(1), it)).collect();
        let nodes = nodes(&figures);
        let plan = RebalancePlan::new(&nodes, RebalanceBounds { threshold, slots_max });
        let most = plan.imbalance().max(f64::from(threshold));
        prop_assert!(plan.planned_imbalance() <= most + 1e-6);
        if plan.imbalance() <= f64::from(threshold) - 1e-6 {
            prop_assert_eq!(plan.moves, []);
        }
    }

    #[test]
    fn all_nodes_come_within_the_threshold_where_slots_are_small(
        figures in nodes_of_small_slots(),
        threshold in 5..30_u8,
    ) {
        let whole: u64 = figures.iter().flat_map(|(_, it)| it).sum();
        let weights: u64 = figures.iter().map(|(weight, _)| u64::from(*weight)).sum();
        let least = figures.iter().map(|(weight, _)| u64::from(*weight)).min().unwrap();
        // No slot is greater than what the threshold leaves to any node.
        prop_assume!(whole * least * u64::from(threshold) >= 9 * 100 * weights);
        let plan = plan(&nodes(&figures), threshold);
        prop_assert!(plan.planned_imbalance() <= f64::from(threshold) + 1e-6, "{plan:?}");
    }
}
