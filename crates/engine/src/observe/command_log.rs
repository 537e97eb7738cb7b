//! SLOWLOG and COMMANDLOG: the commands that lately took longest, or were largest.
//!
//! Invariant: an entry holds at most the configured number of arguments, each cut to the configured
//! length, so the log's memory is bounded by its configuration.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::time::Clock;
use commands::Flags;
use config::Config;
use config::settings::{
    COMMANDLOG_LARGE_REPLY_MAX_LEN, COMMANDLOG_LARGE_REQUEST_MAX_LEN, COMMANDLOG_REPLY_LARGER_THAN,
    COMMANDLOG_REQUEST_LARGER_THAN, SLOWLOG_ENTRY_MAX_ARGC, SLOWLOG_ENTRY_MAX_STRING_LEN,
    SLOWLOG_LOG_SLOWER_THAN, SLOWLOG_MAX_LEN,
};
use proto::Args;

use crate::clients::registry::{Client, LOGGED_NAME_BYTES};
use crate::observe::execution::Execution;
use crate::observe::redact;
use crate::observe::span_queue::{FinishedSpan, SlowCommand, SpanQueue, SpanSubject};
use crate::table::command_table::CommandEntry;

/// What a request takes beyond the extent of its arguments: the lines around them.
const FRAME: u64 = 64;

/// The three logs.
pub struct CommandLog {
    logs: [ThresholdLog; 3],
    /// Where slow commands go, too, if spans are exported.
    spans: Arc<SpanQueue>,
}

/// What is remarkable about the commands of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandLogType {
    /// Its time, in microseconds.
    Slow,
    /// The bytes of its request.
    LargeRequest,
    /// The bytes of its reply.
    LargeReply,
}

/// The client that had a command run, where, and the time.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    /// The client; none of a script's call or a primary's stream.
    pub(crate) client: Option<&'a Client>,
    /// The database that was selected when the command was over.
    pub(crate) database: usize,
    /// Unix time in seconds.
    pub(crate) time_s: i64,
    /// What tells the time at which the command ended.
    pub(crate) clock: &'a Clock,
}

/// A command on its way into the logs.
pub(crate) struct PendingEntry {
    entry: LogEntry,
    /// Its time, the bytes of its request, those of its reply.
    costs: [u64; 3],
    /// What is exported of it.
    span: Option<FinishedSpan>,
}

/// One remarkable command.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// The number of the entry, which rises with each one logged.
    pub id: u64,
    /// Unix time in seconds.
    pub time: i64,
    /// Microseconds or bytes.
    pub cost: u64,
    /// The request, shortened, secrets left out.
    pub arguments: Vec<Vec<u8>>,
    /// The address of the client.
    pub peer: String,
    /// The name that CLIENT SETNAME gave; empty without one.
    pub client_name: Box<[u8]>,
}

/// A ring of entries.
struct ThresholdLog {
    threshold: AtomicU64,
    ring: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    next_id: u64,
    capacity: usize,
    /// Newest first.
    entries: VecDeque<LogEntry>,
}

impl CommandLog {
    /// Logs that note nothing until they are configured.
    pub(crate) fn new(spans: Arc<SpanQueue>) -> Self {
        let log = || ThresholdLog { threshold: AtomicU64::new(u64::MAX), ring: Mutex::default() };
        Self { logs: [log(), log(), log()], spans }
    }

    /// Follows the configuration: a negative threshold turns a log off.
    pub fn configure(&self, config: &Config) {
        let limits = [
            (config.get(SLOWLOG_LOG_SLOWER_THAN), config.get(SLOWLOG_MAX_LEN)),
            (
                config.get(COMMANDLOG_REQUEST_LARGER_THAN),
                config.get(COMMANDLOG_LARGE_REQUEST_MAX_LEN),
            ),
            (config.get(COMMANDLOG_REPLY_LARGER_THAN), config.get(COMMANDLOG_LARGE_REPLY_MAX_LEN)),
        ];
        for (log, (threshold, capacity)) in self.logs.iter().zip(limits) {
            log.threshold.store(u64::try_from(threshold).unwrap_or(u64::MAX), Ordering::Relaxed);
            let mut ring = log.ring();
            ring.capacity = capacity;
            ring.entries.truncate(capacity);
        }
    }

    /// Whether a command may be remarkable: by its time, by its reply, or by the extent of its
    /// arguments.
    #[inline]
    pub fn is_remarkable(&self, extent: usize, micros: u64, reply_bytes: u64) -> bool {
        let about = [micros, extent as u64 + FRAME, reply_bytes];
        let reaches =
            |(log, cost): (&ThresholdLog, u64)| cost >= log.threshold.load(Ordering::Relaxed);
        self.logs.iter().zip(about).any(reaches)
    }

    /// Notes a command where it is remarkable.
    #[cold]
    pub(crate) fn record(&self, config: &Config, execution: Execution<'_>, caller: Caller<'_>) {
        if let Some(defer_log) = self.describe(config, execution, caller) {
            self.enter(&defer_log);
        }
    }

    /// What the logs would hold of a command; `None` of one that none of them takes.
    pub(crate) fn describe(
        &self,
        config: &Config,
        execution: Execution<'_>,
        caller: Caller<'_>,
    ) -> Option<PendingEntry> {
        let Execution { entry, args, micros, reply_bytes } = execution;
        let Caller { client, time_s, .. } = caller;
        let costs = [micros, request_bytes(args), reply_bytes];
        let is_wanted = !entry.spec.flags.has(Flags::SKIP_SLOWLOG)
            && self.logs.iter().zip(costs).any(|(log, cost)| log.takes(cost));
        is_wanted.then(|| {
            let entry = LogEntry {
                id: 0,
                time: time_s,
                cost: 0,
                arguments: cut(config, entry, args),
                peer: client.map(|client| client.peer.to_string()).unwrap_or_default(),
                client_name: client.map(name_of).unwrap_or_default(),
            };
            let is_slow = self.logs[CommandLogType::Slow as usize].takes(micros);
            let is_exported = is_slow && self.spans.is_on();
            let span = is_exported.then(|| self.span(execution, caller, &entry.arguments));
            PendingEntry { entry, costs, span }
        })
    }

    fn span(
        &self,
        Execution { entry, micros, .. }: Execution<'_>,
        Caller { client, database, clock, .. }: Caller<'_>,
        arguments: &[Vec<u8>],
    ) -> FinishedSpan {
        let arguments = if self.spans.keeps_arguments() { arguments.to_vec() } else { Vec::new() };
        let ends = client.map(|client| (client.peer, client.local));
        let subject = SpanSubject::Command(SlowCommand { entry, database, ends, arguments });
        FinishedSpan { ended_us: clock.now_us(), micros, subject }
    }

    /// Enters a command into the logs that take it.
    pub(crate) fn enter(&self, defer_log: &PendingEntry) {
        for (log, cost) in self.logs.iter().zip(defer_log.costs) {
            if log.takes(cost) {
                log.push(LogEntry { cost, ..defer_log.entry.clone() });
            }
        }
        if let Some(span) = &defer_log.span {
            self.spans.push(span.clone());
        }
    }

    /// The newest entries, newest first.
    pub fn newest(&self, what: CommandLogType, count: usize) -> Vec<LogEntry> {
        self.ring(what).entries.iter().take(count).cloned().collect()
    }

    /// How many entries there are.
    pub fn len(&self, what: CommandLogType) -> usize {
        self.ring(what).entries.len()
    }

    /// Forgets all entries.
    pub fn clear(&self, what: CommandLogType) {
        self.ring(what).entries.clear();
    }

    fn ring(&self, what: CommandLogType) -> MutexGuard<'_, Ring> {
        self.logs[what as usize].ring()
    }
}

/// A client's name as far as a log keeps it.
fn name_of(client: &Client) -> Box<[u8]> {
    let names = client.names();
    names.name[..names.name.len().min(LOGGED_NAME_BYTES)].into()
}

impl ThresholdLog {
    fn takes(&self, cost: u64) -> bool {
        cost >= self.threshold.load(Ordering::Relaxed)
    }

    fn push(&self, entry: LogEntry) {
        let mut ring = self.ring();
        let id = ring.next_id;
        ring.next_id += 1;
        ring.entries.push_front(LogEntry { id, ..entry });
        let capacity = ring.capacity;
        ring.entries.truncate(capacity);
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().expect("no critical section here panics")
    }
}

/// The length of a request as a client sends it.
fn request_bytes(args: Args<'_>) -> u64 {
    let line = |number: usize| number.max(1).ilog10() as usize + 4;
    let argument = |length: usize| line(length) + length + 2;
    let arguments: usize = args.iter().map(|bytes| argument(bytes.len())).sum();
    (line(args.len()) + arguments) as u64
}

/// The arguments as the log keeps them.
fn cut(config: &Config, entry: &CommandEntry, args: Args<'_>) -> Vec<Vec<u8>> {
    let most = config.get(SLOWLOG_ENTRY_MAX_ARGC);
    let longest = config.get(SLOWLOG_ENTRY_MAX_STRING_LEN);
    let count = if args.len() > most { most.saturating_sub(1) } else { args.len() };
    let shown = (0..count).map(|index| redact::redacted(entry, args, index));
    let mut kept: Vec<Vec<u8>> = shown.map(|argument| cut_argument(argument, longest)).collect();
    if args.len() > count {
        kept.push(format!("... ({} more arguments)", args.len() - count).into_bytes());
    }
    kept
}

fn cut_argument(argument: &[u8], longest: usize) -> Vec<u8> {
    let Some((kept, rest)) =
        argument.split_at_checked(longest).filter(|(_, rest)| !rest.is_empty())
    else {
        return argument.to_vec();
    };
    [kept, format!("... ({} more bytes)", rest.len()).as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::{cut_argument, request_bytes};
    use proto::OwnedArgs;

    #[test]
    fn a_request_is_as_long_as_its_bytes() {
        for words in [vec![""], vec!["get", "foo"], vec!["0123456789"; 12]] {
            let args: OwnedArgs = words.iter().map(|word| word.as_bytes()).collect();
            let mut wire = Vec::new();
            args.as_args().encode(&mut wire);
            assert_eq!(request_bytes(args.as_args()), wire.len() as u64, "{words:?}");
        }
    }

    #[test]
    fn long_arguments_are_cut() {
        assert_eq!(cut_argument(b"abc", 3), b"abc");
        assert_eq!(cut_argument(b"abcd", 3), b"abc... (1 more bytes)");
    }
}
