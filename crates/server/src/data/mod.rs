//! Data commands that need more than `commands` may know.
//!
//! Invariant: they are declared and run like all others; only their place is here.

mod dump;

pub(crate) use dump::COMMANDS;
