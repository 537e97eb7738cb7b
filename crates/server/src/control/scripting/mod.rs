//! SCRIPT and FUNCTION: the commands that see to what can be run.
//!
//! Invariant: a family lists its commands; nothing else is here.

mod function;
mod script;

use super::context::ControlCommand;

/// All commands of the family.
pub(crate) const COMMANDS: [&[&ControlCommand]; 2] = [script::COMMANDS, function::COMMANDS];
