//! What a request does to items, put in words for clients that `watch`.
//!
//! Invariant: nothing is put in words of a class that nobody watches, and nothing leaves before the
//! request is done: one that is begun again begins anew.

use std::fmt::Display;
use std::sync::atomic::Ordering;

use base::time::UnixMillis;
use engine::clients::mailbox::Outbox;
use engine::limits::eviction_observer::EvictionObserver;
use engine::session::{WatchClass, WatchClasses};
use keyspace::{EntryRef, Kind};
use proto::memcached::{Failure, Form, Request, Response, Store, StoreMode};

use super::Memcached;
use super::counters::Counter;
use super::crawler::percent_encoded;

/// What is to be told of a request.
pub(super) struct Events {
    watched: WatchClasses,
    /// Whose request it is.
    descriptor: i32,
    lines: Vec<(WatchClass, String)>,
}

impl Events {
    /// Of a client's request.
    pub(super) fn of(watched: WatchClasses, descriptor: i32) -> Self {
        Self { watched, descriptor, lines: Vec::new() }
    }

    /// Whether anybody watches this.
    #[inline]
    pub(super) fn is_watched(&self, class: WatchClass) -> bool {
        self.watched.has(class)
    }

    /// What happened, in order.
    #[inline]
    pub(super) fn lines(&mut self) -> impl Iterator<Item = (WatchClass, String)> {
        self.lines.drain(..)
    }

    /// An item was looked up; `size` is how large it is, if it is there.
    #[cold]
    pub(super) fn fetch(&mut self, key: &[u8], size: Option<usize>) {
        let (status, class) = if size.is_some() { ("found", 1) } else { ("not_found", 0) };
        let status = format_args!("status={status} clsid={class}");
        self.add(WatchClass::Fetchers, ("item_get", key), status, size.unwrap_or(0));
    }

    /// An item was stored, or was not.
    #[cold]
    pub(super) fn store(
        &mut self,
        key: &[u8],
        (command, ttl_s): (&str, i64),
        outcome: &Response<'_>,
        size: usize,
    ) {
        let status = match outcome {
            Response::Stored { .. } | Response::Number(_) => "stored",
            Response::Exists => "exists",
            Response::NotFound => "not_found",
            Response::Failed(Failure::TooLarge) => "too_large",
            Response::Failed(Failure::OutOfMemory) => "no_memory",
            _ => "not_stored",
        };
        let status = format_args!("status={status} cmd={command} ttl={ttl_s} clsid=1");
        self.add(WatchClass::Mutations, ("item_store", key), status, size);
    }

    /// An item was deleted.
    #[cold]
    pub(super) fn delete(&mut self, key: &[u8], request: &Request<'_>, size: usize) {
        let command = if matches!(request.form, Form::Meta(_)) { "md" } else { "delete" };
        let status = format_args!("cmd={command} clsid=1");
        self.add(WatchClass::Deletions, ("deleted", key), status, size);
    }

    fn add(
        &mut self,
        class: WatchClass,
        (kind, key): (&str, &[u8]),
        status: impl Display,
        size: usize,
    ) {
        let (key, cfd) = (percent_encoded(key), self.descriptor);
        self.lines.push((class, format!("type={kind} key={key} {status} cfd={cfd} size={size}")));
    }
}

impl EvictionObserver for Memcached {
    fn record(
        &self,
        lane: usize,
        entry: EntryRef<'_>,
        now: UnixMillis,
        idle_s: u32,
    ) -> Option<String> {
        if entry.kind() == Kind::String && !entry.was_read() {
            self.counters.count(lane, Counter::EvictedUnfetched);
        }
        if entry.deadline().is_some() {
            self.counters.count(lane, Counter::EvictedNonzero);
        }
        self.evicted_idle_s.store(idle_s, Ordering::Relaxed);
        self.watchers.is_watched(WatchClass::Evictions).then(|| eviction(entry, now, idle_s))
    }

    fn notify(&self, outbox: Outbox<'_>, now_us: i64, noted: String) {
        self.watchers.notify(outbox, now_us, WatchClass::Evictions, noted);
    }
}

/// How large an item is, if a key holds one.
pub(super) fn size_of_item(entry: Option<EntryRef<'_>>) -> Option<usize> {
    entry.and_then(EntryRef::text).map(|text| text.len())
}

/// What a store is called.
pub(super) fn name_of(store: &Store<'_>) -> &'static str {
    match store.mode {
        StoreMode::Set if store.compare.is_some() => "cas",
        StoreMode::Set => "set",
        StoreMode::Add => "add",
        StoreMode::Replace => "replace",
        StoreMode::Append => "append",
        StoreMode::Prepend => "prepend",
    }
}

/// What is told of a key that is evicted.
fn eviction(entry: EntryRef<'_>, now: UnixMillis, idle_s: u32) -> String {
    let key = percent_encoded(entry.key());
    let fetch = if entry.was_read() { "yes" } else { "no" };
    let ttl = entry.deadline().map_or(-1, |deadline| (deadline - now).max(0) / 1000);
    let size = size_of_item(Some(entry)).unwrap_or_else(|| entry.memory());
    format!("type=eviction key={key} fetch={fetch} ttl={ttl} la={idle_s} clsid=1 size={size}")
}
