//! Options: primaries and replicas.

use std::sync::Arc;

use super::super::choices::{DisklessLoad, PropagationErrorBehavior};
use super::super::kind::{Kind, TEXT, Unit, integer, memory};
use super::super::option::{ACCEPTED, ConfigOption, LIVE_OPTION, Mutability};
use super::super::settings::settings;
use super::super::special;

/// Primaries and replicas.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "replicaof",
        aliases: &["slaveof"],
        kind: special::REPLICAOF,
        mutability: Mutability::Startup,
        doc: "Host and port of the primary that this server replicates.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "masterauth",
        aliases: &["primaryauth"],
        kind: TEXT,
        sensitive: true,
        doc: "The password for the primary.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "masteruser",
        aliases: &["primaryuser"],
        kind: TEXT,
        doc: "The user name for the primary.",
        sensitive: true,
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "replica-serve-stale-data",
        aliases: &["slave-serve-stale-data"],
        default: "yes",
        doc: "Answers reads while the primary is out of reach.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "replica-read-only",
        aliases: &["slave-read-only"],
        default: "yes",
        doc: "Refuses writes on a replica.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "replica-priority",
        aliases: &["slave-priority"],
        kind: integer(0, i32::MAX as i64),
        default: "100",
        doc: "Sentinel's preference among replicas; 0 is never promoted.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "replica-announced",
        default: "yes",
        doc: "Whether Sentinel tells clients of this replica.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "replica-announce-ip",
        aliases: &["slave-announce-ip"],
        kind: TEXT,
        doc: "The address that a replica tells its primary.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "replica-announce-port",
        aliases: &["slave-announce-port"],
        kind: integer(0, 65_535),
        default: "0",
        doc: "The port that a replica tells its primary.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "replica-ignore-disk-write-errors",
        default: "no",
        doc: "Lets a replica go on when its journal or its snapshots cannot be written, instead of \
              ending its process.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "repl-ping-replica-period",
        aliases: &["repl-ping-slave-period"],
        kind: integer(1, i32::MAX as i64),
        default: "10",
        doc: "Seconds between pings to replicas.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "repl-timeout",
        kind: integer(1, i32::MAX as i64),
        default: "60",
        doc: "Seconds of silence after which a link is closed.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "repl-disable-tcp-nodelay",
        default: "no",
        doc: "Lets the kernel collect small packets to replicas.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "repl-backlog-size",
        kind: Kind::Number { least: 1, most: i64::MAX, unit: Unit::BacklogBytes, signed: true },
        default: "1mb",
        doc: "How many bytes of the stream are kept for replicas that reconnect.",
        cost: "So much memory, from the first replica on.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "repl-backlog-ttl",
        kind: integer(0, i64::MAX),
        default: "3600",
        doc: "Seconds that the backlog is kept without replicas.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "repl-diskless-sync",
        default: "yes",
        doc: "Sends full syncs without a file on disk.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "repl-diskless-sync-delay",
        kind: integer(0, i32::MAX as i64),
        default: "5",
        doc: "Seconds a full sync waits for more replicas.",
        cost: "The first replica waits so long for its data.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "repl-diskless-sync-max-replicas",
        kind: integer(0, i32::MAX as i64),
        default: "0",
        doc: "Replicas at which a full sync waits no longer.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "repl-diskless-load",
        kind: Kind::Choice(DisklessLoad::WORDS),
        default: "disabled",
        doc: "How a replica loads a full sync without a file.",
        cost: "`swapdb` holds the old data and the new ones in memory at once.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "repl-rdb-channel",
        default: "yes",
        hidden: true,
        doc: "Sends snapshot and stream over two connections.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "repl-mptcp",
        default: "no",
        mutability: Mutability::Startup,
        doc: "Connects to the primary with Multipath TCP.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "repl-compression",
        kind: integer(0, 22),
        default: "0",
        doc: "The level at which the stream to replicas is compressed; 0 does not.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "repl-compression-max-latency",
        kind: integer(0, i32::MAX as i64),
        default: "100",
        doc: "Milliseconds that compression may hold the stream back.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "replica-full-sync-buffer-limit",
        kind: memory(0, i64::MAX),
        default: "0",
        doc: "Bytes of the stream that a replica holds while it loads; 0 uses the output \
              buffer's limit.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "dual-channel-replication-enabled",
        default: "no",
        doc: "Sends snapshot and stream over two connections, as Valkey does.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "min-replicas-to-write",
        aliases: &["min-slaves-to-write"],
        kind: integer(0, i32::MAX as i64),
        default: "0",
        doc: "How many replicas must be near for writes to be accepted.",
        cost: "Writes are refused while fewer replicas are near.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "min-replicas-max-lag",
        aliases: &["min-slaves-max-lag"],
        kind: integer(0, i32::MAX as i64),
        default: "10",
        doc: "Seconds after which a silent replica is not near.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "propagation-error-behavior",
        kind: Kind::Choice(&["ignore", "panic", "panic-on-replicas"]),
        default: "ignore",
        doc: "Whether a command of the primary that fails here ends the process, or is told of \
              and passed over.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "import-mode",
        default: "no",
        doc: "Leaves expiry to the source while data is imported.",
        cost: "Keys whose time is over stay while it is on.",
        ..LIVE_OPTION
    },
];

settings! {
    DUAL_CHANNEL_REPLICATION_ENABLED: bool = "dual-channel-replication-enabled";
    IMPORT_MODE: bool = "import-mode";
    MASTERAUTH: Arc<[u8]> = "masterauth";
    MASTERUSER: Arc<[u8]> = "masteruser";
    MIN_REPLICAS_MAX_LAG: u32 = "min-replicas-max-lag";
    MIN_REPLICAS_TO_WRITE: usize = "min-replicas-to-write";
    PROPAGATION_ERROR_BEHAVIOR: PropagationErrorBehavior = "propagation-error-behavior";
    REPLICAOF: Arc<[u8]> = "replicaof";
    REPLICA_ANNOUNCED: bool = "replica-announced";
    REPLICA_ANNOUNCE_IP: Arc<[u8]> = "replica-announce-ip";
    REPLICA_ANNOUNCE_PORT: u16 = "replica-announce-port";
    REPLICA_FULL_SYNC_BUFFER_LIMIT: u64 = "replica-full-sync-buffer-limit";
    REPLICA_PRIORITY: u32 = "replica-priority";
    REPLICA_IGNORE_DISK_WRITE_ERRORS: bool = "replica-ignore-disk-write-errors";
    REPLICA_READ_ONLY: bool = "replica-read-only";
    REPLICA_SERVE_STALE_DATA: bool = "replica-serve-stale-data";
    REPL_BACKLOG_SIZE: u64 = "repl-backlog-size";
    REPL_BACKLOG_TTL: u64 = "repl-backlog-ttl";
    REPL_DISABLE_TCP_NODELAY: bool = "repl-disable-tcp-nodelay";
    REPL_DISKLESS_LOAD: DisklessLoad = "repl-diskless-load";
    REPL_DISKLESS_SYNC: bool = "repl-diskless-sync";
    REPL_DISKLESS_SYNC_DELAY: u32 = "repl-diskless-sync-delay";
    REPL_DISKLESS_SYNC_MAX_REPLICAS: usize = "repl-diskless-sync-max-replicas";
    REPL_MPTCP: bool = "repl-mptcp";
    REPL_PING_REPLICA_PERIOD: u32 = "repl-ping-replica-period";
    REPL_RDB_CHANNEL: bool = "repl-rdb-channel";
    REPL_TIMEOUT: u32 = "repl-timeout";
}
