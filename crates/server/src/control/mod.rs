//! Control commands: those that steer sessions, the server and its administration.
//!
//! The commands are declared like data commands and live here because they know sessions and the
//! server.
//!
//! Invariant: a control handler touches no key; what concerns data goes through a `Tx` like
//! everything else.

pub(crate) mod acl;
pub(crate) mod apply_config;
pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod context;
mod control_plane;
mod delayed_command;
pub(crate) mod fieldsets;
pub(crate) mod help;
pub(crate) mod key_statistics;
pub(crate) mod latency_baseline;
pub(crate) mod module;
pub(crate) mod pubsub;
pub(crate) mod replication;
pub(crate) mod scripting;
pub(crate) mod server;
pub(crate) mod tls_reload;
pub(crate) mod transactions;
pub(crate) mod users;
