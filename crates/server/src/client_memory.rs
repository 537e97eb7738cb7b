//! `maxmemory-clients`: what all clients together may take, and who goes when it is more.
//!
//! The largest goes first, as in Redis; who said CLIENT NO-EVICT stays. Looked at by the slow clock
//! and by each session that keeps much itself, so that nobody outgrows the limit by much.
//!
//! Invariants: nobody is closed but by its own session, which is asked to; who was asked no longer
//! counts. All clients are looked at by a session only where large ones may have outgrown what was
//! left at the last look.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use config::settings::MAXMEMORY_CLIENTS;

use crate::blocking;
use crate::clients::{Client, Signal, client_flags};
use crate::control::connection::describe;
use crate::log::log_notice;
use crate::mailbox::Rounds;
use crate::server::Server;

/// A session with this much in its buffers says by how much they grow and shrink; all of them may
/// grow by as much before all clients are looked at again, however little is left.
const LARGE: u64 = 64 * 1024;

/// What is known between two looks at all clients.
#[derive(Default)]
pub(crate) struct Margin {
    /// By how much large clients have grown since the last look.
    grown: AtomicI64,
    /// What was left then.
    left: AtomicI64,
}

impl Margin {
    /// They have grown, or have shrunk; whether that may be too much.
    fn note(&self, change: i64) -> bool {
        let grown = self.grown.fetch_add(change, Ordering::Relaxed) + change;
        change > 0 && grown > self.left.load(Ordering::Relaxed)
    }

    /// A look begins.
    fn begin(&self) {
        self.grown.store(0, Ordering::Relaxed);
    }

    /// So much is left of the limit.
    fn end(&self, left: usize) {
        let left = i64::try_from(left).unwrap_or(i64::MAX).max(LARGE.cast_signed());
        self.left.store(left, Ordering::Relaxed);
    }
}

/// A client has so much in its buffers now: others go, if all of them take too much.
#[inline]
pub(crate) fn note(server: &Server, client: &Client, bytes: u64, rounds: &Rounds) {
    let bytes = if bytes >= LARGE { bytes } else { 0 };
    let noted = &client.live.noted_bytes;
    if noted.load(Ordering::Relaxed) != bytes {
        let change = bytes.cast_signed() - noted.swap(bytes, Ordering::Relaxed).cast_signed();
        note_change(server, change, rounds);
    }
}

#[cold]
fn note_change(server: &Server, change: i64, rounds: &Rounds) {
    if let Some(limit) = limit(server)
        && server.client_margin.note(change)
    {
        fit_into(server, limit, rounds);
    }
}

/// About what a session takes besides its record and its buffers: its task and its socket's.
const SESSION_BYTES: usize = 800;

/// What a client takes.
pub(crate) fn bytes_of(client: &Client) -> usize {
    let live = &client.live;
    let read = |counter: &std::sync::atomic::AtomicU64| {
        usize::try_from(counter.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    };
    let query = live.query_bytes.load(Ordering::Relaxed);
    size_of::<Client>()
        + SESSION_BYTES
        + live.query_room.load(Ordering::Relaxed).max(query) as usize
        + read(&live.output_bytes)
        + read(&live.queued_bytes)
        + client.delivery_bytes()
        + held_for(client)
}

/// What others keep for a client: keys that it waits for or watches, channels, prefixes.
fn held_for(client: &Client) -> usize {
    let names = client.names();
    let waits = client.has_flag(client_flags::BLOCKED);
    let waiter = names.waiter().filter(|_| waits);
    names.holdings.bytes() + waiter.map_or(0, |waiter| blocking::memory(&waiter))
}

/// What all clients may take; `None` for any amount.
fn limit(server: &Server) -> Option<usize> {
    let bytes = match server.config.get(MAXMEMORY_CLIENTS) {
        bytes @ 0.. => bytes.unsigned_abs(),
        share => server.budget.limit() / 100 * share.unsigned_abs(),
    };
    (bytes > 0).then(|| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Asks the largest clients to go until the others fit.
pub(crate) fn fit(server: &Server, rounds: &Rounds) {
    if let Some(limit) = limit(server) {
        fit_into(server, limit, rounds);
    }
}

#[cold]
fn fit_into(server: &Server, limit: usize, rounds: &Rounds) {
    server.client_margin.begin();
    let clients = server.clients.all();
    let present = clients.iter().filter(|client| !client.is_asked(Signal::Kill));
    let mut sizes: Vec<(usize, &Arc<Client>)> =
        present.map(|client| (bytes_of(client), client)).collect();
    let mut total: usize = sizes.iter().map(|(bytes, _)| bytes).sum();
    if total <= limit {
        return server.client_margin.end(limit - total);
    }
    sizes.retain(|(_, client)| !client.has_flag(client_flags::NO_EVICT));
    sizes.sort_unstable_by_key(|(bytes, _)| *bytes);
    while total > limit
        && let Some((bytes, client)) = sizes.pop()
    {
        total -= bytes;
        let description = describe(server, client, server.keyspace.clock().now_ms());
        // Another thread may have had the same look.
        if server.mailboxes.signal(client, Signal::Kill, rounds) {
            server.stats.evicted_clients.fetch_add(1, Ordering::Relaxed);
            log_notice!(server.log, "Evicting client: {description}");
        }
    }
    server.client_margin.end(limit.saturating_sub(total));
}

#[cfg(test)]
mod tests {
    use super::{LARGE, Margin};

    #[test]
    fn all_are_looked_at_once_what_was_left_is_outgrown() {
        let margin = Margin::default();
        let large = LARGE.cast_signed();
        assert!(margin.note(large), "nothing is known");
        margin.begin();
        margin.end(10 * LARGE as usize);
        assert!((0..10).all(|_| !margin.note(large)));
        assert!(!margin.note(-large) && !margin.note(large), "one shrinks, another one grows");
        assert!(margin.note(1));
        assert!(!margin.note(-1), "what shrinks is no reason");
        margin.begin();
        margin.end(0);
        assert!((0..LARGE).all(|_| !margin.note(1)), "who may stay beyond the limit grows slowly");
        assert!(margin.note(1));
    }
}
