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
pub mod eval;
mod fcall;
pub mod interpreter;
pub mod library_changes;
mod library_check;
mod load;
mod run;
pub mod script_host;

pub use crate::limits::scripts::libraries::{LibrariesState, LibraryFreeze};
pub use interpreter::tick;
pub use library_changes::replay;
pub use library_check::check_library;
pub use library_check::said_of;

use crate::runtime::background::BetweenJobs;
use crate::transaction::unit::UnitCommand;

/// What a background thread does with its interpreter between jobs.
pub const BETWEEN_JOBS: BetweenJobs =
    BetweenJobs { tidy_up: interpreter::collect_garbage, drop_stale: interpreter::drop_stale };

/// Those that run as a unit.
pub const COMMANDS: [&[&UnitCommand]; 2] = [eval::COMMANDS, fcall::COMMANDS];
