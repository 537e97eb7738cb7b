//! Options: listening and connections.

use std::sync::Arc;

use super::super::kind::{Kind, TEXT, Unit, integer, unsigned};
use super::super::option::{ACCEPTED, ConfigOption, LIVE_OPTION, Mutability};
use super::super::settings::settings;
use super::super::special;
use super::super::value_types::BindAddress;

/// Listening and connections.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "port",
        kind: integer(0, 65_535),
        default: "6379",
        doc: "The TCP port to listen on; 0 listens on none.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "listen-on-any-port",
        default: "no",
        mutability: Mutability::Startup,
        doc: "Where `port` is 0, listens on a port that the system chooses and the log tells.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "bind",
        kind: special::BIND,
        default: "* -::*",
        doc: "The addresses to listen on; a leading `-` forgives an address that the machine \
              has not.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "bind-source-addr",
        kind: special::IP,
        doc: "The address that outgoing connections come from, where a socket can have it.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "protected-mode",
        default: "yes",
        doc: "Refuses clients of other machines while there is neither a password nor an \
              explicit address.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tcp-backlog",
        kind: integer(0, i32::MAX as i64),
        default: "511",
        mutability: Mutability::Startup,
        doc: "How many connections may wait to be accepted.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tcp-keepalive",
        kind: integer(0, i32::MAX as i64),
        default: "300",
        doc: "Seconds of silence after which the kernel probes a client; 0 never probes.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "unixsocket",
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "The path of the Unix socket to listen on; none by default.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "unixsocketperm",
        kind: Kind::Number { least: 0, most: 0o777, unit: Unit::Octal, signed: true },
        default: "0",
        mutability: Mutability::Startup,
        doc: "The permissions of the Unix socket, in octal; 0 leaves them to the umask.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "unixsocketgroup",
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "The group that owns the Unix socket.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "socket-mark-id",
        kind: unsigned(0, u32::MAX as i64),
        default: "0",
        mutability: Mutability::Startup,
        doc: "The mark of the sockets that listen, for the kernel's routes and filters; 0 is none.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "mptcp",
        default: "no",
        mutability: Mutability::Startup,
        doc: "Listens with Multipath TCP.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "max-new-connections-per-cycle",
        kind: unsigned(1, 1000),
        default: "10",
        doc: "How many connections one round of an event loop accepts; ours accept without rounds.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "max-new-tls-connections-per-cycle",
        kind: unsigned(1, 1000),
        default: "1",
        doc: "How many TLS connections one round of an event loop accepts.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "rdma-port",
        kind: integer(0, 65_535),
        default: "0",
        doc: "The RDMA port to listen on; there is no RDMA here.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "rdma-bind",
        kind: TEXT,
        doc: "The RDMA addresses to listen on.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "rdma-rx-size",
        kind: integer(65_536, 16_777_216),
        default: "1048576",
        mutability: Mutability::Startup,
        doc: "The size of an RDMA receive buffer.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "rdma-completion-vector",
        kind: integer(-1, 1024),
        default: "-1",
        mutability: Mutability::Startup,
        doc: "The RDMA completion vector.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "availability-zone",
        kind: TEXT,
        doc: "A name of the place this server stands in, told to clients by INFO and HELLO.",
        ..LIVE_OPTION
    },
];

settings! {
    AVAILABILITY_ZONE: Arc<[u8]> = "availability-zone";
    BIND: Vec<BindAddress> = "bind";
    BIND_SOURCE_ADDR: Arc<[u8]> = "bind-source-addr";
    LISTEN_ON_ANY_PORT: bool = "listen-on-any-port";
    MPTCP: bool = "mptcp";
    PORT: u16 = "port";
    PROTECTED_MODE: bool = "protected-mode";
    SOCKET_MARK_ID: u32 = "socket-mark-id";
    TCP_BACKLOG: i32 = "tcp-backlog";
    TCP_KEEPALIVE: u32 = "tcp-keepalive";
    UNIXSOCKET: Arc<[u8]> = "unixsocket";
    UNIXSOCKETGROUP: Arc<[u8]> = "unixsocketgroup";
    UNIXSOCKETPERM: u32 = "unixsocketperm";
}
