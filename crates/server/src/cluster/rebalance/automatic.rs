//! A rebalance without an order, as `cluster-auto-rebalance` says: a node looks from time to time.
//!
//! Invariants: of the nodes that see the same table one looks, the primary with slots whose name is
//! the smallest; the thread that tells this node the time never waits for a look.

use std::sync::atomic::Ordering;
use std::time::Duration;

use cluster::{Cluster, NodeFlags, NodeRecord, RebalanceBounds};
use config::AutoRebalance;
use config::settings::{
    CLUSTER_AUTO_REBALANCE, CLUSTER_AUTO_REBALANCE_INTERVAL, CLUSTER_AUTO_REBALANCE_LIMIT,
    CLUSTER_AUTO_REBALANCE_THRESHOLD,
};
use engine::runtime::log::log_warning;

use super::{RebalanceBy, RebalanceOrder, Rebalancer};
use crate::cluster::start::ClusterContext;

/// So long requests are watched where time counts.
const DURATION: Duration = Duration::from_secs(10);

impl Rebalancer {
    /// Time goes by.
    pub(in crate::cluster) fn tick(start: ClusterContext) {
        let ClusterContext { server, node, .. } = start;
        let config = &server.config;
        let by = match config.get(CLUSTER_AUTO_REBALANCE) {
            AutoRebalance::No => None,
            AutoRebalance::Slots => Some(RebalanceBy::Slots),
            AutoRebalance::Keys => Some(RebalanceBy::Keys),
            AutoRebalance::Memory => Some(RebalanceBy::Memory),
            AutoRebalance::Load => Some(RebalanceBy::Load),
            AutoRebalance::HotSlots => Some(RebalanceBy::HotSlots),
        };
        let (now_us, looked_us) =
            (server.keyspace.clock().monotonic_us(), &node.rebalancer.looked_us);
        let interval_us = config.get(CLUSTER_AUTO_REBALANCE_INTERVAL).saturating_mul(1_000_000);
        let passed_us = (now_us - looked_us.load(Ordering::Relaxed)).unsigned_abs();
        let Some(by) = by else {
            // The first look comes an interval after the directive.
            looked_us.store(now_us, Ordering::Relaxed);
            return;
        };
        if passed_us < interval_us {
            return;
        }
        looked_us.store(now_us, Ordering::Relaxed);
        if node.with_engine(is_chosen) != Some(true) {
            return;
        }
        let bounds = RebalanceBounds {
            threshold: config.get(CLUSTER_AUTO_REBALANCE_THRESHOLD),
            slots_max: config.get(CLUSTER_AUTO_REBALANCE_LIMIT),
        };
        let order = RebalanceOrder {
            by,
            bounds,
            weights: Vec::new(),
            fills_empty: false,
            duration: DURATION,
            is_dry: false,
        };
        server.threads.background.spawn_visit(move |lane| {
            if let Err(why) = Self::rebalance(start, lane, &order) {
                log_warning!(server.log, "Rebalance without an order: {why}");
            }
        });
    }
}

/// Whether it is this node that looks.
fn is_chosen(cluster: &mut Cluster) -> bool {
    let failing = NodeFlags::PFAIL.with(NodeFlags::FAIL);
    let may_look = |record: &NodeRecord| {
        record.flags.contains(NodeFlags::PRIMARY)
            && !record.slots.is_empty()
            && !record.flags.intersects(failing)
    };
    let first = cluster.records().into_iter().filter(may_look).map(|record| record.id).min();
    cluster.is_ok() && first == Some(cluster.my_id())
}
