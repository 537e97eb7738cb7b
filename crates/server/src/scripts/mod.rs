//! Lua scripts: the cache of all that EVAL and SCRIPT LOAD brought, and how one runs as a unit.
//!
//! A script runs under the locks of its declared keys. When it touches another key, all it did is
//! undone, the union is locked, and it runs again with the same time and the same random numbers;
//! when it takes long, it begins again on a heavy-work thread.
//!
//! Invariant: an interpreter stays with its thread and is not there while it runs, so after a panic
//! the next script finds a new one.

mod cache;
mod caller;
mod control;
mod eval;
mod run;
mod running;

pub(crate) use cache::Cache;
pub(crate) use control::COMMANDS as CONTROL_COMMANDS;
pub(crate) use eval::COMMANDS;
pub(crate) use running::Underway;

/// The stack of a thread that runs scripts: their formats nest a thousand deep. What is not used
/// takes no memory.
pub(crate) const STACK_BYTES: usize = 8 << 20;

/// What the server knows of scripts.
#[derive(Default)]
pub(crate) struct Scripts {
    pub(crate) cache: Cache,
    /// Those that could be killed.
    pub(crate) underway: Underway,
}
