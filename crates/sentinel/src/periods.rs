//! The times that a Sentinel goes by, which SENTINEL DEBUG shows and changes.
//!
//! Invariant: each is at least one millisecond.

use crate::Millis;

/// The times that a Sentinel goes by, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Periods {
    /// Between two INFOs.
    pub(crate) info: Millis,
    /// Between two PINGs, unless down-after-milliseconds is shorter.
    pub(crate) ping: Millis,
    /// Between two questions whether a primary is down.
    pub(crate) ask: Millis,
    /// Between two hellos.
    pub(crate) publish: Millis,
    /// down-after-milliseconds of a new primary.
    pub(crate) down_after: Millis,
    /// failover-timeout of a new primary.
    pub(crate) failover_timeout: Millis,
    /// A longer gap between two ticks is TILT.
    pub(crate) tilt_trigger: Millis,
    /// How long TILT lasts.
    pub(crate) tilt: Millis,
    /// How long a replica may take to follow its new primary.
    pub(crate) reconf_timeout: Millis,
    /// A connection is not given up sooner.
    pub(crate) link_age: Millis,
    /// How long a candidate waits for its election.
    pub(crate) election: Millis,
    /// How long a script may run.
    pub(crate) script_runtime: Millis,
    /// How long a failed script waits for its second run.
    pub(crate) script_retry: Millis,
}

impl Default for Periods {
    fn default() -> Periods {
        Periods {
            info: 10_000,
            ping: 1000,
            ask: 1000,
            publish: 2000,
            down_after: 30_000,
            failover_timeout: 180_000,
            tilt_trigger: 2000,
            tilt: 30_000,
            reconf_timeout: 10_000,
            link_age: 15_000,
            election: 10_000,
            script_runtime: 60_000,
            script_retry: 30_000,
        }
    }
}

impl Periods {
    /// All of them by the names that SENTINEL DEBUG knows.
    pub(crate) fn named(&mut self) -> [(&'static str, &mut Millis); 13] {
        [
            ("INFO-PERIOD", &mut self.info),
            ("PING-PERIOD", &mut self.ping),
            ("ASK-PERIOD", &mut self.ask),
            ("PUBLISH-PERIOD", &mut self.publish),
            ("DEFAULT-DOWN-AFTER", &mut self.down_after),
            ("DEFAULT-FAILOVER-TIMEOUT", &mut self.failover_timeout),
            ("TILT-TRIGGER", &mut self.tilt_trigger),
            ("TILT-PERIOD", &mut self.tilt),
            ("SLAVE-RECONF-TIMEOUT", &mut self.reconf_timeout),
            ("MIN-LINK-RECONNECT-PERIOD", &mut self.link_age),
            ("ELECTION-TIMEOUT", &mut self.election),
            ("SCRIPT-MAX-RUNTIME", &mut self.script_runtime),
            ("SCRIPT-RETRY-DELAY", &mut self.script_retry),
        ]
    }
}
