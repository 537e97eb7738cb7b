//! SLOWLOG and COMMANDLOG: the commands that lately took longest, or were largest.
//!
//! Invariant: an entry holds at most the configured number of arguments, each cut to the configured
//! length, so the log's memory is bounded by its configuration.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use commands::Flags;
use proto::Args;

use crate::config::Config;
use crate::config::settings::{
    COMMANDLOG_LARGE_REPLY_MAX_LEN, COMMANDLOG_LARGE_REQUEST_MAX_LEN, COMMANDLOG_REPLY_LARGER_THAN,
    COMMANDLOG_REQUEST_LARGER_THAN, SLOWLOG_ENTRY_MAX_ARGC, SLOWLOG_ENTRY_MAX_STRING_LEN,
    SLOWLOG_LOG_SLOWER_THAN, SLOWLOG_MAX_LEN,
};
use crate::secrets;
use crate::session::Session;
use crate::table::Entry;

/// What a request takes beyond the extent of its arguments: the lines around them.
const FRAME: u64 = 64;

/// The three logs.
pub(crate) struct CommandLog {
    logs: [Log; 3],
}

/// What is remarkable about the commands of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remarkable {
    /// Its time, in microseconds.
    Slow,
    /// The bytes of its request.
    LargeRequest,
    /// The bytes of its reply.
    LargeReply,
}

/// A command that ran, and what it cost.
#[derive(Clone, Copy)]
pub(crate) struct Deed<'a> {
    pub(crate) session: &'a Session,
    pub(crate) entry: &'a Entry,
    pub(crate) args: Args<'a>,
    pub(crate) micros: u64,
    pub(crate) reply_bytes: u64,
}

/// One remarkable command.
#[derive(Clone, Debug)]
pub(crate) struct Remark {
    pub(crate) id: u64,
    /// Unix time in seconds.
    pub(crate) time: i64,
    /// Microseconds or bytes.
    pub(crate) cost: u64,
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) peer: String,
    pub(crate) client_name: Box<[u8]>,
}

/// A ring of entries.
struct Log {
    threshold: AtomicU64,
    ring: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    next_id: u64,
    capacity: usize,
    /// Newest first.
    entries: VecDeque<Remark>,
}

impl CommandLog {
    /// Logs that note nothing until they are configured.
    pub(crate) fn new() -> Self {
        let log = || Log { threshold: AtomicU64::new(u64::MAX), ring: Mutex::default() };
        Self { logs: [log(), log(), log()] }
    }

    /// Follows the configuration: a negative threshold turns a log off.
    pub(crate) fn configure(&self, config: &Config) {
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

    /// Whether a command is remarkable by its time or by its reply.
    #[inline]
    pub(crate) fn is_remarkable(&self, micros: u64, reply_bytes: u64) -> bool {
        let [slow, _, large] = &self.logs;
        [(slow, micros), (large, reply_bytes)]
            .into_iter()
            .any(|(log, cost)| cost >= log.threshold.load(Ordering::Relaxed))
    }

    /// Notes a command where it is remarkable.
    #[inline]
    pub(crate) fn consider(&self, config: &Config, deed: Deed<'_>) {
        let about = [deed.micros, deed.args.extent() as u64 + FRAME, deed.reply_bytes];
        let reaches = |(log, cost): (&Log, u64)| cost >= log.threshold.load(Ordering::Relaxed);
        if self.logs.iter().zip(about).any(reaches) {
            self.note(config, deed);
        }
    }

    #[cold]
    fn note(&self, config: &Config, deed: Deed<'_>) {
        if deed.entry.spec.flags.has(Flags::SKIP_SLOWLOG) {
            return;
        }
        let costs = [deed.micros, request_bytes(deed.args), deed.reply_bytes];
        for (log, cost) in self.logs.iter().zip(costs) {
            if cost >= log.threshold.load(Ordering::Relaxed) {
                log.note(config, &deed, cost);
            }
        }
    }

    /// The newest entries, newest first.
    pub(crate) fn newest(&self, what: Remarkable, count: usize) -> Vec<Remark> {
        self.ring(what).entries.iter().take(count).cloned().collect()
    }

    /// How many entries there are.
    pub(crate) fn len(&self, what: Remarkable) -> usize {
        self.ring(what).entries.len()
    }

    /// Forgets all entries.
    pub(crate) fn clear(&self, what: Remarkable) {
        self.ring(what).entries.clear();
    }

    fn ring(&self, what: Remarkable) -> MutexGuard<'_, Ring> {
        self.logs[what as usize].ring()
    }
}

impl Log {
    fn note(&self, config: &Config, deed: &Deed<'_>, cost: u64) {
        let client = &deed.session.client;
        let mut remark = Remark {
            id: 0,
            time: client.live.last_active.load(Ordering::Relaxed) / 1000,
            cost,
            arguments: cut(config, deed.entry, deed.args),
            peer: client.peer.to_string(),
            client_name: client.names().name.clone(),
        };
        let mut ring = self.ring();
        remark.id = ring.next_id;
        ring.next_id += 1;
        ring.entries.push_front(remark);
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
fn cut(config: &Config, entry: &Entry, args: Args<'_>) -> Vec<Vec<u8>> {
    let most = config.get(SLOWLOG_ENTRY_MAX_ARGC);
    let longest = config.get(SLOWLOG_ENTRY_MAX_STRING_LEN);
    let count = if args.len() > most { most.saturating_sub(1) } else { args.len() };
    let shown = (0..count).map(|index| secrets::shown(entry, args, index));
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
