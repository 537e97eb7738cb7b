//! `watch`: what happens to items and connections, a line each, for watchers.
//!
//! Invariants: a class without a watcher costs a load, and nothing is put in words for it; a
//! watcher is told nothing else and asks nothing more; of one that does not read no more than
//! `BACKLOG` bytes are kept, and it is told how many lines it missed.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use config::settings::MEMCACHED_WATCH;
use engine::clients::mailbox::{Mailboxes, Outbox, PendingWakes};
use engine::clients::multicast::Subscribers;
use engine::clients::registry::{Client, Delivery, Peer, client_flags};
use engine::session::Session;
use engine::session::Step;
use engine::session::{CLASSES, EventWatch, WatchClass, WatchClasses};
use proto::memcached::{Failure, Response};
use proto::{Output, Reply, Resp};

use super::MemcachedServer;
use super::RequestContext;
use super::counters::{Counter, Counters};

/// Classes of memcached's of which nothing ever happens here: there is no proxy.
const SILENT: [&[u8]; 5] = [b"proxyreqs", b"proxyevents", b"proxyuser", b"sysevents", b"rawcmds"];

/// No more may watch at a time, as in memcached.
const WATCHERS_MAX: usize = 20;

/// Unsent bytes beyond which a watcher misses what comes.
const BACKLOG: usize = 256 << 10;

/// To others a watcher is as one that called MONITOR: both wait and are told.
const WATCHING: u32 = client_flags::WATCHER | client_flags::MONITOR;

const TOO_MANY: &[u8] = b"WATCHER_TOO_MANY log watcher limit reached";

/// The classes that a client names; that of fetches if it names none.
fn classes_of(words: &[&[u8]]) -> Option<WatchClasses> {
    let mut classes = WatchClasses::default();
    for word in words {
        match CLASSES.iter().find(|(_, name)| name == word) {
            Some((class, _)) => classes.0 |= 1 << *class as u8,
            None if SILENT.contains(word) => {}
            None => return None,
        }
    }
    Some(if words.is_empty() { WatchClasses(1 << WatchClass::Fetchers as u8) } else { classes })
}

/// All clients that watch.
#[derive(Default)]
pub(crate) struct Watchers {
    by_class: [Subscribers; CLASSES.len()],
    watchers: AtomicUsize,
    /// The number of the last line.
    last: AtomicU64,
}

impl Watchers {
    /// Whether anybody watches this.
    #[inline]
    pub(crate) fn is_watched(&self, class: WatchClass) -> bool {
        !self.by_class[class as usize].is_empty()
    }

    /// What anybody watches.
    #[inline]
    pub(super) fn watched(&self) -> WatchClasses {
        if self.len() == 0 {
            return WatchClasses::default();
        }
        let watched = CLASSES.iter().filter(|(class, _)| self.is_watched(*class));
        WatchClasses(watched.fold(0, |classes, (class, _)| classes | 1 << *class as u8))
    }

    /// How many watch.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.watchers.load(Ordering::Relaxed)
    }

    /// Tells all watchers of a class what happened, at this time in microseconds; the caller wakes
    /// workers.
    #[cold]
    pub(crate) fn notify(
        &self,
        outbox: Outbox<'_>,
        now: i64,
        class: WatchClass,
        what: impl Display,
    ) {
        let (seconds, micros) = (now / 1_000_000, now % 1_000_000);
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let line = format!("ts={seconds}.{micros:06} gid={number} {what}\n");
        let line: Arc<[u8]> = line.into_bytes().into();
        self.by_class[class as usize].publish(outbox.mailboxes, outbox.wakes, &line);
    }

    /// How many lines there were.
    pub(super) fn lines(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// The sets of subscribers of some classes.
    pub(crate) fn subscriber_sets(
        &self,
        classes: WatchClasses,
    ) -> impl Iterator<Item = &Subscribers> {
        let of_class = move |(class, _): &(WatchClass, &[u8])| {
            classes.has(*class).then(|| &self.by_class[*class as usize])
        };
        CLASSES.iter().filter_map(of_class)
    }

    /// Forgets a watcher that is gone.
    pub(crate) fn remove(&self, client: &Client) {
        if client.has_flag(client_flags::WATCHER) {
            self.by_class.iter().for_each(|subscribers| subscribers.leave(client, || ()));
            client.set_flag(WATCHING, false);
            self.watchers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Has a client watch from now on; `false` if too many do.
    fn join(&self, mailboxes: &Mailboxes, client: &Arc<Client>, classes: WatchClasses) -> bool {
        let more = |watchers| (watchers < WATCHERS_MAX).then_some(watchers + 1);
        let joined = self.watchers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if joined {
            client.set_flag(WATCHING, true);
            for subscribers in self.subscriber_sets(classes) {
                subscribers.join(mailboxes, client.lane(), client);
            }
        }
        joined
    }
}

/// Writes lines to a watcher for which there is room.
pub(crate) fn write_lines(
    watch: &mut EventWatch,
    (counters, lane): (&Counters, usize),
    deliveries: &[Delivery],
    out: &mut Output,
) {
    let lines = deliveries.iter().filter_map(|delivery| match delivery {
        Delivery::Messages(lines) => Some(&**lines),
        Delivery::Notices(_) | Delivery::Rerouted(_) => None,
    });
    for line in lines.flatten() {
        if out.len() + line.len() > BACKLOG {
            watch.skipped += 1;
            counters.count(lane, Counter::LogWatcherSkipped);
            continue;
        }
        let mut reply = Reply::new(out, Resp::Two);
        if watch.skipped > 0 {
            reply.raw(format!("skipped={}\n", std::mem::take(&mut watch.skipped)).as_bytes());
        }
        reply.message(line);
        counters.count(lane, Counter::LogWatcherSent);
    }
}

impl RequestContext<'_> {
    /// `watch [class ...]`.
    pub(super) fn watch(&mut self, words: &[&[u8]]) -> Step {
        let server = self.server;
        if !server.config.get(MEMCACHED_WATCH) {
            return self.fail(Failure::Client("watch commands not allowed"));
        }
        let Some(classes) = classes_of(words) else { return self.fail(Failure::Unknown) };
        let client = &self.session.client;
        if !server.memcached.watchers.join(&server.mailboxes, client, classes) {
            return self.respond(Response::Line(TOO_MANY));
        }
        let state = self.session.memcached.as_mut().expect("it speaks memcached's protocols");
        state.watch = Some(Box::new(EventWatch { classes, skipped: 0 }));
        self.respond(Response::Ok)
    }
}

/// Tells that a client came.
pub(crate) fn notify_arrival(server: &MemcachedServer, client: &Client) {
    notify_of(server, client, "conn_new", "");
}

/// Tells that a session's client is gone.
pub(crate) fn notify_departure(server: &MemcachedServer, session: &Session) {
    if let Some(state) = &session.memcached {
        let reason = if state.is_broken { " reason=error" } else { " reason=normal" };
        notify_of(server, &session.client, "conn_close", reason);
    }
}

/// Tells at once: the turn in which a client is met or lost may be over.
fn notify_of(server: &MemcachedServer, client: &Client, kind: &str, reason: &str) {
    let watchers = &server.memcached.watchers;
    if watchers.is_watched(WatchClass::Connections) {
        let (wakes, cfd) = (PendingWakes::default(), client.descriptor);
        let what = format_args!("type={kind} {}{reason} cfd={cfd}", end_of(client));
        watchers.notify(
            server.outbox(&wakes),
            server.keyspace.clock().now_us(),
            WatchClass::Connections,
            what,
        );
        server.mailboxes.wake(&wakes);
    }
}

/// Where a client is.
fn end_of(client: &Client) -> String {
    match client.peer {
        Peer::Tcp(peer) => format!("rip={} rport={} transport=tcp", peer.ip, peer.port),
        Peer::Unix => "rip=unix rport=0 transport=local".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use engine::clients::registry::Delivery;
    use proto::Output;

    use super::{BACKLOG, EventWatch, WatchClass, WatchClasses, classes_of, write_lines};
    use crate::memcached::counters::Counters;

    #[test]
    fn classes_are_named() {
        let of = |words: &[&str]| {
            classes_of(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
        };
        assert!(
            of(&[])
                .is_some_and(|it| it.has(WatchClass::Fetchers) && !it.has(WatchClass::Mutations))
        );
        let two = of(&["mutations", "evictions"]).unwrap();
        assert!(two.has(WatchClass::Mutations) && two.has(WatchClass::Evictions));
        assert!(!two.has(WatchClass::Fetchers));
        assert_eq!(of(&["proxyreqs"]), Some(WatchClasses::default()));
        assert_eq!(of(&["fetchers", "nonsense"]), None);
    }

    #[test]
    fn a_watcher_that_does_not_read_is_told_what_it_missed() {
        let (counters, mut watch, mut out) =
            (Counters::default(), EventWatch::default(), Output::new());
        let line: std::sync::Arc<[u8]> = vec![b'x'; BACKLOG / 2].into();
        let delivery = |count: usize| [Delivery::Messages(vec![line.clone(); count].into())];
        write_lines(&mut watch, (&counters, 0), &delivery(5), &mut out);
        assert_eq!(out.len(), BACKLOG);
        let mut out = Output::new();
        write_lines(&mut watch, (&counters, 0), &delivery(1), &mut out);
        assert!(out.front().starts_with(b"skipped=3\n"), "{}", out.front().escape_ascii());
        let mut out = Output::new();
        write_lines(&mut watch, (&counters, 0), &delivery(1), &mut out);
        assert_eq!(out.len(), line.len());
        let told = |name: &str| {
            counters.sums_since_reset().find(|(it, _)| *it == name).map(|(_, count)| count)
        };
        assert_eq!((told("log_watcher_sent"), told("log_watcher_skipped")), (Some(4), Some(3)));
    }
}
