//! The string family.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`.

mod get;

use crate::DataCommand;

/// All commands of the family.
pub const COMMANDS: &[&DataCommand] = &[&get::GET, &get::GETDEL];
