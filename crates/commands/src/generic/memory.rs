//! MEMORY USAGE: what one key takes.
//!
//! Invariant: asking leaves no trace, neither an access nor a hit or a miss.

use keyspace::{Refusal, Tx, usage as usage_of};
use proto::{Args, Reply};

use crate::DataCommand;
use crate::arguments::{Options, is};
use crate::declare::{Command, Flags, Group, Spec, at_least};
use crate::errors::SYNTAX;
use crate::keys::{Access, at};

/// The subcommand USAGE of the container MEMORY, whose others are no data commands.
pub(crate) const USAGE: DataCommand = Command {
    spec: Spec {
        name: "USAGE",
        since: "4.0.0",
        group: Group::Server,
        syntax: "key [SAMPLES count]",
        summary: "Estimates the memory usage of a key.",
        complexity: "O(N) where N is the number of samples.",
        arity: at_least(3),
        flags: Flags::READONLY,
        keys: &[at(2, Access::RO)],
        ..Spec::BASE
    },
    subcommands: &[],
    run: usage,
};

/// No sample is needed for a string, so their number is read and not used.
fn usage(tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let mut options = Options::from(args, 3);
    while let Some(word) = options.word() {
        if !is(word, "SAMPLES") || options.integer()? < 0 {
            return Err(SYNTAX);
        }
    }
    // As in Redis a key whose time is over takes memory until it is removed.
    tx.with_expired(|tx| {
        match tx.peek(&args[2])? {
            Some(entry) => reply.integer(usage_of(entry) as i64),
            None => reply.null(),
        }
        Ok(())
    })
}
