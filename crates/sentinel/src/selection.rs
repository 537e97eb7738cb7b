//! Which replica is promoted.
//!
//! Invariant: a replica with priority 0, or one that is not known to be well right now, is never
//! chosen.

use std::cmp::Reverse;

use crate::context::Context;
use crate::primary::{Primary, PrimaryState, Replica};

impl Primary {
    /// The best replica to promote: of the lowest priority number, then of the highest offset,
    /// then of the least run id.
    pub(crate) fn best_replica(&self, context: &Context) -> Option<&Replica> {
        let good = self.replicas.values().filter(|replica| self.head.can_promote(replica, context));
        good.min_by_key(|replica| {
            let run_id = replica.node.run_id.as_ref().map(|id| id.to_ascii_lowercase());
            (replica.priority, Reverse(replica.offset), run_id.is_none(), run_id)
        })
    }
}

impl PrimaryState {
    fn can_promote(&self, replica: &Replica, context: &Context) -> bool {
        let instance = &replica.instance;
        let link = context.links.get(instance.link);
        if instance.is_down() || link.is_disconnected() || replica.priority == 0 {
            return false;
        }
        let is_down = self.instance.is_down();
        let ping = context.periods.ping;
        // INFO comes once a second while the primary is down.
        let age = if is_down { ping * 5 } else { context.periods.info * 3 };
        let down_since = self.instance.subjective.since.filter(|_| is_down);
        let down_for = down_since.map_or(0, |since| context.now - since);
        context.now - link.well_at <= ping * 5
            && replica.node.is_fresh(context, age)
            && replica.link_down <= down_for + self.settings.down_after * 10
    }
}
