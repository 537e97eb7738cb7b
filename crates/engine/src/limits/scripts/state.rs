//! What the server knows of scripts: their cache, the libraries, and which of them run.
//!
//! Invariant: here is state alone; nothing here runs a script.

use std::sync::atomic::AtomicBool;

use crate::limits::scripts::cache::ScriptCache;
use crate::limits::scripts::interpreters::Interpreters;
use crate::limits::scripts::libraries::Libraries;
use crate::limits::scripts::running::RunningScripts;

/// What the server knows of scripts.
#[derive(Default)]
pub struct Scripts {
    /// The scripts of SCRIPT LOAD and EVAL, by their SHA-1.
    pub cache: ScriptCache,
    /// The libraries of FUNCTION LOAD.
    pub libraries: Libraries,
    /// The Lua interpreters of all threads, counted for their memory.
    pub interpreters: Interpreters,
    /// Those that could be killed.
    pub running: RunningScripts,
    /// Whether they may call what is denied to scripts (`DEBUG SET-DISABLE-DENY-SCRIPTS`).
    pub may_call_denied: AtomicBool,
}
