//! MODULE: there are none, and none can be loaded.
//!
//! Invariant: what would load code is refused before and after the gate of `enable-module-command`.

use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use keyspace::Refusal;
use proto::{Args, Reply};

use super::context::{Context, ControlCommand, ControlOutcome};
use super::help::{self, container};

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[&MODULE];

const LOADS: Spec = Spec {
    group: Group::Server,
    flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::NO_ASYNC_LOADING).and(Flags::PROTECTED),
    ..Spec::BASE
};

const MODULE: ControlCommand = Command {
    spec: Spec {
        name: "MODULE",
        since: "4.0.0",
        group: Group::Server,
        summary: "A container for module commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..Spec::BASE
    },
    subcommands: &[
        HELP,
        LIST,
        refused(Spec {
            name: "LOAD",
            since: "4.0.0",
            syntax: "path [arg [arg ...]]",
            summary: "Loads a module.",
            complexity: "O(1)",
            arity: at_least(3),
            ..LOADS
        }),
        refused(Spec {
            name: "LOADEX",
            since: "7.0.0",
            syntax: "path [CONFIG name value [CONFIG name value ...]] [ARGS args [args ...]]",
            summary: "Loads a module using extended parameters.",
            complexity: "O(1)",
            arity: at_least(3),
            ..LOADS
        }),
        refused(Spec {
            name: "UNLOAD",
            since: "4.0.0",
            syntax: "name",
            summary: "Unloads a module.",
            complexity: "O(1)",
            arity: exactly(3),
            ..LOADS
        }),
    ],
    run: container,
};

const HELP: ControlCommand = help::subcommand(Group::Server, "5.0.0", print_help);

fn print_help(
    _: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    help::help(reply, "MODULE", HELP_LINES);
    Ok(ControlOutcome::Done)
}

const HELP_LINES: &[&str] = &[
    "LIST",
    "    Return a list of loaded modules.",
    "LOAD <path> [<arg> ...]",
    "    Load a module library from <path>, passing to it any optional arguments.",
    "LOADEX <path> [[CONFIG NAME VALUE] [CONFIG NAME VALUE]] [ARGS ...]",
    "    Load a module library from <path>, while passing it module configurations and optional \
     arguments.",
    "UNLOAD <name>",
    "    Unload a module.",
];

const LIST: ControlCommand = Command {
    spec: Spec {
        name: "LIST",
        since: "4.0.0",
        group: Group::Server,
        summary: "Returns all loaded modules.",
        complexity: "O(N) where N is the number of loaded modules.",
        arity: exactly(2),
        flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::CHANGES_NOTHING),
        tips: &["nondeterministic_output_order"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: list,
};

fn list(
    _: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    reply.array(0);
    Ok(ControlOutcome::Done)
}

const fn refused(spec: Spec) -> ControlCommand {
    Command { spec, subcommands: &[], run: refuse }
}

fn refuse(_: &mut Context<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<ControlOutcome, Refusal> {
    Err(Refusal::error("ERR Modules are not supported"))
}
