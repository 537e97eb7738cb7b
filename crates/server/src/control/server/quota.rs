//! QUOTA: what users and databases took, and what they may take.
//!
//! Invariant: names of users are told to users that may run this command, and to nobody by INFO.

use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use engine::limits::quotas::{Account, RATES};
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, Next};
use crate::control::help::{self, container};

/// What the subcommands share.
const BASE: Spec = Spec {
    origin: "apus",
    since: "0.1.0",
    group: Group::Server,
    arity: exactly(2),
    flags: Flags::ADMIN.and(Flags::NOSCRIPT),
    tips: &["nondeterministic_output"],
    ..Spec::BASE
};

pub(crate) const QUOTA: ControlCommand = Command {
    spec: Spec {
        name: "QUOTA",
        summary: "A container for accounts and quotas of users and databases.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        flags: Flags::NONE,
        tips: &[],
        ..BASE
    },
    subcommands: &[DATABASES, HELP, RESET, USERS],
    run: container,
};

pub(crate) const USERS: ControlCommand = Command {
    spec: Spec {
        name: "USERS",
        summary: "Returns what each user took and may take.",
        complexity: "O(N*W) where N is the number of users and W the number of workers.",
        flags: BASE.flags.and(Flags::REPEATABLE),
        ..BASE
    },
    subcommands: &[],
    run: users,
};

fn users(context: &mut Context<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    let accounts = context.server.gates.quotas.all_users();
    reply.array(accounts.len());
    for (name, account) in accounts {
        reply.map(7);
        reply.bulk(b"user");
        reply.bulk(&name);
        reply_account(reply, &account);
    }
    Ok(Next::Done)
}

const DATABASES: ControlCommand = Command {
    spec: Spec {
        name: "DATABASES",
        summary: "Returns what each database took and may take.",
        complexity: "O(N*W) where N is the number of databases and W the number of workers.",
        flags: BASE.flags.and(Flags::REPEATABLE),
        ..BASE
    },
    subcommands: &[],
    run: databases,
};

fn databases(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let server = context.server;
    let mut accounts = server.gates.quotas.all_databases();
    accounts.retain(|(database, _)| *database < server.keyspace.database_count());
    reply.array(accounts.len());
    for (database, account) in accounts {
        reply.map(9);
        reply.integer_field("db", database as u64);
        reply_account(reply, &account);
        reply.integer_field("memory", server.keyspace.database_memory(database) as u64);
        reply.integer_field("memory-max", account.memory_max());
    }
    Ok(Next::Done)
}

const RESET: ControlCommand = Command {
    spec: Spec {
        name: "RESET",
        summary: "Begins all accounts at zero. What rates have left stays.",
        complexity: "O(N*W) where N is the number of accounts and W the number of workers.",
        tips: &[],
        ..BASE
    },
    subcommands: &[],
    run: |context, _, reply| {
        context.server.gates.quotas.reset();
        reply.ok();
        Ok(Next::Done)
    },
};

const HELP: ControlCommand = Command {
    spec: Spec { origin: "apus", ..help::subcommand(Group::Server, "0.1.0", say_help).spec },
    subcommands: &[],
    run: say_help,
};

fn say_help(_: &mut Context<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    help::help(reply, "QUOTA", LINES);
    Ok(Next::Done)
}

const LINES: &[&str] = &[
    "DATABASES",
    "    Return what each database took and may take.",
    "RESET",
    "    Begin all accounts at zero. What rates have left stays.",
    "USERS",
    "    Return what each user took and may take.",
];

/// Six pairs of an account: what was taken, what was rejected, and the rates that are limited.
fn reply_account(reply: &mut Reply<'_>, account: &Account) {
    for (limit, used) in RATES.into_iter().zip(account.usage()) {
        reply.integer_field(limit.name(), used);
    }
    reply.integer_field("rejected", account.rejected());
    reply.bulk(b"limits");
    let limited = || {
        let rates = RATES.into_iter().zip(account.rates());
        rates.filter_map(|(limit, rate)| Some((limit, rate?)))
    };
    reply.map(limited().count());
    for (limit, rate) in limited() {
        reply.bulk(limit.name().as_bytes());
        reply.bulk(format!("{}/{}", rate.amount, rate.seconds).as_bytes());
    }
}
