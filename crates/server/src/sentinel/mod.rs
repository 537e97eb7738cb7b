//! A Sentinel as a process: what drives crate `sentinel`, and the commands that lead to it.
//!
//! Invariant: the driver is one thread; any other that has something for it leaves it a request.

mod commands;
mod driver;
mod file;
mod link;
pub(crate) mod requests;
mod script;
mod start;
mod subcommands;

pub(crate) use commands::COMMANDS;
pub(crate) use file::check;
pub(crate) use start::RunningSentinel;
