//! What the general allocator holds and nobody uses goes back to the system.
//!
//! A block that one thread allocated and another freed stays with the first until that allocates
//! again; so do large values, which are freed in the background. Where much has lain idle for some
//! time, each thread that makes values is asked to have its allocator look (`budget.rs` says when).
//! What becomes free the allocator keeps for some milliseconds, longer while more does. Beside a
//! limit much would lie idle so, and then it goes back at once.
//!
//! Invariant: a thread gives back once for each time it is asked to, between two batches or jobs.

use crate::lane::Lane;
use crate::limits::budget::PurgeAdvice;
use crate::runtime::allocator::{purge, purge_at_once};
use crate::shared::Shared;

/// Looks at what the system gave, and asks where too much of it lies idle.
pub fn check(server: &Shared, now_us: i64) {
    let Some(PurgeAdvice { purge: is_wanted, at_once }) = server.memory.budget.check(now_us) else {
        return;
    };
    if let Some(at_once) = at_once {
        purge_at_once(at_once);
    }
    if is_wanted {
        ask_all(server);
    }
}

/// Asks the workers and the heavy-work threads.
pub fn ask_all(server: &Shared) {
    server.memory.budget.ask_purge();
    server.threads.background.purge();
}

/// A worker's part.
pub fn step(lane: &Lane) {
    let asked = lane.shared.memory.budget.purges();
    if lane.purged.replace(asked) != asked {
        purge();
    }
}
