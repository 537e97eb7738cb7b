//! A command that ran, in the words in which all are told of it that count, time or log commands.
//!
//! Invariant: whichever way a command ran, one of these is made of it; what looks on has no other
//! source.

use proto::Args;

use crate::table::command_table::CommandEntry;

/// A command that ran, and what it cost.
#[derive(Clone, Copy)]
pub struct Execution<'a> {
    /// The command.
    pub entry: &'static CommandEntry,
    /// The request.
    pub args: Args<'a>,
    /// How long a thread was busy with the command.
    pub micros: u64,
    /// The length of its reply; 0 where nobody is replied.
    pub reply_bytes: u64,
}
