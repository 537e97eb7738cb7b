//! Lua scripts and functions: the cache of all that EVAL and SCRIPT LOAD brought, the libraries,
//! and how one of them runs as a unit.
//!
//! A script runs under the locks of its declared keys. When it touches another key, all it did is
//! undone, the union is locked, and it runs again with the same time and the same random numbers;
//! when it takes long, it begins again on a heavy-work thread.
//!
//! Invariant: an interpreter stays with its thread and is not there while it runs, so after a panic
//! the next script finds a new one.

mod books;
mod brevity;
mod cache;
mod caller;
mod control;
mod eval;
mod fcall;
mod function;
mod libraries;
mod run;
mod running;

use std::sync::atomic::AtomicBool;

pub(crate) use cache::Cache;
pub(crate) use function::{busy_since_us, replay};
pub(crate) use libraries::{Libraries, State as LibrariesState};
pub(crate) use run::Interpreters;
pub(crate) use running::Underway;

use crate::control::ControlCommand;
use crate::unit::UnitCommand;

/// Those that run as a unit.
pub(crate) const COMMANDS: [&[&UnitCommand]; 2] = [eval::COMMANDS, fcall::COMMANDS];

/// Those that see to what can be run.
pub(crate) const CONTROL_COMMANDS: [&[&ControlCommand]; 2] =
    [control::COMMANDS, function::COMMANDS];

/// The stack of a thread that runs scripts: their formats nest a thousand deep. What is not used
/// takes no memory.
pub(crate) const STACK_BYTES: usize = 8 << 20;

/// What the server knows of scripts.
#[derive(Default)]
pub(crate) struct Scripts {
    pub(crate) cache: Cache,
    pub(crate) libraries: Libraries,
    pub(crate) interpreters: Interpreters,
    /// Those that could be killed.
    pub(crate) underway: Underway,
    /// Whether they may call what is denied to scripts (`DEBUG SET-DISABLE-DENY-SCRIPTS`).
    pub(crate) may_call_denied: AtomicBool,
}
