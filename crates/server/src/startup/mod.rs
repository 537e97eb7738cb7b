//! What a process does around serving. Each goes to the background, asks the system for what it
//! needs, tells the service manager, and hears signals.
//!
//! Invariant: nothing here knows a client or a key.

pub(crate) mod crash_report;
pub(crate) mod daemon;
pub(crate) mod leftovers;
pub(crate) mod panic_hook;
pub(crate) mod pid_file;
pub(crate) mod sandbox;
pub(crate) mod signals;
pub(crate) mod supervisor;
mod system_calls;
pub(crate) mod user;
