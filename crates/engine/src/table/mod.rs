//! The table of commands: names to declarations, requests to keys.
//!
//! Invariant: what runs a command is known by the command's id alone.

pub mod command_table;
pub mod flag_set;
pub mod request_keys;
