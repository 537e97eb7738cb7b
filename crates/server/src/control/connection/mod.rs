//! The connection family: PING, ECHO, SELECT, HELLO, AUTH, CLIENT and their kin.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`.

mod basic;

use super::ControlCommand;

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[&basic::PING];
