//! Where a client comes from.
//!
//! Invariant: an address is one of the system's, or that of no socket.

use std::net::{IpAddr, SocketAddr};

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A socket of TCP.
    Tcp(Address),
    /// The Unix socket.
    Unix,
}

/// As a `SocketAddr`, without what links of IPv6 need: there are many of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The IP address.
    pub ip: IpAddr,
    /// The TCP port.
    pub port: u16,
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self { ip: address.ip(), port: address.port() }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        SocketAddr::new(self.ip, self.port).fmt(formatter)
    }
}

impl Peer {
    /// Whether the peer is at the machine's own end of a loopback or of a Unix socket.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip.to_canonical().is_loopback(),
            Self::Unix => true,
        }
    }

    /// Whether the client came by IPv6, and not by IPv4 to a socket that takes both.
    pub fn is_ipv6(&self) -> bool {
        matches!(self, Self::Tcp(address) if address.ip.to_canonical().is_ipv6())
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "{address}"),
            Self::Unix => formatter.write_str("/unixsocket:0"),
        }
    }
}
