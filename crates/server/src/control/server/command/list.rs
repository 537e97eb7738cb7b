//! COMMAND LIST: the names of commands, all or those that a filter lets through.
//!
//! Invariant: a filter is asked for every command and for every subcommand.

use base::glob;
use commands::arguments::is;
use commands::categories;
use commands::errors::SYNTAX;
use engine::table::command_table::CommandEntry;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlOutcome};

/// COMMAND LIST.
pub(super) fn list(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let filter = match args.len() {
        2 => CommandFilter::None,
        5 if is(&args[2], "FILTERBY") => CommandFilter::of(&args[3], &args[4])?,
        _ => return Err(SYNTAX),
    };
    let array = reply.defer();
    let mut count = 0;
    for entry in context.server.table.entries().iter().flat_map(CommandEntry::family) {
        if filter.admits(entry) {
            reply.bulk(entry.full_name.as_bytes());
            count += 1;
        }
    }
    reply.finish_array(array, count);
    Ok(ControlOutcome::Done)
}

enum CommandFilter<'a> {
    None,
    /// There are no modules.
    Module,
    Category(&'a [u8]),
    Pattern(&'a [u8]),
}

impl<'a> CommandFilter<'a> {
    fn of(kind: &[u8], value: &'a [u8]) -> Result<Self, Refusal> {
        if is(kind, "MODULE") {
            Ok(Self::Module)
        } else if is(kind, "ACLCAT") {
            Ok(Self::Category(value))
        } else if is(kind, "PATTERN") {
            Ok(Self::Pattern(value))
        } else {
            Err(SYNTAX)
        }
    }

    fn admits(&self, entry: &CommandEntry) -> bool {
        match self {
            Self::None => true,
            Self::Module => false,
            Self::Category(wanted) => categories::of(entry.spec, !entry.subcommands.is_empty())
                .any(|category| category.as_bytes()[1..].eq_ignore_ascii_case(wanted)),
            Self::Pattern(pattern) => glob::matches(pattern, entry.full_name.as_bytes(), true),
        }
    }
}
