//! Data commands that need more than `commands` may know.
//!
//! Invariant: they are declared and run like all others; only their place is here.

mod dump;
pub mod item;
mod stick;

use commands::DataCommand;

/// All commands of these files.
pub const COMMANDS: &[&DataCommand] =
    &[&dump::DUMP, &dump::RESTORE, &dump::RESTORE_ASKING, &stick::STICK, &stick::UNSTICK];

/// Data commands that stand below containers of other kinds, each with the name of its container.
pub const SUBCOMMANDS: &[(&str, &DataCommand)] = &[("CLUSTER", &item::SYNCITEM)];
