//! The connection family: PING, ECHO, SELECT, HELLO, AUTH, CLIENT and their kin.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`.

mod basic;
mod client;
mod flags;
mod login;
mod names;

use super::context::ControlCommand;

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[
    &login::AUTH,
    &client::CLIENT,
    &basic::ECHO,
    &login::HELLO,
    &basic::PING,
    &basic::QUIT,
    &basic::RESET,
    &basic::SELECT,
];
