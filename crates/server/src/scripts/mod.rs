//! Lua scripts and functions: the cache of all that EVAL and SCRIPT LOAD brought, the libraries,
//! and how one of them runs as a unit.
//!
//! A script runs under the locks of its declared keys. When it touches another key, all it did is
//! undone, the union is locked, and it runs again with the same time and the same random numbers;
//! when it takes long, it begins again on a heavy-work thread.
//!
//! Invariant: an interpreter stays with its thread and is not there while it runs, so after a panic
//! the next script finds a new one.

mod accounting;
mod alone;
mod cache;
mod cost_history;
pub(crate) mod declared;
pub(crate) mod eval;
mod fcall;
pub(crate) mod interpreter;
mod interpreters;
pub(crate) mod libraries;
pub(crate) mod library_changes;
mod load;
mod run;
mod running;
pub(crate) mod script_host;
pub(crate) mod state;

pub use alone::check_library;
pub(crate) use alone::said_of;
pub(crate) use interpreter::{collect_garbage, drop_stale, tend};
pub(crate) use libraries::{State as LibrariesState, Still};
pub(crate) use library_changes::replay;

use crate::unit::UnitCommand;

/// Those that run as a unit.
pub(crate) const COMMANDS: [&[&UnitCommand]; 2] = [eval::COMMANDS, fcall::COMMANDS];
