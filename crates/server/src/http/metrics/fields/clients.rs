//! The metrics of the sections Server, Clients and Threads.
//!
//! Invariant: the order is that of INFO.

use super::Reading::Gauge;
use super::{FieldMetric, field};

pub(super) const FIELDS: &[FieldMetric] = &[
    field("uptime_in_seconds", "uptime_seconds", Gauge(1.0), "How long the process has run."),
    field(
        "io_threads_active",
        "io_threads_active",
        Gauge(1.0),
        "Whether several threads serve clients at this moment.",
    ),
    field(
        "connected_clients",
        "connected_clients",
        Gauge(1.0),
        "Clients that are connected, replicas left out.",
    ),
    field(
        "cluster_connections",
        "cluster_connections",
        Gauge(1.0),
        "Connections of the cluster bus.",
    ),
    field("maxclients", "clients_limit", Gauge(1.0), "How many clients may be connected."),
    field(
        "client_recent_max_input_buffer",
        "client_recent_input_buffer_bytes",
        Gauge(1.0),
        "The largest query buffer of the last seconds.",
    ),
    field(
        "client_recent_max_output_buffer",
        "client_recent_output_buffer_bytes",
        Gauge(1.0),
        "The largest output buffer of the last seconds.",
    ),
    field(
        "blocked_clients",
        "blocked_clients",
        Gauge(1.0),
        "Clients that wait in a blocking command.",
    ),
    field("tracking_clients", "tracking_clients", Gauge(1.0), "Clients with CLIENT TRACKING."),
    field("pubsub_clients", "pubsub_clients", Gauge(1.0), "Clients that subscribe."),
    field("watching_clients", "watching_clients", Gauge(1.0), "Clients with keys of WATCH."),
    field(
        "clients_in_timeout_table",
        "clients_in_timeout_table",
        Gauge(1.0),
        "Blocked clients that wait for so long only.",
    ),
    field("total_watched_keys", "watched_keys", Gauge(1.0), "Keys that are watched."),
    field(
        "total_blocking_keys",
        "blocking_keys",
        Gauge(1.0),
        "Keys that blocked clients wait for.",
    ),
    field(
        "total_blocking_keys_on_nokey",
        "blocking_keys_on_nokey",
        Gauge(1.0),
        "Those that clients wait to see deleted, too.",
    ),
];
