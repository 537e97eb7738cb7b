//! What the server knows of scripts: their cache, the libraries, and which of them run.
//!
//! Invariant: it is state alone; nothing here runs a script.

use std::sync::atomic::AtomicBool;

use super::cache::Cache;
use super::interpreters::Interpreters;
use super::libraries::Libraries;
use super::running::Underway;

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
