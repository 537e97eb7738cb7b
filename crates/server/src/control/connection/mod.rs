//! The connection family: PING, ECHO, SELECT, HELLO, AUTH, CLIENT and their kin.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`.

mod basic;
mod client;
mod login;
mod names;

use commands::declare::Flags;

use super::ControlCommand;

pub(crate) use client::describe;
pub(crate) use login::{Login, same_digest, verify};

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

/// Of commands that begin and end a connection: they run whatever state client and server are in.
const AT_ANY_TIME: Flags = Flags::NOSCRIPT
    .and(Flags::LOADING)
    .and(Flags::STALE)
    .and(Flags::FAST)
    .and(Flags::NO_AUTH)
    .and(Flags::ALLOW_BUSY);
