//! `maxmemory-clients`: what all clients together may take, and who goes when it is more.
//!
//! The largest goes first, as in Redis; who said CLIENT NO-EVICT stays. Looked at by the slow clock
//! and by each session that keeps much itself, so that nobody outgrows the limit by much.
//!
//! Invariant: nobody is closed but by its own session, which is asked to; who was asked no longer
//! counts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::blocking;
use crate::clients::{Client, Signal, client_flags};
use crate::config::settings::MAXMEMORY_CLIENTS;
use crate::control::connection::describe;
use crate::log::log_notice;
use crate::mailbox::Rounds;
use crate::server::Server;

/// A session with this much in its buffers has all clients looked at.
pub(crate) const LARGE: u64 = 64 * 1024;

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
    let clients = server.clients.all();
    let present = clients.iter().filter(|client| !client.is_asked(Signal::Kill));
    let mut sizes: Vec<(usize, &Arc<Client>)> =
        present.map(|client| (bytes_of(client), client)).collect();
    let mut total: usize = sizes.iter().map(|(bytes, _)| bytes).sum();
    if total <= limit {
        return;
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
}
