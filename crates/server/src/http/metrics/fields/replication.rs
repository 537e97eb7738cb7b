//! The metrics of the sections Replication, CPU and Cluster, and of a load under way.
//!
//! Invariant: the order is that of INFO.

use super::Reading::{Counter, Gauge, Is, IsNot};
use super::{FieldMetric, field};

pub(super) const FIELDS: &[FieldMetric] = &[
    field("role", "is_primary", Is("master"), "Whether the server is a primary."),
    field("connected_slaves", "connected_replicas", Gauge(1.0), "Replicas that are connected."),
    field(
        "min_slaves_good_slaves",
        "good_replicas",
        Gauge(1.0),
        "Replicas as near as min-replicas-max-lag asks.",
    ),
    field(
        "master_failover_state",
        "failover_in_progress",
        IsNot("no-failover"),
        "Whether a FAILOVER is under way.",
    ),
    field(
        "master_repl_offset",
        "replication_offset_bytes",
        Gauge(1.0),
        "The offset of the stream.",
    ),
    field(
        "second_repl_offset",
        "replication_second_offset_bytes",
        Gauge(1.0),
        "Up to where the second id holds; -1 if there is none.",
    ),
    field(
        "repl_backlog_active",
        "replication_backlog_active",
        Gauge(1.0),
        "Whether there is a backlog.",
    ),
    field("repl_backlog_size", "replication_backlog_limit_bytes", Gauge(1.0), "repl-backlog-size."),
    field(
        "repl_backlog_first_byte_offset",
        "replication_backlog_first_offset_bytes",
        Gauge(1.0),
        "The first offset in the backlog.",
    ),
    field(
        "repl_backlog_histlen",
        "replication_backlog_bytes",
        Gauge(1.0),
        "How much the backlog holds.",
    ),
    field(
        "master_link_status",
        "primary_link_up",
        Is("up"),
        "Whether the link to the primary is up.",
    ),
    field(
        "master_last_io_seconds_ago",
        "primary_last_io_seconds",
        Gauge(1.0),
        "How long ago the primary sent something; -1 if it never did.",
    ),
    field(
        "master_sync_in_progress",
        "primary_sync_in_progress",
        Gauge(1.0),
        "Whether a full sync runs.",
    ),
    field(
        "slave_read_repl_offset",
        "replica_read_offset_bytes",
        Gauge(1.0),
        "The offset up to which the stream was read.",
    ),
    field(
        "slave_repl_offset",
        "replica_applied_offset_bytes",
        Gauge(1.0),
        "The offset up to which it is applied.",
    ),
    field("slave_priority", "replica_priority", Gauge(1.0), "replica-priority."),
    field("slave_read_only", "replica_read_only", Gauge(1.0), "replica-read-only."),
    field("replica_announced", "replica_announced", Gauge(1.0), "replica-announced."),
    field(
        "master_link_down_since_seconds",
        "primary_link_down_seconds",
        Gauge(1.0),
        "For how long the link has been down; -1 if it never was up.",
    ),
    field(
        "master_link_up_since_seconds",
        "primary_link_up_seconds",
        Gauge(1.0),
        "For how long the link has been up.",
    ),
    field(
        "total_disconnect_time_sec",
        "primary_disconnected_seconds",
        Gauge(1.0),
        "For how long there was no link, all in all.",
    ),
    field(
        "master_current_sync_attempts",
        "primary_sync_attempts_current",
        Counter(1.0),
        "Attempts to sync since the link was up.",
    ),
    field("master_total_sync_attempts", "primary_sync_attempts", Counter(1.0), "Attempts to sync."),
    field(
        "master_sync_total_bytes",
        "primary_sync_expected_bytes",
        Gauge(1.0),
        "The size of the snapshot that is being received.",
    ),
    field(
        "master_sync_read_bytes",
        "primary_sync_received_bytes",
        Gauge(1.0),
        "What has come of it.",
    ),
    field("master_sync_left_bytes", "primary_sync_left_bytes", Gauge(1.0), "What is to come."),
    field("master_sync_perc", "primary_sync_progress_percent", Gauge(1.0), "How far that is."),
    field(
        "master_sync_last_io_seconds_ago",
        "primary_sync_last_io_seconds",
        Gauge(1.0),
        "How long ago something of it came.",
    ),
    field(
        "used_cpu_sys",
        "cpu_system_seconds",
        Counter(1.0),
        "CPU time of the process in the kernel.",
    ),
    field(
        "used_cpu_user",
        "cpu_user_seconds",
        Counter(1.0),
        "CPU time of the process in user mode.",
    ),
    field(
        "used_cpu_sys_children",
        "cpu_system_children_seconds",
        Counter(1.0),
        "CPU time of children in the kernel.",
    ),
    field(
        "used_cpu_user_children",
        "cpu_user_children_seconds",
        Counter(1.0),
        "CPU time of children in user mode.",
    ),
    field(
        "used_cpu_sys_main_thread",
        "cpu_system_main_thread_seconds",
        Counter(1.0),
        "CPU time of the main thread in the kernel.",
    ),
    field(
        "used_cpu_user_main_thread",
        "cpu_user_main_thread_seconds",
        Counter(1.0),
        "CPU time of the main thread in user mode.",
    ),
    field("cluster_enabled", "cluster_enabled", Gauge(1.0), "Whether this is a node of a cluster."),
    field(
        "loading_start_time",
        "loading_start_timestamp_seconds",
        Gauge(1.0),
        "When loading began.",
    ),
    field(
        "loading_total_bytes",
        "loading_expected_bytes",
        Gauge(1.0),
        "The size of what is loaded.",
    ),
    field("loading_loaded_bytes", "loading_loaded_bytes", Gauge(1.0), "What is loaded of it."),
    field("loading_loaded_perc", "loading_progress_percent", Gauge(1.0), "How far that is."),
    field(
        "loading_eta_seconds",
        "loading_left_seconds",
        Gauge(1.0),
        "How long it will take, as it looks.",
    ),
];
