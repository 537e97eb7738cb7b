//! SLOWLOG: the commands that took longest lately.
//!
//! Invariant: an entry holds at most the configured number of arguments, each cut to the configured
//! length, so the log's memory is bounded by its configuration.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use proto::Args;

use crate::secrets;
use crate::session::Session;
use crate::table::Entry;
use commands::Flags;

/// Redis cuts argument lists and long arguments so.
const ARGUMENTS: usize = 32;
const ARGUMENT_BYTES: usize = 128;

/// A ring of slow commands.
pub(crate) struct SlowLog {
    threshold_us: AtomicU64,
    inner: Mutex<Inner>,
}

struct Inner {
    next_id: u64,
    capacity: usize,
    entries: VecDeque<SlowCommand>,
}

/// One slow command.
#[derive(Clone, Debug)]
pub(crate) struct SlowCommand {
    pub(crate) id: u64,
    /// Unix time in seconds.
    pub(crate) time: i64,
    pub(crate) micros: u64,
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) peer: String,
    pub(crate) client_name: Box<[u8]>,
}

impl SlowLog {
    pub(crate) fn new() -> Self {
        let inner = Inner { next_id: 0, capacity: 128, entries: VecDeque::new() };
        Self { threshold_us: AtomicU64::new(10_000), inner: Mutex::new(inner) }
    }

    /// Commands at least this slow are noted; `u64::MAX` for none.
    #[inline]
    pub(crate) fn threshold_us(&self) -> u64 {
        self.threshold_us.load(Ordering::Relaxed)
    }

    /// Follows the configuration: a negative threshold turns the log off.
    pub(crate) fn configure(&self, threshold_us: i64, capacity: usize) {
        self.threshold_us.store(u64::try_from(threshold_us).unwrap_or(u64::MAX), Ordering::Relaxed);
        let mut inner = self.lock();
        inner.capacity = capacity;
        inner.entries.truncate(capacity);
    }

    /// Notes a command.
    #[cold]
    pub(crate) fn note(&self, session: &Session, entry: &Entry, args: Args<'_>, micros: u64) {
        if entry.spec.flags.has(Flags::SKIP_SLOWLOG) {
            return;
        }
        let command = SlowCommand {
            id: 0,
            time: session.client.live.last_active.load(Ordering::Relaxed) / 1000,
            micros,
            arguments: cut(entry, args),
            peer: session.client.peer.to_string(),
            client_name: session.client.names().name.clone(),
        };
        let mut inner = self.lock();
        let id = inner.next_id;
        inner.next_id += 1;
        inner.entries.push_front(SlowCommand { id, ..command });
        let capacity = inner.capacity;
        inner.entries.truncate(capacity);
    }

    /// The newest entries, newest first.
    pub(crate) fn newest(&self, count: usize) -> Vec<SlowCommand> {
        self.lock().entries.iter().take(count).cloned().collect()
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Forgets all entries.
    pub(crate) fn clear(&self) {
        self.lock().entries.clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("no critical section here panics")
    }
}

/// The arguments as the log keeps them.
fn cut(entry: &Entry, args: Args<'_>) -> Vec<Vec<u8>> {
    let shown = if args.len() > ARGUMENTS { ARGUMENTS - 1 } else { args.len() };
    let argument = |index| cut_argument(secrets::shown(entry, args, index));
    let mut kept: Vec<Vec<u8>> = (0..shown).map(argument).collect();
    if args.len() > shown {
        kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    kept
}

fn cut_argument(argument: &[u8]) -> Vec<u8> {
    if argument.len() <= ARGUMENT_BYTES {
        return argument.to_vec();
    }
    let more = argument.len() - ARGUMENT_BYTES;
    let mut kept = argument[..ARGUMENT_BYTES].to_vec();
    kept.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
    kept
}
