//! What was denied, for ACL LOG and INFO.
//!
//! Invariant: memory is bounded by the limit that the caller gives with each event, and by how much
//! of an object is kept; counters count every denial, also those that share an entry.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    /// The user that tried.
    pub user: &'a [u8],
    /// The client, as CLIENT LIST shows it.
    pub client: String,
}

/// Denials that are alike and came soon after each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// How many there were.
    pub count: u64,
    /// Why.
    pub reason: Reason,
    /// Where.
    pub context: Context,
    /// What was not allowed.
    pub object: Vec<u8>,
    /// The user that tried.
    pub user: Vec<u8>,
    /// The client that tried last.
    pub client: String,
    /// A number of its own.
    pub id: u64,
    /// When the first came, in Unix milliseconds.
    pub created_ms: i64,
    /// When the last came.
    pub updated_ms: i64,
}

/// The log and its counters.
#[derive(Default)]
pub struct Log {
    denied: [AtomicU64; 5],
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The newest first.
    entries: VecDeque<Entry>,
    next_id: u64,
}

/// How many entries are looked at for one that a denial may share.
const LOOKED_AT: usize = 10;

/// Within how many milliseconds after its last denial an entry is shared.
const SHARED_MS: i64 = 60_000;

/// How much of a name is kept: clients choose its length.
const BYTES_KEPT: usize = 1024;

impl Log {
    /// Notes a denial that happens now; at most `limit` entries are kept.
    pub fn record(&self, event: Event<'_>, now_ms: i64, limit: usize) {
        self.denied[event.reason as usize].fetch_add(1, Ordering::Relaxed);
        self.kept().take_in(event, now_ms, limit);
    }

    /// How many requests were denied for this reason.
    pub fn denied(&self, reason: Reason) -> u64 {
        self.denied[reason as usize].load(Ordering::Relaxed)
    }

    /// Begins to count anew.
    pub fn reset_counters(&self) {
        self.denied.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }

    /// The newest entries, at most so many.
    pub fn newest(&self, count: usize) -> Vec<Entry> {
        self.kept().entries.iter().take(count).cloned().collect()
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        self.kept().entries.clear();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn take_in(&mut self, event: Event<'_>, now_ms: i64, limit: usize) {
        let cut = |name: &[u8]| name[..name.len().min(BYTES_KEPT)].to_vec();
        let Event { reason, context, object, user, client } = event;
        let (object, user) = (cut(object), cut(user));
        let is_alike = |entry: &Entry| {
            (entry.reason, entry.context) == (reason, context)
                && entry.object == object
                && entry.user == user
                && now_ms - entry.updated_ms <= SHARED_MS
        };
        let place = self.entries.iter().take(LOOKED_AT).position(is_alike);
        let shared = place.and_then(|place| self.entries.remove(place));
        let entry = match shared {
            Some(entry) => Entry { count: entry.count + 1, client, updated_ms: now_ms, ..entry },
            None => {
                let (id, created_ms, updated_ms) = (self.next_id, now_ms, now_ms);
                self.next_id += 1;
                let count = 1;
                Entry { count, reason, context, object, user, client, id, created_ms, updated_ms }
            }
        };
        self.entries.push_front(entry);
        self.entries.truncate(limit);
    }
}

impl Reason {
    /// As ACL LOG calls it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Auth => "auth",
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Database => "database",
        }
    }
}

impl Context {
    /// As ACL LOG calls it.
    pub fn name(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Context, Event, Log, Reason};

    fn deny(log: &Log, key: &str, now_ms: i64) {
        let event = Event {
            reason: Reason::Key,
            context: Context::TopLevel,
            object: key.as_bytes(),
            user: b"u",
            client: format!("at {now_ms}"),
        };
        log.record(event, now_ms, 14);
    }

    fn seen(log: &Log) -> Vec<(String, u64, u64)> {
        let text =
            |entry: super::Entry| (String::from_utf8(entry.object).unwrap(), entry.count, entry.id);
        log.newest(usize::MAX).into_iter().map(text).collect()
    }

    #[test]
    fn like_denials_share_an_entry_for_a_minute() {
        let log = Log::default();
        deny(&log, "a", 0);
        deny(&log, "b", 1);
        deny(&log, "a", 60_000);
        assert_eq!(seen(&log), [("a".into(), 2, 0), ("b".into(), 1, 1)]);
        let entry = log.newest(1).remove(0);
        assert_eq!((entry.created_ms, entry.updated_ms, &*entry.client), (0, 60_000, "at 60000"));
        deny(&log, "a", 120_000);
        assert_eq!(seen(&log)[0], ("a".into(), 3, 0), "the minute begins with the last denial");
        deny(&log, "a", 180_001);
        assert_eq!(seen(&log)[..2], [("a".into(), 1, 2), ("a".into(), 3, 0)]);
        assert_eq!(log.denied(Reason::Key), 5);
        log.clear();
        assert!(seen(&log).is_empty());
    }

    #[test]
    fn only_the_ten_newest_entries_are_shared_and_the_oldest_go() {
        let log = Log::default();
        (0..14).for_each(|at| deny(&log, &format!("x{at}"), at));
        for again in ["x0", "x13", "x5"] {
            deny(&log, again, 20);
        }
        let expected = [("x5".into(), 2, 5), ("x13".into(), 2, 13), ("x0".into(), 1, 14)];
        assert_eq!(seen(&log)[..3], expected);
        assert_eq!(seen(&log).len(), 14);
        deny(&log, &"k".repeat(5000), 21);
        assert_eq!(log.newest(1)[0].object.len(), super::BYTES_KEPT);
    }
}
