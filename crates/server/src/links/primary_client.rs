//! Our primary as one of our clients, as CLIENT LIST shows it and CLIENT KILL ends it.
//!
//! Invariant: the client is known as long as the connection lasts, and what is told of it beside
//! its addresses is about the stream alone: words of the handshake and data count nowhere.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use durability::apply::parse_command;
use engine::clients::mailbox::IN_TRANSIT;
use engine::clients::registry::{Client, Peer};
use replication::replica::StreamCommands;
use tokio::net::TcpStream;

use crate::net::network::Network;

/// The primary's connection as a client.
pub(super) struct PrimaryClient {
    server: &'static Network,
    pub(super) client: Arc<Client>,
}

impl PrimaryClient {
    pub(super) fn register(server: &'static Network, stream: &TcpStream) -> Self {
        let end = |address: io::Result<SocketAddr>| match address {
            Ok(address) => Peer::Tcp(address.into()),
            Err(_) => Peer::Unix,
        };
        let (peer, local) = (end(stream.peer_addr()), end(stream.local_addr()));
        let now = server.keyspace.clock().now_ms();
        let client = server.clients.register(peer, local, stream.as_raw_fd(), now);
        client.set_lane(IN_TRANSIT);
        client.become_primary();
        Self { server, client }
    }

    /// Units of the stream have come, behind which this database is selected.
    pub(super) fn note_units(&self, units: &[u8], commands: StreamCommands, database: u32) {
        let live = &self.client.live;
        live.net_in.fetch_add(units.len() as u64, Ordering::Relaxed);
        live.last_active.store(self.server.keyspace.clock().now_ms(), Ordering::Relaxed);
        live.database.store(database, Ordering::Relaxed);
        let last = commands.last.and_then(|at| {
            parse_command(&units[at..], |args| self.server.table.resolve(args).map(|it| it.id).ok())
        });
        self.client.note_commands(commands.count, last.flatten());
    }

    /// So many bytes were sent.
    pub(super) fn note_sent(&self, bytes: usize) {
        self.client.live.net_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for PrimaryClient {
    fn drop(&mut self) {
        self.server.session_ended(self.client.id);
    }
}
