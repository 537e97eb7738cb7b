//! Control commands: those that steer sessions, the server and its administration.
//!
//! They are declared like data commands and live here because they know sessions and the server.
//!
//! Invariant: a control handler touches no key; what concerns data goes through a `Tx` like
//! everything else.

pub(crate) mod acl;
pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod context;
pub(crate) mod fieldsets;
pub(crate) mod help;
pub(crate) mod module;
pub(crate) mod pubsub;
pub(crate) mod replication;
pub(crate) mod server;

use context::ControlCommand;

/// All families of control commands.
pub(crate) const FAMILIES: &[&[&ControlCommand]] = &[
    acl::COMMANDS,
    cluster::COMMANDS,
    connection::COMMANDS,
    fieldsets::COMMANDS,
    module::COMMANDS,
    pubsub::COMMANDS,
    replication::COMMANDS,
    server::COMMANDS,
    crate::scripts::CONTROL_COMMANDS[0],
    crate::scripts::CONTROL_COMMANDS[1],
    crate::unit::CONTROL_COMMANDS,
];
