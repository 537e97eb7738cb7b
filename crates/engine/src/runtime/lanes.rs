//! The numbers of the threads that run transactions: each has a lane of its own, and a stack.
//!
//! Invariant: lanes of workers, of heavy-work threads, of loaders and of appliers do not overlap.

use keyspace::{HEAVY_TRANSACTIONS, LANES};

/// The most workers that can be asked for; higher lanes are for other threads.
pub const MAX_WORKERS: usize = 128;

/// The most heavy-work threads of each pool. There is one for each transaction that has leave, and
/// one for a transaction that has the world, which needs none.
pub(crate) const MAX_TRANSACTIONS: usize = HEAVY_TRANSACTIONS + 1;
pub(crate) const MAX_VISITS: usize = 8;
pub(crate) const MAX_JOBS: usize = 8;
const MAX_HEAVY: usize = MAX_TRANSACTIONS + MAX_VISITS + MAX_JOBS;

/// The first lane of the heavy-work threads.
pub(crate) const FIRST_HEAVY_LANE: usize = MAX_WORKERS;

/// The lane of the thread that loads the data at the start. Those behind it are for threads that
/// help it.
pub const LOADER_LANE: usize = FIRST_HEAVY_LANE + MAX_HEAVY;

/// The most threads that help the loader, or the applier.
pub const MAX_HELPERS: usize = 8;

/// The lane of the thread that applies a primary's stream. Those behind it are for threads that
/// help it.
pub const APPLIER_LANE: usize = LOADER_LANE + 1 + MAX_HELPERS;

const _: () = assert!(APPLIER_LANE + MAX_HELPERS < LANES, "each has a lane");

/// The stack of a thread that runs commands: formats of scripts nest a thousand deep. What is not
/// used takes no memory.
pub const STACK_BYTES: usize = 8 << 20;

/// How much a session reads at once.
pub const READ_SIZE: usize = 64 * 1024;
