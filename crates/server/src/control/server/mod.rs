//! The server family: what administrators and clients ask about the server itself.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`.

mod config;
mod debug;
mod latency;
mod latency_report;
pub(crate) mod memory;

use super::ControlCommand;

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] =
    &[&config::CONFIG, &debug::DEBUG, &latency::LATENCY, &memory::MEMORY];
