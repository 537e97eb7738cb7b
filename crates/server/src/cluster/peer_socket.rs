//! A connection to the port for clients of another node, for a thread that waits: plain, or
//! encrypted where the nodes of the cluster speak so with each other.
//!
//! Invariants: where `tls-cluster` or `tls-replication` is set nothing leaves before the other node
//! has shown a certificate that is trusted; to connect and to agree takes no longer than it may.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use base::io_error_text::strerror;
use base::time::Clock;
use cluster::NodeId;
use config::settings::{TLS_CLUSTER, TLS_REPLICATION};
use tls::blocking::BlockingStream;

use crate::cluster::start::ClusterContext;
use crate::net::network::Network;
use crate::net::outgoing;

/// The connection.
pub(super) enum PeerSocket {
    Plain(TcpStream),
    Encrypted(Box<BlockingStream<TcpStream>>),
}

impl PeerSocket {
    /// Connects within this time; an error says why that cannot be.
    pub(super) fn connect(
        start: ClusterContext,
        node: NodeId,
        patience: Duration,
    ) -> Result<Self, String> {
        let ClusterContext { server, node: this_node, .. } = start;
        let is_encrypted = server.config.get(TLS_CLUSTER) || server.config.get(TLS_REPLICATION);
        let address = this_node.client_address(node, is_encrypted);
        let address = address.ok_or_else(|| match is_encrypted {
            true => "its address or its port for TLS is not known".to_owned(),
            false => "its address is not known".to_owned(),
        })?;
        let connect = || {
            let until_us = until_us(server.keyspace.clock(), patience);
            let socket = outgoing::connect_within(&server.config, address, patience)?;
            socket.set_nodelay(true)?;
            match is_encrypted {
                true => encrypt(server, socket, until_us).map(Self::Encrypted),
                false => Ok(Self::Plain(socket)),
            }
        };
        connect().map_err(|error: io::Error| strerror(&error))
    }

    /// What limits of time are set at.
    pub(super) fn transport(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Encrypted(stream) => stream.transport(),
        }
    }
}

impl Read for PeerSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Encrypted(stream) => stream.read(into),
        }
    }
}

impl Write for PeerSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Encrypted(stream) => stream.flush(),
        }
    }
}

fn until_us(clock: &Clock, patience: Duration) -> i64 {
    clock.monotonic_us().saturating_add(patience.as_micros() as i64)
}

/// Agrees on keys with the other node, until then.
fn encrypt(
    server: &Network,
    socket: TcpStream,
    until_us: i64,
) -> io::Result<Box<BlockingStream<TcpStream>>> {
    let contexts = server.tls.contexts();
    let contexts = contexts.ok_or_else(|| io::Error::other("TLS is not configured"))?;
    let stream = BlockingStream::connect(&contexts.client, socket).map_err(io::Error::other)?;
    let mut stream = Box::new(stream);
    loop {
        let left_us = u64::try_from(until_us - server.keyspace.clock().monotonic_us());
        let left = left_us.ok().filter(|left_us| *left_us > 0).map(Duration::from_micros);
        let left = left.ok_or(ErrorKind::TimedOut)?;
        stream.transport().set_read_timeout(Some(left))?;
        stream.transport().set_write_timeout(Some(left))?;
        match stream.advance_handshake() {
            Ok(true) => return Ok(stream),
            Ok(false) => {}
            Err(error) if has_not_ended(error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a socket is there still, though nothing went by it.
pub(super) fn has_not_ended(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
