//! SLOWLOG of Redis and COMMANDLOG of Valkey: what the command logs hold.
//!
//! Invariant: SLOWLOG and the type `slow` of COMMANDLOG are the same log.

use base::number::parse_i64;
use commands::arguments::is;
use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use engine::observe::command_log::{CommandLogType, LogEntry};
use keyspace::Refusal;
use proto::Reply;

use super::config::ON_ALL_NODES;
use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::control::help::{self, container, misused};

/// What the subcommands share.
const BASE: Spec = Spec {
    group: Group::Server,
    flags: Flags::ADMIN.and(Flags::LOADING).and(Flags::STALE),
    ..Spec::BASE
};

const GET_TIPS: &[&str] = &["request_policy:all_nodes", "nondeterministic_output"];
const LEN_TIPS: &[&str] =
    &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"];

/// Entries that SLOWLOG GET shows unless told otherwise.
const DEFAULT_COUNT: usize = 10;

pub(super) const SLOWLOG: ControlCommand = Command {
    spec: Spec {
        name: "SLOWLOG",
        since: "2.2.12",
        group: Group::Server,
        summary: "A container for slow log commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..Spec::BASE
    },
    subcommands: &[SLOWLOG_GET, SLOWLOG_HELP, SLOWLOG_LEN, SLOWLOG_RESET],
    run: container,
};

const SLOWLOG_GET: ControlCommand = Command {
    spec: Spec {
        name: "GET",
        since: "2.2.12",
        syntax: "[count]",
        summary: "Returns the slow log's entries.",
        complexity: "O(N) where N is the number of entries returned",
        arity: at_least(2),
        tips: GET_TIPS,
        history: &[("4.0.0", "Added client IP address, port and name to the reply.")],
        flags: BASE.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| {
        let count = match args.len() {
            2 => DEFAULT_COUNT,
            3 => count(&args[2])?,
            _ => return Err(misused("SLOWLOG", &args[1])),
        };
        Ok(show(context, CommandLogType::Slow, count, reply))
    },
};

const SLOWLOG_LEN: ControlCommand = Command {
    spec: Spec {
        name: "LEN",
        since: "2.2.12",
        summary: "Returns the number of entries in the slow log.",
        complexity: "O(1)",
        arity: exactly(2),
        tips: LEN_TIPS,
        flags: BASE.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..BASE
    },
    subcommands: &[],
    run: |context, _, reply| Ok(len(context, CommandLogType::Slow, reply)),
};

const SLOWLOG_RESET: ControlCommand = Command {
    spec: Spec {
        name: "RESET",
        since: "2.2.12",
        summary: "Clears all entries from the slow log.",
        complexity: "O(N) where N is the number of entries in the slowlog",
        arity: exactly(2),
        tips: ON_ALL_NODES,
        ..BASE
    },
    subcommands: &[],
    run: |context, _, reply| Ok(reset(context, CommandLogType::Slow, reply)),
};

const SLOWLOG_HELP: ControlCommand = {
    let help = help::subcommand(Group::Server, "6.2.0", |_, _, reply| {
        help::help(reply, "SLOWLOG", SLOWLOG_LINES);
        Ok(ControlOutcome::Done)
    });
    let summary = "Show helpful text about the different subcommands.";
    Command { spec: Spec { summary, ..help.spec }, ..help }
};

const SLOWLOG_LINES: &[&str] = &[
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
];

pub(super) const COMMANDLOG: ControlCommand = Command {
    spec: Spec {
        name: "COMMANDLOG",
        since: "8.1.0",
        group: Group::Server,
        summary: "A container for command log commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        origin: "valkey",
        ..Spec::BASE
    },
    subcommands: &[COMMANDLOG_GET, COMMANDLOG_HELP, COMMANDLOG_LEN, COMMANDLOG_RESET],
    run: container,
};

const COMMANDLOG_GET: ControlCommand = Command {
    spec: Spec {
        name: "GET",
        since: "8.1.0",
        syntax: "count <SLOW | LARGE-REQUEST | LARGE-REPLY>",
        summary: "Returns the specified command log's entries.",
        complexity: "O(N) where N is the number of entries returned",
        arity: exactly(4),
        tips: GET_TIPS,
        origin: "valkey",
        flags: BASE.flags.and(Flags::IDEMPOTENT),
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| {
        let count = count(&args[2])?;
        Ok(show(context, kind(&args[3])?, count, reply))
    },
};

const COMMANDLOG_LEN: ControlCommand = Command {
    spec: Spec {
        name: "LEN",
        since: "8.1.0",
        syntax: "<SLOW | LARGE-REQUEST | LARGE-REPLY>",
        summary: "Returns the number of entries in the specified type of command log.",
        complexity: "O(1)",
        arity: exactly(3),
        tips: LEN_TIPS,
        origin: "valkey",
        flags: BASE.flags.and(Flags::IDEMPOTENT),
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| Ok(len(context, kind(&args[2])?, reply)),
};

const COMMANDLOG_RESET: ControlCommand = Command {
    spec: Spec {
        name: "RESET",
        since: "8.1.0",
        syntax: "<SLOW | LARGE-REQUEST | LARGE-REPLY>",
        summary: "Clears all entries from the specified type of command log.",
        complexity: "O(N) where N is the number of entries in the commandlog",
        arity: exactly(3),
        tips: ON_ALL_NODES,
        origin: "valkey",
        ..BASE
    },
    subcommands: &[],
    run: |context, args, reply| Ok(reset(context, kind(&args[2])?, reply)),
};

const COMMANDLOG_HELP: ControlCommand = {
    let help = help::subcommand(Group::Server, "8.1.0", |_, _, reply| {
        help::help(reply, "COMMANDLOG", COMMANDLOG_LINES);
        Ok(ControlOutcome::Done)
    });
    let summary = "Shows helpful text about the different subcommands.";
    Command { spec: Spec { summary, origin: "valkey", ..help.spec }, ..help }
};

const COMMANDLOG_LINES: &[&str] = &[
    "GET <count> <type>",
    "    Return top <count> entries of the specified <type> from the commandlog (-1 mean all).",
    "    Entries are made of:",
    "    id, timestamp,",
    "        time in microseconds for type of slow,",
    "        or size in bytes for type of large-request,",
    "        or size in bytes for type of large-reply",
    "    arguments array, client IP and port,",
    "    client name",
    "LEN <type>",
    "    Return the length of the specified type of commandlog.",
    "RESET <type>",
    "    Reset the specified type of commandlog.",
];

fn kind(word: &[u8]) -> Result<CommandLogType, Refusal> {
    match word {
        _ if is(word, "SLOW") => Ok(CommandLogType::Slow),
        _ if is(word, "LARGE-REQUEST") => Ok(CommandLogType::LargeRequest),
        _ if is(word, "LARGE-REPLY") => Ok(CommandLogType::LargeReply),
        _ => Err(UNKNOWN_KIND),
    }
}

const UNKNOWN_KIND: Refusal =
    Refusal::error("ERR type should be one of the following: slow, large-request, large-reply");

/// How many entries to show; -1 for all.
fn count(word: &[u8]) -> Result<usize, Refusal> {
    match parse_i64(word) {
        Some(-1) => Ok(usize::MAX),
        Some(count) if count >= 0 => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        _ => Err(Refusal::error("ERR count should be greater than or equal to -1")),
    }
}

fn show(
    context: &Context<'_>,
    what: CommandLogType,
    count: usize,
    reply: &mut Reply<'_>,
) -> ControlOutcome {
    let entries = context.server.observed.command_log.newest(what, count);
    reply.array(entries.len());
    for LogEntry { id, time, cost, arguments, peer, client_name } in entries {
        reply.array(6);
        reply.integer(i64::try_from(id).unwrap_or(i64::MAX));
        reply.integer(time);
        reply.integer(i64::try_from(cost).unwrap_or(i64::MAX));
        reply.array(arguments.len());
        arguments.iter().for_each(|argument| reply.bulk(argument));
        reply.bulk(peer.as_bytes());
        reply.bulk(&client_name);
    }
    ControlOutcome::Done
}

fn len(context: &Context<'_>, what: CommandLogType, reply: &mut Reply<'_>) -> ControlOutcome {
    let count = context.server.observed.command_log.len(what);
    reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    ControlOutcome::Done
}

fn reset(context: &Context<'_>, what: CommandLogType, reply: &mut Reply<'_>) -> ControlOutcome {
    context.server.observed.command_log.clear(what);
    reply.ok();
    ControlOutcome::Done
}
