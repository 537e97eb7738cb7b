//! Where clients are sent in place of where the bus finds a node: what Valkey's nodes announce by
//! `cluster-announce-client-ipv4` and its kin.
//!
//! Invariant: what is not announced is what the bus knows.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::nodes_file::NodeRecord;

/// What a node announces for clients.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientAddress {
    /// The address for clients that come by IPv4.
    pub ipv4: Option<Ipv4Addr>,
    /// The address for clients that come by IPv6.
    pub ipv6: Option<Ipv6Addr>,
    /// The port without TLS.
    pub port: Option<u16>,
    /// The port with TLS.
    pub tls_port: Option<u16>,
}

/// How a client came, by which the client is told where nodes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientRoute {
    /// Over TLS.
    pub is_encrypted: bool,
    /// By IPv6.
    pub is_ipv6: bool,
}

impl NodeRecord {
    /// The address that a client is told.
    pub fn client_ip(&self, is_ipv6: bool) -> Option<IpAddr> {
        let client = &self.aux.client;
        let announced = match is_ipv6 {
            true => client.ipv6.map(IpAddr::V6),
            false => client.ipv4.map(IpAddr::V4),
        };
        announced.or(self.ip)
    }

    /// The ports that a client is told, without TLS and with it; 0 for none.
    pub fn client_ports(&self) -> (u16, u16) {
        let client = &self.aux.client;
        (client.port.unwrap_or(self.tcp_port), client.tls_port.unwrap_or(self.tls_port))
    }

    /// The record as CLUSTER NODES shows a client the node.
    pub fn for_client(&self, route: ClientRoute) -> NodeRecord {
        let (tcp_port, tls_port) = self.client_ports();
        NodeRecord { ip: self.client_ip(route.is_ipv6), tcp_port, tls_port, ..self.clone() }
    }
}
