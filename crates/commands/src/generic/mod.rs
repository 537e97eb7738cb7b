//! The generic family: commands on keys of any type.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`.

use crate::DataCommand;

/// All commands of the family.
pub const COMMANDS: &[&DataCommand] = &[];
