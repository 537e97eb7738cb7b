//! What a run measured: filled by the engine, read by the reports. Plain data.
//!
//! Invariant: counts and histograms agree; a request counts once, under the command that sent it:
//! when its reply is complete, or as unanswered when its connection or the run ends before that.

use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;

/// Latencies in microseconds, three significant digits, up to [`LATENCY_MAX_US`].
pub type Latencies = Histogram<u64>;

/// An hour: what took longer counts as an hour.
pub const LATENCY_MAX_US: u64 = 3_600_000_000;

/// One run from its first request to its last reply.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Wall clock of the first request.
    pub started: SystemTime,
    /// Wall clock of the end.
    pub finished: SystemTime,
    /// From the first request to the last reply, and no less than the time that was to be tested:
    /// a server that stands still or dies has had all of it.
    pub elapsed: Duration,
    /// One entry per kind of request, in the order of the workload's list.
    pub commands: Vec<CommandOutcome>,
    /// Connections that ended in the run without being asked to.
    pub connection_errors: u64,
    /// Attempts to connect that failed in the run.
    pub refused: u64,
    /// Requests of an open loop that became due and were never sent.
    pub unsent: u64,
    /// Whether a signal ended the run before its time.
    pub interrupted: bool,
    /// Values that did not compare equal under `--data-verify`.
    pub verify_errors: u64,
    /// Requests that were sent after their time, as no reply slot was free (open loop only).
    pub late: u64,
    /// How busy the generator was.
    pub generator: GeneratorUsage,
    /// What the server calls itself, with its version.
    pub server_name: Option<String>,
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
    /// How old the requests were that got no reply, when their connection or the run ended.
    pub unanswered: Latencies,
    /// The same per second of the run; the last one may be a part of a second.
    pub seconds: Vec<Second>,
    /// Replies that carried a value (reads only).
    pub hits: u64,
    /// Replies that said there is none (reads only).
    pub misses: u64,
    /// Error replies other than MOVED and ASK.
    pub errors: u64,
    /// The text of the first of them.
    pub first_error: Option<String>,
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
    /// Share of the run's time for which a thread could run and was given no core (0 to 1), at
    /// most: then latencies are the generator's, not the server's.
    pub starved_thread: f64,
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

impl Outcome {
    /// Requests that were sent and got no reply.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.commands.iter().map(|command| command.unanswered.len()).sum()
    }

    /// Error replies of all kinds of request.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.commands.iter().map(|command| command.errors).sum()
    }

    /// Whether all that was to be sent was sent and answered without an error, and what was
    /// verified was right: else a program that ran this ends with a failure.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let failures = [
            self.errors(),
            self.unanswered(),
            self.unsent,
            self.verify_errors,
            self.connection_errors,
            self.refused,
        ];
        failures.iter().all(|count| *count == 0) && !self.interrupted
    }
}

impl CommandOutcome {
    /// An empty record for requests of this kind.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            latencies: new_latencies(),
            unanswered: new_latencies(),
            seconds: Vec::new(),
            hits: 0,
            misses: 0,
            errors: 0,
            first_error: None,
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
    Histogram::new_with_bounds(1, LATENCY_MAX_US, 3).expect("the bounds are valid")
}
