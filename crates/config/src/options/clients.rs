//! Options: limits of clients.

use std::sync::Arc;

use super::super::kind::{Kind, TEXT, Unit, integer, memory, unsigned, unsigned_memory};
use super::super::option::{ConfigOption, LIVE_OPTION};
use super::super::settings::settings;
use super::super::special;
use super::super::value_types::OutputBufferLimits;

/// Limits of clients.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "timeout",
        kind: integer(0, i32::MAX as i64),
        default: "0",
        doc: "Seconds after which an idle client is closed; 0 never closes one.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "maxclients",
        kind: unsigned(1, u32::MAX as i64),
        default: "10000",
        doc: "How many clients may be connected at once.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "maxclients-reserved",
        kind: integer(0, i32::MAX as i64),
        default: "4",
        doc: "How many of maxclients are kept free for clients of this machine, half of them at \
              most: whoever floods the server by the network leaves its operator a way in.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "unauthenticated-timeout",
        kind: integer(0, i32::MAX as i64),
        default: "60",
        doc: "Seconds after which a client is closed that has to say who it is and has not; 0 \
              never closes one.",
        cost: "A client that never says who it is loses its connection.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "failed-auth-delay",
        kind: integer(0, 60_000),
        default: "1000",
        doc: "Milliseconds by which attempts to log in are answered late, at most, from an address \
              from which many have failed; 0 answers all at once.",
        cost: "Others behind the same address wait so long, too, when they log in.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "client-query-buffer-limit",
        kind: unsigned_memory(1_048_576, i64::MAX),
        default: "1gb",
        doc: "How many bytes of unfinished requests a client may have.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "client-output-buffer-limit",
        kind: special::OUTPUT_BUFFER_LIMITS,
        default: "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60",
        doc: "Hard limit, soft limit and soft seconds of unread replies, by client class.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "proto-max-bulk-len",
        kind: memory(1_048_576, i64::MAX),
        default: "512mb",
        doc: "The longest argument a client may send.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "maxmemory-clients",
        kind: Kind::Number {
            least: -100,
            most: i64::MAX,
            unit: Unit::BytesOrPercent,
            signed: true,
        },
        default: "50%",
        doc: "The memory of all clients' buffers together, in bytes or percent of maxmemory; \
              0 is no limit. The default is 64mb at least.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tracking-table-max-keys",
        kind: unsigned(0, i64::MAX),
        default: "1000000",
        doc: "How many keys the table of client-side caches may remember.",
        cost: "Memory for each key that a client with CLIENT TRACKING has read.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "hello-server-name",
        kind: TEXT,
        default: "redis",
        doc: "What HELLO says as `server`; some client libraries accept no other name.",
        ..LIVE_OPTION
    },
];

settings! {
    CLIENT_OUTPUT_BUFFER_LIMIT: OutputBufferLimits = "client-output-buffer-limit";
    CLIENT_QUERY_BUFFER_LIMIT: usize = "client-query-buffer-limit";
    FAILED_AUTH_DELAY: u32 = "failed-auth-delay";
    HELLO_SERVER_NAME: Arc<[u8]> = "hello-server-name";
    MAXCLIENTS: u32 = "maxclients";
    MAXCLIENTS_RESERVED: usize = "maxclients-reserved";
    MAXMEMORY_CLIENTS: i64 = "maxmemory-clients";
    PROTO_MAX_BULK_LEN: usize = "proto-max-bulk-len";
    TIMEOUT: u32 = "timeout";
    TRACKING_TABLE_MAX_KEYS: usize = "tracking-table-max-keys";
    UNAUTHENTICATED_TIMEOUT: u32 = "unauthenticated-timeout";
}
