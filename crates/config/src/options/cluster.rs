//! Options: cluster mode.

use super::super::kind::{Kind, TEXT, integer, memory, unsigned_memory};
use super::super::option::{Access, ConfigOption, MISSING, NOT_YET};
use super::super::special;

/// Cluster mode.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "cluster-enabled",
        default: "no",
        access: Access::Startup,
        doc: "Makes this server a node of a cluster.",
        ..MISSING
    },
    ConfigOption {
        name: "cluster-config-file",
        kind: TEXT,
        default: "nodes.conf",
        access: Access::Startup,
        doc: "The file where the node keeps what it knows of the cluster.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-config-save-behavior",
        kind: Kind::Choice(&["sync", "best-effort"]),
        default: "sync",
        doc: "What happens when that file cannot be written.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-node-timeout",
        kind: integer(0, i64::MAX),
        default: "15000",
        doc: "Milliseconds of silence after which a node is suspected.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-port",
        kind: integer(0, 65_535),
        default: "0",
        access: Access::Startup,
        doc: "The port of the cluster bus; 0 is `port` plus 10000.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-databases",
        kind: integer(1, i32::MAX as i64),
        default: "1",
        access: Access::Startup,
        doc: "How many databases there are in cluster mode.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-announce-ip",
        kind: TEXT,
        doc: "The address that the node announces.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-announce-port",
        kind: integer(0, 65_535),
        default: "0",
        doc: "The port that the node announces.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-announce-tls-port",
        kind: integer(0, 65_535),
        default: "0",
        doc: "The TLS port that the node announces.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-announce-bus-port",
        kind: integer(0, 65_535),
        default: "0",
        doc: "The bus port that the node announces.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-announce-hostname",
        kind: special::HOSTNAME,
        doc: "The host name that the node announces.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-announce-human-nodename",
        kind: TEXT,
        doc: "The name that the node announces for people.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-announce-client-ipv4",
        kind: special::IPV4,
        doc: "The IPv4 address that the node announces to clients.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-announce-client-ipv6",
        kind: special::IPV6,
        doc: "The IPv6 address that the node announces to clients.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-announce-client-port",
        kind: integer(0, 65_535),
        default: "0",
        doc: "The port that the node announces to clients.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-announce-client-tls-port",
        kind: integer(0, 65_535),
        default: "0",
        doc: "The TLS port that the node announces to clients.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-preferred-endpoint-type",
        kind: Kind::Choice(&["ip", "hostname", "unknown-endpoint"]),
        default: "ip",
        doc: "How nodes are named to clients.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-replica-validity-factor",
        aliases: &["cluster-slave-validity-factor"],
        kind: integer(0, i32::MAX as i64),
        default: "10",
        doc: "How stale a replica may be and still fail over.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-replica-no-failover",
        aliases: &["cluster-slave-no-failover"],
        default: "no",
        doc: "Keeps a replica from failing over by itself.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-migration-barrier",
        kind: integer(0, i32::MAX as i64),
        default: "1",
        doc: "How many replicas a primary keeps when others lack one.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-allow-replica-migration",
        default: "yes",
        doc: "Lets replicas move to primaries that lack one.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-require-full-coverage",
        default: "yes",
        doc: "Refuses commands while a slot has no node.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-allow-reads-when-down",
        default: "no",
        doc: "Answers reads while the cluster is down.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-allow-pubsubshard-when-down",
        default: "yes",
        doc: "Serves sharded channels while the cluster is down.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-link-sendbuf-limit",
        kind: unsigned_memory(0, i64::MAX),
        default: "0",
        doc: "The memory of one bus link's unsent messages; 0 is no limit.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-blacklist-ttl",
        kind: integer(0, i64::MAX),
        default: "60",
        doc: "Seconds that a forgotten node stays forgotten.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-manual-failover-timeout",
        kind: integer(1, i32::MAX as i64),
        default: "5000",
        doc: "Milliseconds that a manual failover may take.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-ping-interval",
        kind: integer(0, i32::MAX as i64),
        default: "0",
        hidden: true,
        doc: "Milliseconds between pings on the bus; 0 chooses.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-slot-stats-enabled",
        default: "no",
        doc: "Keeps statistics by slot.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-compatibility-sample-ratio",
        kind: integer(0, 100),
        default: "0",
        doc: "Percent of commands that are checked for use in a cluster.",
        ..NOT_YET
    },
    ConfigOption {
        name: "cluster-bus-port-protected-mode",
        default: "no",
        doc: "Refuses peers of other machines on the bus while it is unprotected.",
        ..NOT_YET
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
        ..NOT_YET
    },
    ConfigOption {
        name: "slot-migration-max-failover-repl-bytes",
        kind: memory(0, i64::MAX),
        default: "0",
        doc: "How far a slot's target may lag for its failover to begin.",
        ..NOT_YET
    },
];
