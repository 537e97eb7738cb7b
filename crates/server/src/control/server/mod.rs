//! The server family: what administrators and clients ask about the server itself.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`.

mod backup;
mod bgrewriteaof;
mod command;
mod config;
mod debug;
mod delete_prefix;
mod hot_keys;
pub(crate) mod info;
pub(crate) mod key_stats;
mod latency;
mod latency_report;
mod lolwut;
pub(crate) mod memory;
mod migrate;
mod monitor;
pub(crate) mod quota;
mod save;
mod shutdown;
mod slow_log;
mod time;
pub(crate) mod wait;

use super::context::ControlCommand;

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[
    &backup::BACKUP,
    &command::COMMAND,
    &config::CONFIG,
    &debug::DEBUG,
    &delete_prefix::DELPREFIX,
    &hot_keys::HOTKEYS,
    &info::INFO,
    &key_stats::KEYSTATS,
    &latency::LATENCY,
    &lolwut::LOLWUT,
    &memory::MEMORY,
    &migrate::MIGRATE,
    &monitor::MONITOR,
    &quota::QUOTA,
    &bgrewriteaof::BGREWRITEAOF,
    &save::BGSAVE,
    &save::LASTSAVE,
    &save::SAVE,
    &shutdown::SHUTDOWN,
    &slow_log::COMMANDLOG,
    &slow_log::SLOWLOG,
    &time::TIME,
    &wait::WAIT,
    &wait::WAITAOF,
];
