//! Options: cluster mode.

use std::sync::Arc;

use super::super::choices::{AutoRebalance, EndpointType, SaveBehavior};
use super::super::kind::{Kind, TEXT, integer, memory, unsigned_memory};
use super::super::networks::{NETWORKS, Networks};
use super::super::option::{ConfigOption, LIVE_OPTION, Mutability, NOT_YET};
use super::super::settings::settings;
use super::super::special;

/// Cluster mode.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "cluster-enabled",
        default: "no",
        mutability: Mutability::Startup,
        doc: "Makes this server a node of a cluster.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-config-file",
        kind: TEXT,
        default: "nodes.conf",
        mutability: Mutability::Startup,
        doc: "The file where the node keeps what it knows of the cluster.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-config-save-behavior",
        kind: Kind::Choice(SaveBehavior::WORDS),
        default: "sync",
        doc: "What happens when that file cannot be written.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-node-timeout",
        kind: integer(0, i64::MAX),
        default: "15000",
        doc: "Milliseconds of silence after which a node is suspected.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-port",
        kind: integer(0, 65_535),
        default: "0",
        mutability: Mutability::Startup,
        doc: "The port of the cluster bus; 0 is `port` plus 10000.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-databases",
        kind: integer(1, i32::MAX as i64),
        default: "1",
        mutability: Mutability::Startup,
        doc: "How many databases there are in cluster mode.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-announce-ip",
        kind: special::IP,
        doc: "The address that the node announces.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-announce-port",
        kind: integer(0, 65_535),
        default: "0",
        doc: "The port that the node announces.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-announce-tls-port",
        kind: integer(0, 65_535),
        default: "0",
        doc: "The TLS port that the node announces.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-announce-bus-port",
        kind: integer(0, 65_535),
        default: "0",
        doc: "The bus port that the node announces.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-announce-hostname",
        kind: special::HOSTNAME,
        doc: "The host name that the node announces.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-announce-human-nodename",
        kind: special::NODENAME,
        doc: "The name that the node announces for people.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-announce-client-ipv4",
        kind: special::IPV4,
        doc: "The IPv4 address that the node announces to clients.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-announce-client-ipv6",
        kind: special::IPV6,
        doc: "The IPv6 address that the node announces to clients.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-announce-client-port",
        kind: integer(0, 65_535),
        default: "0",
        doc: "The port that the node announces to clients.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-announce-client-tls-port",
        kind: integer(0, 65_535),
        default: "0",
        doc: "The TLS port that the node announces to clients.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-preferred-endpoint-type",
        kind: Kind::Choice(&["ip", "hostname", "unknown-endpoint"]),
        default: "ip",
        doc: "How nodes are named to clients.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-replica-validity-factor",
        aliases: &["cluster-slave-validity-factor"],
        kind: integer(0, i32::MAX as i64),
        default: "10",
        doc: "How stale a replica may be and still fail over.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-replica-no-failover",
        aliases: &["cluster-slave-no-failover"],
        default: "no",
        doc: "Keeps a replica from failing over by itself.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-migration-barrier",
        kind: integer(0, i32::MAX as i64),
        default: "1",
        doc: "How many replicas a primary keeps when others lack one.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-allow-replica-migration",
        default: "yes",
        doc: "Lets replicas move to primaries that lack one.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-require-full-coverage",
        default: "yes",
        doc: "Refuses commands while a slot has no node.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-allow-reads-when-down",
        default: "no",
        doc: "Answers reads while the cluster is down.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-allow-pubsubshard-when-down",
        default: "yes",
        doc: "Serves sharded channels while the cluster is down.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-allow-cross-slot",
        default: "no",
        doc: "Lets commands, transactions and scripts use keys of several slots of this node.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-proxy",
        default: "no",
        doc: "Sends requests for keys of other nodes on, for clients that know no cluster.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-proxy-timeout",
        kind: integer(1, i32::MAX as i64),
        default: "15000",
        doc: "Milliseconds of silence after which a request that was sent on is given up.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-bus-allow",
        kind: NETWORKS,
        doc: "The addresses and networks from which nodes may come to the bus; none is all.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-link-sendbuf-limit",
        kind: unsigned_memory(0, i64::MAX),
        default: "0",
        doc: "The memory of one bus link's unsent messages; 0 is 256 MB.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-blacklist-ttl",
        kind: integer(0, i64::MAX),
        default: "60",
        doc: "Seconds that a forgotten node stays forgotten.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-manual-failover-timeout",
        kind: integer(1, i32::MAX as i64),
        default: "5000",
        doc: "Milliseconds that a manual failover may take.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-ping-interval",
        kind: integer(0, i32::MAX as i64),
        default: "0",
        hidden: true,
        doc: "Milliseconds between pings on the bus; 0 chooses.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-slot-stats-enabled",
        default: "no",
        doc: "Keeps statistics by slot.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-compatibility-sample-ratio",
        kind: integer(0, 100),
        default: "0",
        doc: "Percent of commands that are checked for use in a cluster.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-bus-port-protected-mode",
        default: "no",
        doc: "Refuses peers of other machines on the bus while it is unprotected.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-slot-migration-handoff-max-lag-bytes",
        kind: memory(0, i64::MAX),
        default: "1mb",
        doc: "How far a slot's target may lag for its handoff to begin.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-slot-migration-write-pause-timeout",
        kind: integer(1, i32::MAX as i64),
        default: "10000",
        doc: "Milliseconds that writes may pause for a slot's handoff.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-slot-migration-sync-buffer-drain-timeout",
        kind: integer(1, i32::MAX as i64),
        default: "60000",
        hidden: true,
        doc: "Milliseconds that a slot's target may take to drain its buffer.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-slot-migration-max-archived-tasks",
        kind: integer(1, i32::MAX as i64),
        default: "32",
        hidden: true,
        doc: "How many finished slot migrations are remembered.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-slot-migration-log-max-len",
        kind: integer(0, i64::MAX),
        default: "1000",
        doc: "How many finished slot migrations are listed.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-slot-move-buffer-limit",
        kind: memory(1 << 20, i64::MAX),
        default: "256mb",
        doc: "The memory that may wait for a moving slot's target; a move that needs more ends.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-slot-move-rate",
        kind: memory(0, i64::MAX),
        default: "0",
        doc: "Bytes of a moving slot's keys that are sent per second; 0 is as fast as possible.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-auto-rebalance",
        kind: Kind::Choice(AutoRebalance::WORDS),
        default: "no",
        doc: "What slots are shared out by, again and again, without CLUSTER REBALANCE.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-auto-rebalance-interval",
        kind: integer(1, i32::MAX as i64),
        default: "300",
        doc: "Seconds between two looks whether slots are shared out evenly.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-auto-rebalance-threshold",
        kind: integer(1, 100),
        default: "20",
        doc: "Percent that a primary may be away from its share before slots move.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "cluster-auto-rebalance-limit",
        kind: integer(1, 16_384),
        default: "64",
        doc: "How many slots move at most after one such look.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "slot-migration-max-failover-repl-bytes",
        kind: memory(-1, i64::MAX),
        default: "0",
        doc: "How far a slot's target may lag for its failover to begin.",
        ..LIVE_OPTION
    },
];

settings! {
    CLUSTER_ALLOW_CROSS_SLOT: bool = "cluster-allow-cross-slot";
    CLUSTER_ALLOW_PUBSUBSHARD_WHEN_DOWN: bool = "cluster-allow-pubsubshard-when-down";
    CLUSTER_ALLOW_READS_WHEN_DOWN: bool = "cluster-allow-reads-when-down";
    CLUSTER_ALLOW_REPLICA_MIGRATION: bool = "cluster-allow-replica-migration";
    CLUSTER_ANNOUNCE_BUS_PORT: u16 = "cluster-announce-bus-port";
    CLUSTER_ANNOUNCE_CLIENT_IPV4: Arc<[u8]> = "cluster-announce-client-ipv4";
    CLUSTER_ANNOUNCE_CLIENT_IPV6: Arc<[u8]> = "cluster-announce-client-ipv6";
    CLUSTER_ANNOUNCE_CLIENT_PORT: u16 = "cluster-announce-client-port";
    CLUSTER_ANNOUNCE_CLIENT_TLS_PORT: u16 = "cluster-announce-client-tls-port";
    CLUSTER_ANNOUNCE_HOSTNAME: Arc<[u8]> = "cluster-announce-hostname";
    CLUSTER_ANNOUNCE_HUMAN_NODENAME: Arc<[u8]> = "cluster-announce-human-nodename";
    CLUSTER_ANNOUNCE_IP: Arc<[u8]> = "cluster-announce-ip";
    CLUSTER_ANNOUNCE_PORT: u16 = "cluster-announce-port";
    CLUSTER_ANNOUNCE_TLS_PORT: u16 = "cluster-announce-tls-port";
    CLUSTER_AUTO_REBALANCE: AutoRebalance = "cluster-auto-rebalance";
    CLUSTER_AUTO_REBALANCE_INTERVAL: u64 = "cluster-auto-rebalance-interval";
    CLUSTER_AUTO_REBALANCE_LIMIT: usize = "cluster-auto-rebalance-limit";
    CLUSTER_AUTO_REBALANCE_THRESHOLD: u8 = "cluster-auto-rebalance-threshold";
    CLUSTER_BLACKLIST_TTL: u64 = "cluster-blacklist-ttl";
    CLUSTER_BUS_ALLOW: Networks = "cluster-bus-allow";
    CLUSTER_BUS_PORT_PROTECTED_MODE: bool = "cluster-bus-port-protected-mode";
    CLUSTER_COMPATIBILITY_SAMPLE_RATIO: u8 = "cluster-compatibility-sample-ratio";
    CLUSTER_CONFIG_FILE: Arc<[u8]> = "cluster-config-file";
    CLUSTER_CONFIG_SAVE_BEHAVIOR: SaveBehavior = "cluster-config-save-behavior";
    CLUSTER_DATABASES: usize = "cluster-databases";
    CLUSTER_ENABLED: bool = "cluster-enabled";
    CLUSTER_LINK_SENDBUF_LIMIT: usize = "cluster-link-sendbuf-limit";
    CLUSTER_MANUAL_FAILOVER_TIMEOUT: u64 = "cluster-manual-failover-timeout";
    CLUSTER_MIGRATION_BARRIER: usize = "cluster-migration-barrier";
    CLUSTER_NODE_TIMEOUT: u64 = "cluster-node-timeout";
    CLUSTER_PING_INTERVAL: u64 = "cluster-ping-interval";
    CLUSTER_PORT: u16 = "cluster-port";
    CLUSTER_PREFERRED_ENDPOINT_TYPE: EndpointType = "cluster-preferred-endpoint-type";
    CLUSTER_PROXY: bool = "cluster-proxy";
    CLUSTER_PROXY_TIMEOUT: u64 = "cluster-proxy-timeout";
    CLUSTER_REPLICA_NO_FAILOVER: bool = "cluster-replica-no-failover";
    CLUSTER_REPLICA_VALIDITY_FACTOR: u64 = "cluster-replica-validity-factor";
    CLUSTER_REQUIRE_FULL_COVERAGE: bool = "cluster-require-full-coverage";
    CLUSTER_SLOT_MIGRATION_LOG_MAX_LEN: usize = "cluster-slot-migration-log-max-len";
    CLUSTER_SLOT_MOVE_BUFFER_LIMIT: usize = "cluster-slot-move-buffer-limit";
    CLUSTER_SLOT_MOVE_RATE: usize = "cluster-slot-move-rate";
    CLUSTER_SLOT_STATS_ENABLED: bool = "cluster-slot-stats-enabled";
    SLOT_MIGRATION_MAX_FAILOVER_REPL_BYTES: i64 = "slot-migration-max-failover-repl-bytes";
}
