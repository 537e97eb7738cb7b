//! ACL, with the one user there is: `default`, who may do everything.
//!
//! Invariant: no rule is accepted that would not be enforced.

use commands::arguments::{integer, is};
use commands::categories;
use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use commands::errors::{showing, shown, wrong_arity};
use keyspace::Refusal;
use proto::{Args, Reply};
use sha2::{Digest, Sha256};

use super::connection::DEFAULT_USER;
use super::help::{self, container};
use super::{Context, ControlCommand, Next};
use crate::config::settings::REQUIREPASS;
use crate::server::Server;
use crate::table::Entry;

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[&ACL];

/// What reads or changes the users.
const OF_USERS: Spec = Spec {
    group: Group::Server,
    flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::LOADING).and(Flags::STALE),
    ..Spec::BASE
};

const NO_FILE: Refusal = Refusal::error(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users \
     via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis \
     configuration file set) in order to store users in the Redis configuration.",
);

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
        CAT, DELUSER, DRYRUN, GENPASS, GETUSER, HELP, LIST, FILE_LOAD, LOG, FILE_SAVE, SETUSER,
        USERS, WHOAMI,
    ],
    run: container,
};

const HELP: ControlCommand = help::subcommand(Group::Server, "6.0.0", print_help);

fn print_help(_: &mut Context<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    help::help(reply, "ACL", HELP_LINES);
    Ok(Next::Done)
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
        flags: Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE),
        ..Spec::BASE
    },
    subcommands: &[],
    run: cat,
};

fn cat(context: &mut Context<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    let Some(category) = args.get(2) else {
        reply.array(categories::ALL.len());
        categories::ALL.iter().for_each(|name| reply.bulk(&name.as_bytes()[1..]));
        return Ok(Next::Done);
    };
    at_most(args, 3)?;
    let Some(category) = categories::ALL.into_iter().find(|name| is(category, &name[1..])) else {
        return Err(quoting("Unknown category", shown(category, 128), ""));
    };
    let entries = context.server.table.entries().iter().flat_map(Entry::family);
    let is_in = |entry: &&Entry| {
        categories::of(entry.spec, !entry.subcommands.is_empty()).any(|name| name == category)
    };
    let found: Vec<&Entry> = entries.filter(is_in).collect();
    reply.array(found.len());
    found.iter().for_each(|entry| reply.bulk(entry.full_name.as_bytes()));
    Ok(Next::Done)
}

const DELUSER: ControlCommand = Command {
    spec: Spec {
        name: "DELUSER",
        since: "6.0.0",
        syntax: "username [username ...]",
        summary: "Deletes ACL users, and terminates their connections.",
        complexity: "O(1) amortized time considering the typical user.",
        arity: at_least(3),
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..OF_USERS
    },
    subcommands: &[],
    run: deluser,
};

fn deluser(_: &mut Context<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    if args.skip(2).iter().any(|user| user == DEFAULT_USER) {
        return Err(Refusal::error("ERR The 'default' user cannot be removed"));
    }
    // Nobody else exists.
    reply.integer(0);
    Ok(Next::Done)
}

const DRYRUN: ControlCommand = Command {
    spec: Spec {
        name: "DRYRUN",
        since: "7.0.0",
        syntax: "username command [arg [arg ...]]",
        summary: "Simulates the execution of a command by a user, without executing the command.",
        complexity: "O(1).",
        arity: at_least(4),
        ..OF_USERS
    },
    subcommands: &[],
    run: dryrun,
};

fn dryrun(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    if &args[2] != DEFAULT_USER {
        return Err(quoting("User", &args[2], " not found"));
    }
    let Ok(entry) = context.server.table.resolve(args.skip(3)) else {
        return Err(quoting("Command", &args[3], " not found"));
    };
    if !entry.spec.arity.admits(args.len() - 3) {
        return Err(wrong_arity(&entry.full_name));
    }
    reply.ok();
    Ok(Next::Done)
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
        flags: Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE),
        ..Spec::BASE
    },
    subcommands: &[],
    run: genpass,
};

fn genpass(_: &mut Context<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
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
    reply.bulk(&hexadecimal(&random).as_bytes()[..digits]);
    Ok(Next::Done)
}

const GETUSER: ControlCommand = Command {
    spec: Spec {
        name: "GETUSER",
        since: "6.0.0",
        syntax: "username",
        summary: "Lists the ACL rules of a user.",
        complexity: "O(N). Where N is the number of password, command and pattern rules that the \
         user has.",
        arity: exactly(3),
        history: &[
            ("6.2.0", "Added Pub/Sub channel patterns."),
            (
                "7.0.0",
                "Added selectors and changed the format of key and channel patterns from a list \
                 to their rule representation.",
            ),
        ],
        ..OF_USERS
    },
    subcommands: &[],
    run: getuser,
};

fn getuser(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    if &args[2] != DEFAULT_USER {
        reply.null();
        return Ok(Next::Done);
    }
    let digest = password_digest(context.server);
    reply.map(6);
    reply.bulk(b"flags");
    let flags: &[&str] = match &digest {
        None => &["on", "nopass", "sanitize-payload"],
        Some(_) => &["on", "sanitize-payload"],
    };
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(usize::from(digest.is_some()));
    digest.iter().for_each(|digest| reply.bulk(digest.as_bytes()));
    for (what, rules) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*")] {
        reply.bulk(what.as_bytes());
        reply.bulk(rules.as_bytes());
    }
    reply.bulk(b"selectors");
    reply.array(0);
    Ok(Next::Done)
}

const LIST: ControlCommand = Command {
    spec: Spec {
        name: "LIST",
        since: "6.0.0",
        summary: "Dumps the effective rules in ACL file format.",
        complexity: "O(N). Where N is the number of configured users.",
        arity: exactly(2),
        ..OF_USERS
    },
    subcommands: &[],
    run: list,
};

fn list(context: &mut Context<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    let password = match password_digest(context.server) {
        None => "nopass sanitize-payload".to_owned(),
        Some(digest) => format!("sanitize-payload #{digest}"),
    };
    reply.array(1);
    reply.bulk(format!("user default on {password} ~* &* +@all").as_bytes());
    Ok(Next::Done)
}

const FILE_LOAD: ControlCommand = Command {
    spec: Spec {
        name: "LOAD",
        since: "6.0.0",
        summary: "Reloads the rules from the configured ACL file.",
        complexity: "O(N). Where N is the number of configured users.",
        arity: exactly(2),
        ..OF_USERS
    },
    subcommands: &[],
    run: no_file,
};

const FILE_SAVE: ControlCommand = Command {
    spec: Spec {
        name: "SAVE",
        since: "6.0.0",
        summary: "Saves the effective ACL rules in the configured ACL file.",
        complexity: "O(N). Where N is the number of configured users.",
        arity: exactly(2),
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..OF_USERS
    },
    subcommands: &[],
    run: no_file,
};

fn no_file(_: &mut Context<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<Next, Refusal> {
    Err(NO_FILE)
}

const LOG: ControlCommand = Command {
    spec: Spec {
        name: "LOG",
        since: "6.0.0",
        syntax: "[count | RESET]",
        summary: "Lists recent security events generated due to ACL rules.",
        complexity: "O(N) with N being the number of entries shown.",
        arity: at_least(2),
        history: &[("7.2.0", "Added entry ID, timestamp created, and timestamp last updated.")],
        ..OF_USERS
    },
    subcommands: &[],
    run: log,
};

fn log(_: &mut Context<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    match args.get(2) {
        Some(word) if is(word, "RESET") => reply.ok(),
        _ => return Err(Refusal::error("ERR ACL LOG is not supported yet")),
    }
    Ok(Next::Done)
}

const SETUSER: ControlCommand = Command {
    spec: Spec {
        name: "SETUSER",
        since: "6.0.0",
        syntax: "username [rule [rule ...]]",
        summary: "Creates and modifies an ACL user and its rules.",
        complexity: "O(N). Where N is the number of rules provided.",
        arity: at_least(3),
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        history: &[
            ("6.2.0", "Added Pub/Sub channel patterns."),
            ("7.0.0", "Added selectors and key based permissions."),
        ],
        ..OF_USERS
    },
    subcommands: &[],
    run: setuser,
};

fn setuser(_: &mut Context<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<Next, Refusal> {
    Err(Refusal::error("ERR ACL SETUSER is not supported yet: 'default' is the only user"))
}

const USERS: ControlCommand = Command {
    spec: Spec {
        name: "USERS",
        since: "6.0.0",
        summary: "Lists all ACL users.",
        complexity: "O(N). Where N is the number of configured users.",
        arity: exactly(2),
        ..OF_USERS
    },
    subcommands: &[],
    run: users,
};

fn users(_: &mut Context<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    reply.array(1);
    reply.bulk(DEFAULT_USER);
    Ok(Next::Done)
}

const WHOAMI: ControlCommand = Command {
    spec: Spec {
        name: "WHOAMI",
        since: "6.0.0",
        group: Group::Server,
        summary: "Returns the authenticated username of the current connection.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE),
        ..Spec::BASE
    },
    subcommands: &[],
    run: whoami,
};

fn whoami(_: &mut Context<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    reply.bulk(DEFAULT_USER);
    Ok(Next::Done)
}

/// Passwords are shown as digests only.
fn password_digest(server: &Server) -> Option<String> {
    let password = server.config.get(REQUIREPASS);
    (!password.is_empty()).then(|| hexadecimal(&Sha256::digest(&password)))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn at_most(args: Args<'_>, count: usize) -> Result<(), Refusal> {
    if args.len() <= count { Ok(()) } else { Err(help::misused("ACL", &args[1])) }
}

fn quoting(before: &str, word: &[u8], after: &str) -> Refusal {
    showing(&format!("ERR {before} '"), shown(word, usize::MAX), &format!("'{after}"))
}
