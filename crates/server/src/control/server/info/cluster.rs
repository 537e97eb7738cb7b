//! The section Cluster: whether this is a node of one, what came of moves of slots, and what was
//! sent on.
//!
//! Invariant: figures of moves are this node's own, since its start; what is no node has none.

use std::sync::atomic::Ordering;

use super::info_text::InfoText;
use crate::cluster::{MoveDirection, MoveState, ProxyStats, StepState};
use crate::server::Server;

pub(super) fn write(server: &Server, report: &mut InfoText) {
    report.field("cluster_enabled", u8::from(server.cluster.is_on()));
    if !server.cluster.is_on() {
        return;
    }
    let moves = &server.cluster.moves;
    for (direction, [active, succeeded, failed, cancelled, keys]) in FIELDS {
        let figures = moves.figures.of(direction);
        report.field(active, moves.active(direction));
        report.field(succeeded, figures.ended(MoveState::Success));
        report.field(failed, figures.ended(MoveState::Failed));
        report.field(cancelled, figures.ended(MoveState::Cancelled));
        report.field(keys, figures.keys());
    }
    let ProxyStats { requests, redirections, errors, links } = &server.cluster.proxy.stats;
    report.field("cluster_proxy_links", links.load(Ordering::Relaxed));
    report.field("cluster_proxy_requests", requests.load(Ordering::Relaxed));
    report.field("cluster_proxy_redirections", redirections.load(Ordering::Relaxed));
    report.field("cluster_proxy_errors", errors.load(Ordering::Relaxed));
    let rebalancer = &server.cluster.rebalancer;
    report.field("rebalance_in_progress", u8::from(rebalancer.is_underway()));
    report.field("rebalance_moves_left", rebalancer.moves_left());
    report.field("rebalances_succeeded", rebalancer.ended(StepState::Success));
    report.field("rebalances_failed", rebalancer.ended(StepState::Failed));
    report.field("rebalances_cancelled", rebalancer.ended(StepState::Cancelled));
}

const FIELDS: [(MoveDirection, [&str; 5]); 2] = [
    (
        MoveDirection::Import,
        [
            "slot_imports_active",
            "slot_imports_succeeded",
            "slot_imports_failed",
            "slot_imports_cancelled",
            "slot_imports_keys",
        ],
    ),
    (
        MoveDirection::Export,
        [
            "slot_exports_active",
            "slot_exports_succeeded",
            "slot_exports_failed",
            "slot_exports_cancelled",
            "slot_exports_keys",
        ],
    ),
];
