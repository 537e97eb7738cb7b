//! The sockets by which clients of memcached come in: TCP, UDP and Unix.
//!
//! Invariant: these are opened once, at the start; where they are is told to the log, to
//! `stats conns` and to the file of ports alike.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use base::io_error_text::strerror;
use config::Config;
use config::settings::{
    BIND, MEMCACHED_DATABASE, MEMCACHED_PORT, MEMCACHED_PORT_FILENAME, MEMCACHED_PREFIX_DELIMITER,
    MEMCACHED_TLS, MEMCACHED_UDP_PORT, MEMCACHED_UNIXSOCKET,
};
use engine::runtime::replace_file;

use super::{
    ListenerKind, Protocol, RequestedSocket, addresses, bind_all, is_unavailable, open_unix,
    start_accepting,
};
use crate::net::network::Network;
use crate::net::udp;

/// Opens all of them; where they are.
pub(super) fn open(server: &'static Network) -> Result<Vec<String>, String> {
    let config = &server.config;
    let (database, databases) = (config.get(MEMCACHED_DATABASE), server.keyspace.database_count());
    if database as usize >= databases {
        return Err(format!("memcached-database {database}: there are {databases} databases"));
    }
    if let Some(delimiter) = config.get(MEMCACHED_PREFIX_DELIMITER).first() {
        server.memcached.details.delimit_by(*delimiter);
    }
    // Below zero is any port.
    let kind =
        ListenerKind { protocol: Protocol::Memcached, is_encrypted: config.get(MEMCACHED_TLS) };
    let binds = config.get(BIND);
    let wanted = |port: i32| addresses(&binds, u16::try_from(port).unwrap_or(0), kind);
    let (port, udp_port) = (config.get(MEMCACHED_PORT), config.get(MEMCACHED_UDP_PORT));
    let mut opened = Vec::new();
    if port != 0 {
        let bound = bind_all(server, &wanted(port)?).map_err(|(why, _)| why)?;
        for bound in bound {
            opened.push((ListenerAddress::Tcp(bound.address), bound.listener.as_raw_fd()));
            start_accepting(server, bound);
        }
    }
    if udp_port != 0 {
        for RequestedSocket { address, optional, .. } in wanted(udp_port)? {
            match udp::listen(server, address) {
                Ok((address, descriptor)) => {
                    opened.push((ListenerAddress::Udp(address), descriptor));
                }
                Err(error) if optional && is_unavailable(&error) => {}
                Err(error) => {
                    let why = strerror(&error);
                    return Err(format!("Could not create UDP socket {address}: {why}"));
                }
            }
        }
    }
    if let Some(descriptor) = open_unix(server, Protocol::Memcached)? {
        let path = config.get(MEMCACHED_UNIXSOCKET);
        opened
            .push((ListenerAddress::Unix(String::from_utf8_lossy(&path).into_owned()), descriptor));
    }
    write_ports(config, &opened)?;
    let listeners =
        opened.iter().map(|(address, descriptor)| (*descriptor, address.shown())).collect();
    // The listeners are opened once.
    let _ = server.memcached.listeners.set(listeners);
    Ok(opened.iter().map(|(address, _)| address.to_string()).collect())
}

/// Where clients of memcached come in.
enum ListenerAddress {
    Tcp(SocketAddr),
    Udp(SocketAddr),
    Unix(String),
}

impl ListenerAddress {
    /// As `stats conns` shows it.
    fn shown(&self) -> String {
        let name = |protocol: &str, address: &SocketAddr| {
            format!("{protocol}{}:{address}", if address.is_ipv6() { "6" } else { "" })
        };
        match self {
            Self::Tcp(address) => name("tcp", address),
            Self::Udp(address) => name("udp", address),
            Self::Unix(path) => format!("unix:{path}"),
        }
    }

    /// As the file of ports has it, if it has a port.
    fn line(&self) -> Option<String> {
        let (protocol, address) = match self {
            Self::Tcp(address) => ("TCP", address),
            Self::Udp(address) => ("UDP", address),
            Self::Unix(_) => return None,
        };
        let family = if address.is_ipv6() { "INET6" } else { "INET" };
        Some(format!("{protocol} {family}: {}\n", address.port()))
    }
}

impl fmt::Display for ListenerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Udp(address) => write!(f, "{address} (UDP)"),
            Self::Unix(path) => write!(f, "{path}"),
        }
    }
}

/// Writes the file of ports, if one is wanted.
fn write_ports(config: &Config, opened: &[(ListenerAddress, RawFd)]) -> Result<(), String> {
    let path = config.get(MEMCACHED_PORT_FILENAME);
    if path.is_empty() {
        return Ok(());
    }
    let path = Path::new(std::ffi::OsStr::from_bytes(&path));
    let lines: String = opened.iter().filter_map(|(address, _)| address.line()).collect();
    replace_file::replace_atomically(path, lines.as_bytes()).map_err(|error| {
        format!("Cannot write the ports to '{}': {}", path.display(), strerror(&error))
    })
}
