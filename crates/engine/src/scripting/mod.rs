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
pub mod eval;
mod fcall;
pub mod interpreter;
pub mod library_changes;
mod load;
mod run;
pub mod script_host;

pub use crate::limits::scripts::libraries::{LibrariesState, Still};
pub use alone::check_library;
pub use alone::said_of;
pub use interpreter::tick;
pub use library_changes::replay;

use crate::runtime::background::BetweenJobs;
use crate::transaction::unit::UnitCommand;

/// What a background thread does with its interpreter between jobs.
pub const BETWEEN_JOBS: BetweenJobs =
    BetweenJobs { tidy_up: interpreter::collect_garbage, drop_stale: interpreter::drop_stale };

/// Those that run as a unit.
pub const COMMANDS: [&[&UnitCommand]; 2] = [eval::COMMANDS, fcall::COMMANDS];
