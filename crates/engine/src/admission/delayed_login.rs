//! Attempts to log in that wait, as others from the same address have failed.
//!
//! Invariant: before its time has come nobody looks at the password, by whichever way in the
//! attempt has come; so nothing that others see tells a right one from a wrong one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::clients::registry::Peer;
use crate::shared::Shared;

/// An attempt that waits.
#[derive(Clone, Copy)]
pub struct DelayedLogin {
    peer: Peer,
    began_us: i64,
}

impl DelayedLogin {
    /// An attempt from there, if it has to wait.
    pub fn begin(server: &Shared, peer: Peer) -> Option<Self> {
        let attempt = Self { peer, began_us: server.keyspace.clock().monotonic_us() };
        attempt.time_left(server)?;
        server.observed.stats.delayed_logins.fetch_add(1, Ordering::Relaxed);
        Some(attempt)
    }

    /// How long it waits still, if it does.
    pub fn time_left(self, server: &Shared) -> Option<Duration> {
        let now_us = server.keyspace.clock().monotonic_us();
        let waited = Duration::from_micros((now_us - self.began_us).max(0).unsigned_abs());
        server.access.auth_failures.time_left(&server.config, self.peer, (waited, now_us))
    }
}
