//! ACL: users, their rules, and what was denied to them.
//!
//! Invariant: of a password nothing is ever shown but its digest.

mod files;
mod log;
mod shared;
mod users;

use base::quote::shown;
use commands::arguments::integer;
use commands::categories;
use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use keyspace::Refusal;
use proto::{Args, Reply};

use super::context::{Context, ControlCommand, ControlOutcome};
use super::help::{self, container};

use shared::{at_most, quoting};

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[&ACL];

const NOT_SO_MANY_BITS: Refusal = Refusal::error(
    "ERR ACL GENPASS argument must be the number of bits for the output password, a positive \
     number up to 4096",
);

const ACL: ControlCommand = Command {
    spec: Spec {
        name: "ACL",
        since: "6.0.0",
        group: Group::Server,
        summary: "A container for Access List Control commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..Spec::BASE
    },
    subcommands: &[
        CAT,
        users::DELUSER,
        users::DRYRUN,
        GENPASS,
        users::GETUSER,
        HELP,
        users::LIST,
        files::LOAD,
        log::LOG,
        files::SAVE,
        users::SETUSER,
        users::USERS,
        WHOAMI,
    ],
    run: container,
};

const HELP: ControlCommand = help::subcommand(Group::Server, "6.0.0", print_help);

fn print_help(
    _: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    help::help(reply, "ACL", HELP_LINES);
    Ok(ControlOutcome::Done)
}

const HELP_LINES: &[&str] = &[
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
];

const CAT: ControlCommand = Command {
    spec: Spec {
        name: "CAT",
        since: "6.0.0",
        group: Group::Server,
        syntax: "[category]",
        summary: "Lists the ACL categories, or the commands inside a category.",
        complexity: "O(1) since the categories and commands are a fixed set.",
        arity: at_least(2),
        flags: Flags::NOSCRIPT
            .and(Flags::LOADING)
            .and(Flags::STALE)
            .and(Flags::IDEMPOTENT)
            .and(Flags::CHANGES_NOTHING),
        ..Spec::BASE
    },
    subcommands: &[],
    run: cat,
};

fn cat(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let Some(category) = args.get(2) else {
        reply.array(categories::ALL.len());
        categories::ALL.iter().for_each(|name| reply.bulk(&name.as_bytes()[1..]));
        return Ok(ControlOutcome::Done);
    };
    at_most(args, 3)?;
    let Some(names) = context.server.access.users.catalogue().names_in(category) else {
        return Err(quoting("Unknown category", shown(category, 128), ""));
    };
    let names: Vec<&str> = names.collect();
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(ControlOutcome::Done)
}

const GENPASS: ControlCommand = Command {
    spec: Spec {
        name: "GENPASS",
        since: "6.0.0",
        group: Group::Server,
        syntax: "[bits]",
        summary: "Generates a pseudorandom, secure password that can be used to identify ACL \
         users.",
        complexity: "O(1)",
        arity: at_least(2),
        flags: Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE).and(Flags::IDEMPOTENT),
        ..Spec::BASE
    },
    subcommands: &[],
    run: genpass,
};

fn genpass(
    _: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    const MOST_BITS: usize = 4096;
    at_most(args, 3)?;
    let bits = if args.len() == 3 { integer(args, 2)? } else { 256 };
    let bits = usize::try_from(bits).ok().filter(|bits| (1..=MOST_BITS).contains(bits));
    let digits = bits.ok_or(NOT_SO_MANY_BITS)?.div_ceil(4);
    let mut random = [0; MOST_BITS / 8];
    let flags = rustix::rand::GetRandomFlags::empty();
    let filled = rustix::rand::getrandom(&mut random[..digits.div_ceil(2)], flags);
    if filled != Ok(digits.div_ceil(2)) {
        return Err(Refusal::error("ERR The system has no randomness to give"));
    }
    let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    reply.bulk(&text.as_bytes()[..digits]);
    Ok(ControlOutcome::Done)
}

const WHOAMI: ControlCommand = Command {
    spec: Spec {
        name: "WHOAMI",
        since: "6.0.0",
        group: Group::Server,
        summary: "Returns the authenticated username of the current connection.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::NOSCRIPT
            .and(Flags::LOADING)
            .and(Flags::STALE)
            .and(Flags::IDEMPOTENT)
            .and(Flags::CHANGES_NOTHING),
        ..Spec::BASE
    },
    subcommands: &[],
    run: whoami,
};

fn whoami(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    reply.bulk(context.session()?.client.names().user());
    Ok(ControlOutcome::Done)
}
