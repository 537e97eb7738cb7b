//! COMMAND: what the server can do, told from the declarations.
//!
//! Invariant: nothing here knows a command by name, but for COMMAND itself.

mod docs;
mod get_keys;
mod info;
mod list;
mod syntax;

use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use engine::table::command_table::CommandEntry;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome, by_size};
use crate::control::help;

/// What all of the family share.
const BASE: Spec = Spec {
    group: Group::Server,
    flags: Flags::LOADING.and(Flags::STALE).and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
    categories: &["@connection"],
    ..Spec::BASE
};

pub(super) const COMMAND: ControlCommand = Command {
    spec: Spec {
        name: "COMMAND",
        since: "2.8.13",
        summary: "Returns detailed information about all commands.",
        complexity: "O(N) where N is the total number of Redis commands",
        arity: at_least(1),
        tips: &["nondeterministic_output_order"],
        ..BASE
    },
    subcommands: &[COUNT, DOCS, GETKEYS, GETKEYSANDFLAGS, HELP, INFO, LIST],
    run: info_of_all,
};

const COUNT: ControlCommand = Command {
    spec: Spec {
        name: "COUNT",
        since: "2.8.13",
        summary: "Returns a count of commands.",
        complexity: "O(1)",
        arity: exactly(2),
        ..BASE
    },
    subcommands: &[],
    run: |context, _, reply| {
        reply.integer(i64::try_from(context.server.table.entries().len()).unwrap_or(i64::MAX));
        Ok(ControlOutcome::Done)
    },
};

const DOCS: ControlCommand = Command {
    spec: Spec {
        name: "DOCS",
        since: "7.0.0",
        syntax: "[command-name [command-name ...]]",
        summary: "Returns documentary information about one, multiple or all commands.",
        complexity: "O(N) where N is the number of commands to look up",
        arity: at_least(2),
        tips: &["nondeterministic_output_order"],
        ..BASE
    },
    subcommands: &[],
    run: docs,
};

const GETKEYS: ControlCommand = Command {
    spec: Spec {
        name: "GETKEYS",
        since: "2.8.13",
        syntax: "command [arg [arg ...]]",
        summary: "Extracts the key names from an arbitrary command.",
        complexity: "O(N) where N is the number of arguments to the command",
        arity: at_least(3),
        ..BASE
    },
    subcommands: &[],
    run: get_keys::get_keys,
};

const GETKEYSANDFLAGS: ControlCommand = Command {
    spec: Spec {
        name: "GETKEYSANDFLAGS",
        since: "7.0.0",
        syntax: "command [arg [arg ...]]",
        summary: "Extracts the key names and access flags for an arbitrary command.",
        complexity: "O(N) where N is the number of arguments to the command",
        arity: at_least(3),
        ..BASE
    },
    subcommands: &[],
    run: get_keys::get_keys_and_flags,
};

const HELP: ControlCommand = {
    let help = help::subcommand(Group::Server, "5.0.0", |_, _, reply| {
        help::help(reply, "COMMAND", HELP_LINES);
        Ok(ControlOutcome::Done)
    });
    Command { spec: Spec { categories: BASE.categories, ..help.spec }, ..help }
};

const INFO: ControlCommand = Command {
    spec: Spec {
        name: "INFO",
        since: "2.8.13",
        syntax: "[command-name [command-name ...]]",
        summary: "Returns information about one, multiple or all commands.",
        complexity: "O(N) where N is the number of commands to look up",
        arity: at_least(2),
        tips: &["nondeterministic_output_order"],
        history: &[("7.0.0", "Allowed to be called with no argument to get info on all commands.")],
        ..BASE
    },
    subcommands: &[],
    run: info,
};

const LIST: ControlCommand = Command {
    spec: Spec {
        name: "LIST",
        since: "7.0.0",
        syntax: "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
        summary: "Returns a list of command names.",
        complexity: "O(N) where N is the total number of Redis commands",
        arity: at_least(2),
        tips: &["nondeterministic_output_order"],
        ..BASE
    },
    subcommands: &[],
    run: list::list,
};

const HELP_LINES: &[&str] = &[
    "(no subcommand)",
    "    Return details about all Redis commands.",
    "COUNT",
    "    Return the total number of commands in this Redis server.",
    "LIST",
    "    Return a list of all commands in this Redis server.",
    "INFO [<command-name> ...]",
    "    Return details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "GETKEYS <full-command>",
    "    Return the keys from a full Redis command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys and the access flags from a full Redis command.",
];

fn info_of_all(
    context: &mut Context<'_>,
    _args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let entries = context.server.table.entries();
    reply.array(entries.len());
    entries.iter().for_each(|entry| info::write(entry, reply));
    Ok(ControlOutcome::Done)
}

fn info(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    if args.len() == 2 {
        return info_of_all(context, args, reply);
    }
    Ok(by_size(context.server, args, reply, |server, args, reply| {
        reply.array(args.len() - 2);
        for name in args.iter().skip(2) {
            match server.table.find_full(name) {
                Some(entry) => info::write(entry, reply),
                None => reply.null(),
            }
        }
    }))
}

fn docs(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    Ok(by_size(context.server, args, reply, |server, args, reply| {
        let table = &server.table;
        let found: Vec<&CommandEntry> = match args.len() {
            2 => table.entries().iter().collect(),
            _ => args.iter().skip(2).filter_map(|name| table.find_full(name)).collect(),
        };
        reply.map(found.len());
        found.into_iter().for_each(|entry| docs::write_named(entry, reply));
    }))
}
