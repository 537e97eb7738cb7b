//! HELP of the containers, and what a container itself answers.
//!
//! Invariant: its form is that of the data commands' HELP.

use base::quote::shown;
use commands::declare::{Command, Flags, Group, Spec, exactly};
use commands::errors::showing;
use commands::text::reply_help;
use keyspace::Refusal;
use proto::{Args, Reply};

use super::context::{Context, ControlCommand, ControlHandler, ControlOutcome};

/// Replies the HELP of a container: a head line, the lines given, then HELP itself.
pub(crate) fn help(reply: &mut Reply<'_>, container: &str, lines: &[&str]) {
    reply_help(container, lines, reply);
}

/// The subcommand HELP of a container.
pub(crate) const fn subcommand(
    group: Group,
    since: &'static str,
    run: ControlHandler,
) -> ControlCommand {
    Command {
        spec: Spec {
            name: "HELP",
            since,
            group,
            summary: "Returns helpful text about the different subcommands.",
            complexity: "O(1)",
            arity: exactly(2),
            flags: Flags::LOADING
                .and(Flags::STALE)
                .and(Flags::IDEMPOTENT)
                .and(Flags::CHANGES_NOTHING),
            ..Spec::BASE
        },
        subcommands: &[],
        run,
    }
}

/// A container without a subcommand; its arity lets no such request through.
pub(crate) fn container(
    context: &mut Context<'_>,
    _args: Args<'_>,
    _reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    Err(commands::errors::wrong_arity(&context.entry.full_name))
}

/// A subcommand with more arguments than it knows.
pub(crate) fn misused(container: &str, subcommand: &[u8]) -> Refusal {
    let before = "ERR unknown subcommand or wrong number of arguments for '";
    showing(before, shown(subcommand, 128), &format!("'. Try {container} HELP."))
}
