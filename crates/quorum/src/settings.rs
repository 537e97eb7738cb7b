//! What the operator has set, as far as the engines go by it.
//!
//! Invariant: a member keeps quiet for longer than its primary relies on, however both clocks run
//! within [`DRIFT_PERCENT`].

use crate::position::Millis;

/// How much faster or slower than time a clock may run.
pub const DRIFT_PERCENT: u64 = 5;

/// The settings of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `cluster-quorum-lease`: for so long a primary serves behind a heartbeat that a majority has
    /// answered, counted from its sending.
    pub lease: Millis,
    /// `cluster-node-timeout`: a primary that says nothing for so long is replaced.
    pub node_timeout: Millis,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { lease: 2000, node_timeout: 15_000 }
    }
}

impl Settings {
    /// How often heartbeats go out.
    pub fn heartbeat_period(&self) -> Millis {
        (self.lease / 4).max(1)
    }

    /// For how long a member promises no other term, counted from the arrival of a heartbeat: the
    /// lease by a clock that is slow, measured by one that is fast, and a millisecond for each
    /// rounding.
    pub fn patience(&self) -> Millis {
        (self.lease * (100 + DRIFT_PERCENT)).div_ceil(100 - DRIFT_PERCENT) + 2
    }
}

#[cfg(test)]
mod tests {
    use super::{DRIFT_PERCENT, Settings};

    #[test]
    fn patience_outlasts_the_lease_at_the_edge_of_the_drift() {
        for lease in 1..5000 {
            let settings = Settings { lease, ..Settings::default() };
            // Both in hundredths of real milliseconds, multiplied out.
            let relied_on = lease * 100 * (100 + DRIFT_PERCENT);
            let quiet = settings.patience() * 100 * (100 - DRIFT_PERCENT);
            assert!(quiet >= relied_on, "{lease}");
        }
    }
}
