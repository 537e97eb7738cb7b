//! What the general allocator holds and nobody uses goes back to the system.
//!
//! A block that one thread allocated and another freed stays with the first until that allocates
//! again; so do large values, which are freed in the background. Where much has lain idle for some
//! time, each thread that makes values is asked to have its allocator look (`budget.rs` says when).
//!
//! Invariant: a thread gives back once for each time it is asked to, between two batches or jobs.

use std::sync::OnceLock;

use crate::server::Server;
use crate::worker::Worker;

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Says how the allocator of the process gives back what the calling thread does not use. Without
/// that it never does; what is said later does not count.
pub fn give_back_by(how: fn()) {
    let _ = GIVE_BACK.set(how);
}

/// Looks at what the system gave, and asks where too much of it lies idle.
pub(crate) fn look(server: &Server, now_us: i64) {
    if server.budget.look(now_us) {
        ask(server);
    }
}

/// Asks the workers and the heavy-work threads.
pub(crate) fn ask(server: &Server) {
    server.budget.ask_release();
    server.heavy.release();
}

/// A worker's turn.
pub(crate) fn turn(worker: &Worker) {
    let asked = worker.server.budget.releases();
    if worker.released.replace(asked) != asked {
        give_back();
    }
}

/// Gives back what the calling thread does not use.
pub(crate) fn give_back() {
    if let Some(how) = GIVE_BACK.get() {
        how();
    }
}
