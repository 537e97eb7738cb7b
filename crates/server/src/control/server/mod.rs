//! The server family: what administrators and clients ask about the server itself.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`.

use super::ControlCommand;

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[];
