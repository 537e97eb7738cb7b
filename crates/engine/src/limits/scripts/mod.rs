//! The state of scripts: the cache, the libraries, the interpreters, what runs.
//!
//! Invariant: nothing here runs a script.

pub mod cache;
pub mod cost_history;
pub mod interpreters;
pub mod libraries;
pub mod running;
pub mod state;
