//! What a run measured: filled by the engine, read by the reports. Plain data.
//!
//! Invariant: counts and histograms agree; a request counts once, when its reply is complete (or
//! its connection lost, as an error), under the command that sent it.

use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;

/// Latencies in microseconds, three significant digits, up to a minute: memtier's own range.
pub type Latencies = Histogram<u64>;

/// One run from its first request to its last reply.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Wall clock of the first request.
    pub started: SystemTime,
    /// Wall clock of the last reply.
    pub finished: SystemTime,
    /// From first request to last reply.
    pub elapsed: Duration,
    /// One entry per kind of request, in the order of the workload's list.
    pub commands: Vec<CommandOutcome>,
    /// Connections that were lost or refused, and not asked for by `--reconnect-interval`.
    pub connection_errors: u64,
    /// Values that did not compare equal under `--data-verify`.
    pub verify_errors: u64,
    /// Requests whose send time passed while no reply slot was free (open loop only).
    pub late: u64,
    /// How busy the generator was.
    pub generator: GeneratorUsage,
    /// What the server used, where it runs on this machine.
    pub server: Option<ServerUsage>,
    /// Per connection, where `--client-stats` asks for it: as `commands`.
    pub clients: Vec<Vec<CommandOutcome>>,
}

/// What happened to the requests of one kind.
#[derive(Clone, Debug)]
pub struct CommandOutcome {
    /// `Sets`, `Gets`, `Waits`, or an arbitrary command's name: the heading of its JSON section.
    pub name: String,
    /// Latencies over the whole run; its length is the number of replies.
    pub latencies: Latencies,
    /// The same per second of the run; the last one may be a part of a second.
    pub seconds: Vec<Second>,
    /// Replies that carried a value (reads only).
    pub hits: u64,
    /// Replies that said there is none (reads only).
    pub misses: u64,
    /// Error replies other than MOVED and ASK.
    pub errors: u64,
    /// MOVED redirections (cluster mode).
    pub moved: u64,
    /// ASK redirections (cluster mode).
    pub ask: u64,
    /// Bytes of the requests.
    pub bytes_sent: u64,
    /// Bytes of the replies.
    pub bytes_received: u64,
}

/// One second of one kind of request.
#[derive(Clone, Debug)]
pub struct Second {
    /// Latencies of the replies that came in this second.
    pub latencies: Latencies,
    /// Their sum, in microseconds.
    pub latency_sum: u64,
    /// Bytes of the requests whose replies came in this second.
    pub bytes_sent: u64,
    /// Bytes of those replies.
    pub bytes_received: u64,
    /// Replies that carried a value.
    pub hits: u64,
    /// Replies that said there is none.
    pub misses: u64,
}

/// How busy the generator was, to tell whether it was the limit.
#[derive(Clone, Debug, Default)]
pub struct GeneratorUsage {
    /// CPU seconds of all its threads.
    pub cpu: Duration,
    /// Share of the run's time for which its busiest thread had work (0 to 1).
    pub busiest_thread: f64,
}

/// What the server process used during the run.
#[derive(Clone, Debug)]
pub struct ServerUsage {
    /// Its process id.
    pub pid: u32,
    /// CPU seconds in user mode.
    pub user: Duration,
    /// CPU seconds in the kernel.
    pub system: Duration,
    /// Resident bytes at the end of the run.
    pub rss: u64,
}

impl CommandOutcome {
    /// An empty record for requests of this kind.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            latencies: new_latencies(),
            seconds: Vec::new(),
            hits: 0,
            misses: 0,
            errors: 0,
            moved: 0,
            ask: 0,
            bytes_sent: 0,
            bytes_received: 0,
        }
    }
}

/// An empty histogram of this crate's range.
#[must_use]
pub fn new_latencies() -> Latencies {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are valid")
}
