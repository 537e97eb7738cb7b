//! What clients are sent without having asked at that moment: messages, invalidations, lines of
//! MONITOR.
//!
//! Invariant: a push never waits for the client that it goes to.

use std::sync::OnceLock;

use crate::observe::monitor::Monitors;
use crate::observe::pubsub::{MessageBus, PubSub};
use crate::observe::tracking::Tracking;

/// What clients are pushed.
#[derive(Default)]
pub struct Pushes {
    /// Channels and their subscribers.
    pub pubsub: PubSub,
    /// CLIENT TRACKING: the invalidation table and its clients.
    pub tracking: Tracking,
    /// The clients that watch with MONITOR.
    pub monitors: Monitors,
    /// Set before the first client comes, in a cluster.
    bus: OnceLock<&'static dyn MessageBus>,
}

impl Pushes {
    /// Has messages go to other nodes, too; once.
    pub fn set_bus(&self, bus: &'static dyn MessageBus) {
        let _ = self.bus.set(bus);
    }

    /// What takes messages to other nodes.
    pub(crate) fn bus(&self) -> Option<&'static dyn MessageBus> {
        self.bus.get().copied()
    }
}
