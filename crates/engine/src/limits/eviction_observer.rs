//! The observer that counts what is evicted, and notifies of it, beside the keyspace's own events.
//!
//! Invariant: what is booked under the locks of the evicted keys is told behind them.

use base::time::UnixMillis;
use keyspace::EntryRef;

use crate::clients::mailbox::Outbox;

/// Counts evictions, and notifies of them.
pub trait EvictionObserver: Send + Sync {
    /// Books a key that the worker of a lane evicts, idle for so many seconds; what is to be said
    /// of it, if anybody wants to know.
    fn record(
        &self,
        lane: usize,
        entry: EntryRef<'_>,
        now: UnixMillis,
        idle_s: u32,
    ) -> Option<String>;

    /// Notifies of what was noted, in microseconds of the wall clock.
    fn notify(&self, outbox: Outbox<'_>, now_us: i64, noted: String);
}
