//! Whether the cluster serves: its slots have owners that answer, and this node sees a majority.
//!
//! Invariant: a primary that was in a minority, or has just begun, waits before it serves again.

use super::Cluster;
use super::event::Millis;
use super::node::FailureState;
use crate::slots::SLOTS;

/// A primary that has begun serves no earlier than this: others may have moved on.
const FIRST_WAIT: Millis = 2000;
/// A primary comes back from a minority after the node's timeout, within these bounds.
const REJOIN_MIN: Millis = 500;
const REJOIN_MAX: Millis = 5000;

/// What is known of the state of the cluster.
#[derive(Debug)]
pub(super) struct ClusterState {
    is_ok: bool,
    began: Millis,
    /// When this node was last in a minority.
    in_minority: Option<Millis>,
    is_touched: bool,
}

impl ClusterState {
    pub(super) fn new(now: Millis) -> ClusterState {
        ClusterState { is_ok: false, began: now, in_minority: None, is_touched: true }
    }

    /// The node begins to hear others now.
    pub(super) fn begin(&mut self, now: Millis) {
        self.began = now;
    }

    /// Whether the node began so short a time ago that others may still have to tell it of claims.
    pub(super) fn has_just_begun(&self, now: Millis) -> bool {
        now.saturating_sub(self.began) < FIRST_WAIT
    }

    pub(super) fn is_ok(&self) -> bool {
        self.is_ok
    }

    pub(super) fn touch(&mut self) {
        self.is_touched = true;
    }
}

impl Cluster {
    /// How many primaries make a majority, and how many primaries there are.
    pub(super) fn quorum(&self) -> (usize, usize) {
        let size = self.nodes.values().filter(|node| node.is_voting()).count();
        (size / 2 + 1, size)
    }

    /// Finds the state anew where something has changed.
    pub(super) fn update_state_if_changed(&mut self) {
        if self.state.is_touched {
            self.update_state();
        }
    }

    /// Finds the state anew.
    pub(super) fn update_state(&mut self) {
        self.state.is_touched = false;
        let now = self.now();
        let waits = !self.state.is_ok && self.own().is_primary();
        if waits && self.state.has_just_begun(now) {
            return;
        }
        let voting = self.nodes.values().filter(|node| node.is_voting());
        let reachable = voting.filter(|node| node.health == FailureState::Reachable).count();
        let (quorum, _) = self.quorum();
        let mut is_ok = true;
        if self.settings.requires_full_coverage {
            let serving = self.nodes.values().filter(|node| !node.has_failed());
            let covered: usize = serving.map(|node| node.slots.len()).sum();
            is_ok = covered == usize::from(SLOTS);
        }
        if reachable < quorum {
            is_ok = false;
            self.state.in_minority = Some(now);
        }
        if is_ok && waits && self.is_too_early() {
            return;
        }
        if is_ok != self.state.is_ok {
            self.state.is_ok = is_ok;
            self.generation += 1;
            let word = if is_ok { "ok" } else { "fail" };
            self.log(format!("Cluster state changed: {word}"));
        }
    }

    fn is_too_early(&self) -> bool {
        let wait = self.settings.node_timeout.clamp(REJOIN_MIN, REJOIN_MAX);
        self.state.in_minority.is_some_and(|at| self.now().saturating_sub(at) < wait)
    }
}
