//! The section Clients: which are connected, and what they wait for.
//!
//! Invariant: the section reads what the owners of the connections left, and disturbs none.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use config::settings::MAXCLIENTS;
use engine::clients::registry::{Client, client_flags};
use engine::session;

use super::info_text::InfoText;
use crate::server::Server;

pub(super) fn write(server: &Server, report: &mut InfoText) {
    let clients = server.clients.all();
    let most = |figure: fn(&Client) -> u64| clients.iter().map(|client| figure(client)).max();
    let waits = |client: &&Arc<Client>| {
        client.has_flag(client_flags::BLOCKED) || client.has_flag(client_flags::PAUSED)
    };
    let blocked = clients.iter().filter(waits).count();
    let is_replica = |client: &&Arc<Client>| client.has_flag(client_flags::REPLICA);
    let replicas = clients.iter().filter(is_replica).count();
    report.field("connected_clients", clients.len() - replicas);
    report.field("cluster_connections", 0);
    report.field("maxclients", server.config.get(MAXCLIENTS));
    let input = most(|client| u64::from(client.live.query_bytes.load(Ordering::Relaxed)));
    report.field("client_recent_max_input_buffer", input.unwrap_or(0));
    let output = most(|client| client.live.output_bytes.load(Ordering::Relaxed));
    report.field("client_recent_max_output_buffer", output.unwrap_or(0));
    report.field("blocked_clients", blocked);
    report.field("tracking_clients", server.pushes.tracking.stats().clients);
    let subscribes = |client: &&Arc<Client>| client.has_flag(client_flags::SUBSCRIBER);
    report.field("pubsub_clients", clients.iter().filter(subscribes).count());
    let watches = |client: &&Arc<Client>| client.live.watched.load(Ordering::Relaxed) > 0;
    report.field("watching_clients", clients.iter().filter(watches).count());
    report.field("clients_in_timeout_table", 0);
    report.field("total_watched_keys", server.keyspace.watched_keys());
    report.field("total_blocking_keys", server.keyspace.blocking_key_count());
    report.field("total_blocking_keys_on_nokey", keys_on_nokey(&clients));
}

/// How many keys there are of which some client wants to know that they go.
fn keys_on_nokey(clients: &[Arc<Client>]) -> usize {
    let blocked = clients.iter().filter(|client| client.has_flag(client_flags::BLOCKED));
    let waiters: Vec<_> = blocked.filter_map(|client| client.names().waiter()).collect();
    waiters.iter().flat_map(|waiter| session::keys_on_nokey(waiter)).collect::<HashSet<_>>().len()
}
