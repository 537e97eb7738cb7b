//! Options: the memcached protocols.

use std::sync::Arc;

use super::super::choices::MemcachedProtocol;
use super::super::kind::{Kind, TEXT, Unit, integer};
use super::super::option::{ConfigOption, LIVE_OPTION, Mutability};
use super::super::settings::settings;

/// The memcached protocols.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "memcached-port",
        kind: integer(-1, 65_535),
        default: "0",
        mutability: Mutability::Startup,
        doc: "The TCP port for clients of memcached, 11211 as a rule; 0 listens on none, -1 on any \
              that is free.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "memcached-udp-port",
        kind: integer(-1, 65_535),
        default: "0",
        mutability: Mutability::Startup,
        doc: "The UDP port for clients of memcached; 0 listens on none, -1 on any that is free.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "memcached-tls",
        default: "no",
        mutability: Mutability::Startup,
        doc: "Whether clients of memcached speak TLS on their TCP port, by the directives of TLS.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "memcached-port-filename",
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "A file that is told on which ports clients of memcached come in; none by default.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "memcached-unixsocket",
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "The path of a Unix socket for clients of memcached; none by default.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "memcached-unixsocketperm",
        kind: Kind::Number { least: 0, most: 0o777, unit: Unit::Octal, signed: true },
        default: "0",
        mutability: Mutability::Startup,
        doc: "The permissions of that Unix socket, in octal; 0 leaves them to the umask.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "memcached-protocol",
        kind: Kind::Choice(MemcachedProtocol::WORDS),
        default: "auto",
        mutability: Mutability::Startup,
        doc: "Which of its protocols clients of memcached may speak; auto goes by the first byte.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "memcached-database",
        kind: integer(0, i32::MAX as i64),
        default: "0",
        mutability: Mutability::Startup,
        doc: "The database in which clients of memcached find their items.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "memcached-item-size-max",
        kind: Kind::Number { least: 1024, most: 1 << 30, unit: Unit::Bytes, signed: false },
        default: "1048576",
        doc: "The largest value that a client of memcached may store.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "memcached-user",
        kind: TEXT,
        default: "default",
        doc: "The name by which clients of memcached know the default user.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "memcached-auth-file",
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "A file of lines user:password, as whom clients of memcached may come in; read again \
              at SIGHUP.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "memcached-prefix-delimiter",
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "The byte that ends a key's prefix in `stats detail`, whose figures are then kept \
              from the start; by default ':', from `stats detail on` on.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "memcached-flush",
        default: "yes",
        doc: "Whether clients of memcached may forget all items with flush_all.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "memcached-dump",
        default: "yes",
        doc: "Whether clients of memcached may have all keys listed.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "memcached-watch",
        default: "yes",
        doc: "Whether clients of memcached may watch what others do.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "memcached-shutdown",
        default: "no",
        doc: "Whether clients of memcached may end the server.",
        ..LIVE_OPTION
    },
];

settings! {
    MEMCACHED_AUTH_FILE: Arc<[u8]> = "memcached-auth-file";
    MEMCACHED_DATABASE: u32 = "memcached-database";
    MEMCACHED_DUMP: bool = "memcached-dump";
    MEMCACHED_FLUSH: bool = "memcached-flush";
    MEMCACHED_ITEM_SIZE_MAX: usize = "memcached-item-size-max";
    MEMCACHED_PORT: i32 = "memcached-port";
    MEMCACHED_PORT_FILENAME: Arc<[u8]> = "memcached-port-filename";
    MEMCACHED_PREFIX_DELIMITER: Arc<[u8]> = "memcached-prefix-delimiter";
    MEMCACHED_PROTOCOL: MemcachedProtocol = "memcached-protocol";
    MEMCACHED_SHUTDOWN: bool = "memcached-shutdown";
    MEMCACHED_TLS: bool = "memcached-tls";
    MEMCACHED_UDP_PORT: i32 = "memcached-udp-port";
    MEMCACHED_UNIXSOCKET: Arc<[u8]> = "memcached-unixsocket";
    MEMCACHED_UNIXSOCKETPERM: u32 = "memcached-unixsocketperm";
    MEMCACHED_USER: Arc<[u8]> = "memcached-user";
    MEMCACHED_WATCH: bool = "memcached-watch";
}
