//! What a run has done so far, for its watchers (the progress line, statsd). Invariant: the numbers
//! only grow, except `connections`; each is written by all threads of the run in batches, so a
//! reader sees them a few milliseconds late and never torn.

use std::sync::atomic::{AtomicBool, AtomicU64};

/// The totals of the run that is under way.
#[derive(Debug, Default)]
pub struct Live {
    /// Replies that came.
    pub requests: AtomicU64,
    /// Bytes sent and received.
    pub bytes: AtomicU64,
    /// Sum of the latencies, in microseconds.
    pub latency_us: AtomicU64,
    /// Connections that are open now.
    pub connections: AtomicU64,
    /// The run is over: drawing stops.
    pub finished: AtomicBool,
}
