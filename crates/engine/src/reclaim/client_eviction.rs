//! `maxmemory-clients`: what all clients together may take, and which go when it is more.
//!
//! The largest goes first, as in Redis; a client that said CLIENT NO-EVICT stays. Looked at by the
//! slow clock and by each session that keeps much itself, so that nobody outgrows the limit by
//! much.
//!
//! Invariants: a client is closed by its own session alone, which is asked to; a client that was
//! asked no longer counts. All clients are looked at by a session only where large ones may have
//! outgrown what was left at the last look.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use config::settings::MAXMEMORY_CLIENTS;

use crate::clients::client_margin::LARGE;
use crate::clients::mailbox::PendingWakes;
use crate::clients::registry::{Client, Signal, client_flags};
use crate::runtime::log::log_notice;
use crate::session::client_info::{bytes_of, describe};
use crate::shared::Shared;

/// A client has so much in its buffers now: others go, if all of them take too much.
#[inline]
pub fn record(server: &Shared, client: &Client, bytes: u64, wakes: &PendingWakes) {
    let bytes = if bytes >= LARGE { bytes } else { 0 };
    let noted = &client.live.noted_bytes;
    if noted.load(Ordering::Relaxed) != bytes {
        let change = bytes.cast_signed() - noted.swap(bytes, Ordering::Relaxed).cast_signed();
        note_change(server, change, wakes);
    }
}

#[cold]
fn note_change(server: &Shared, change: i64, wakes: &PendingWakes) {
    if let Some(limit) = limit(server)
        && server.memory.client_margin.record(change)
    {
        fit_into(server, limit, wakes);
    }
}

/// The default of `maxmemory-clients` as it is stored, and what it is at least.
const SHARE_BY_DEFAULT: i64 = -50;
const LEAST_BY_DEFAULT: u64 = 64 << 20;

/// What all clients may take; `None` for any amount.
fn limit(server: &Shared) -> Option<usize> {
    let bytes = match server.config.get(MAXMEMORY_CLIENTS) {
        bytes @ 0.. => bytes.unsigned_abs(),
        share => {
            let bytes = server.memory.budget.configured() / 100 * share.unsigned_abs();
            // A small cache may have clients like any other.
            if bytes > 0 && share == SHARE_BY_DEFAULT { bytes.max(LEAST_BY_DEFAULT) } else { bytes }
        }
    };
    (bytes > 0).then(|| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Asks the largest clients to go until the others fit.
pub fn fit(server: &Shared, wakes: &PendingWakes) {
    if let Some(limit) = limit(server) {
        fit_into(server, limit, wakes);
    }
}

#[cold]
fn fit_into(server: &Shared, limit: usize, wakes: &PendingWakes) {
    server.memory.client_margin.begin();
    let clients = server.clients.all();
    let is_link = |client: &Client| {
        client.has_flag(client_flags::REPLICA) || client.has_flag(client_flags::PRIMARY)
    };
    let counts = |client: &&Arc<Client>| !client.is_asked(Signal::Kill) && !is_link(client);
    let present = clients.iter().filter(counts);
    let mut sizes: Vec<(usize, &Arc<Client>)> =
        present.map(|client| (bytes_of(client), client)).collect();
    let mut total: usize = sizes.iter().map(|(bytes, _)| bytes).sum();
    if total <= limit {
        return server.memory.client_margin.end(limit - total);
    }
    sizes.retain(|(_, client)| !client.has_flag(client_flags::NO_EVICT));
    sizes.sort_unstable_by_key(|(bytes, _)| *bytes);
    while total > limit
        && let Some((bytes, client)) = sizes.pop()
    {
        total -= bytes;
        let description = describe(server, client, server.keyspace.clock().now_ms());
        // Another thread may have had the same look.
        if server.mailboxes.signal(client, Signal::Kill, wakes) {
            server.observed.stats.evicted_clients.fetch_add(1, Ordering::Relaxed);
            log_notice!(server.log, "Evicting client: {description}");
        }
    }
    server.memory.client_margin.end(limit.saturating_sub(total));
}
