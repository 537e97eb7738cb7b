//! Connections that the server begins: from which address, and by which protocol.
//!
//! Invariant: whatever is connected to by TCP is connected to here, so `bind-source-addr` holds for
//! all; an address that no socket can have is no reason to stay alone.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use config::Config;
use config::settings::{BIND_SOURCE_ADDR, REPL_MPTCP};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpSocket, TcpStream, lookup_host};

/// Connects to a server.
pub(crate) async fn connect(config: &Config, to: SocketAddr) -> io::Result<TcpStream> {
    finish(open(config, to, Protocol::TCP)?, to).await
}

/// Connects to a primary, by the first of its addresses that answers.
pub(crate) async fn connect_to_primary(
    config: &Config,
    host: &str,
    port: u16,
) -> io::Result<TcpStream> {
    let protocol = if config.get(REPL_MPTCP) { Protocol::MPTCP } else { Protocol::TCP };
    connect_to_any(config, host, port, protocol).await
}

/// Connects to a host, by the first of its addresses that answers.
pub(crate) async fn connect_to_host(
    config: &Config,
    host: &str,
    port: u16,
) -> io::Result<TcpStream> {
    connect_to_any(config, host, port, Protocol::TCP).await
}

async fn connect_to_any(
    config: &Config,
    host: &str,
    port: u16,
    protocol: Protocol,
) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in lookup_host((host, port)).await? {
        match finish(open(config, address, protocol)?, address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// As [`connect`], for a thread that may wait so long.
pub(crate) fn connect_within(
    config: &Config,
    to: SocketAddr,
    patience: Duration,
) -> io::Result<std::net::TcpStream> {
    let socket = open(config, to, Protocol::TCP)?;
    socket.connect_timeout(&to.into(), patience)?;
    Ok(socket.into())
}

async fn finish(socket: Socket, to: SocketAddr) -> io::Result<TcpStream> {
    socket.set_nonblocking(true)?;
    TcpSocket::from_std_stream(OwnedFd::from(socket).into()).connect(to).await
}

/// A socket that may be connected there, bound to the configured address if that can be.
fn open(config: &Config, to: SocketAddr, protocol: Protocol) -> io::Result<Socket> {
    let new = || Socket::new(Domain::for_address(to), Type::STREAM, Some(protocol));
    let socket = new()?;
    let source = config.get(BIND_SOURCE_ADDR);
    let Some(source) = std::str::from_utf8(&source).ok().and_then(|text| text.parse().ok()) else {
        return Ok(socket);
    };
    let source: IpAddr = source;
    // In Redis, too, another way out is better than none.
    match socket.bind(&SocketAddr::new(source, 0).into()) {
        Ok(()) => Ok(socket),
        Err(_) => new(),
    }
}
