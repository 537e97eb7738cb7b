//! QUOTA: what users and databases took, and what they may take.
//!
//! Invariant: names of users are told to users that may run this command, and to nobody by INFO.

use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use engine::limits::quotas::{Account, RATES};
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome};
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
        flags: BASE.flags.and(Flags::IDEMPOTENT),
        ..BASE
    },
    subcommands: &[],
    run: users,
};

fn users(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let (accounts, now_us) = (context.server.gates.quotas.all_users(), now_us(context));
    reply.array(accounts.len());
    for (name, account) in accounts {
        reply.map(8);
        reply.bulk(b"user");
        reply.bulk(&name);
        reply_account(reply, &account, now_us);
    }
    Ok(ControlOutcome::Done)
}

const DATABASES: ControlCommand = Command {
    spec: Spec {
        name: "DATABASES",
        summary: "Returns what each database took and may take.",
        complexity: "O(N*W) where N is the number of databases and W the number of workers.",
        flags: BASE.flags.and(Flags::IDEMPOTENT),
        ..BASE
    },
    subcommands: &[],
    run: databases,
};

fn databases(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let (server, now_us) = (context.server, now_us(context));
    let mut accounts = server.gates.quotas.all_databases();
    accounts.retain(|(database, _)| *database < server.keyspace.database_count());
    reply.array(accounts.len());
    for (database, account) in accounts {
        reply.map(10);
        reply.integer_field("db", database as u64);
        reply_account(reply, &account, now_us);
        reply.integer_field("memory", server.keyspace.database_memory(database) as u64);
        reply.integer_field("memory-max", account.memory_max());
    }
    Ok(ControlOutcome::Done)
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
        Ok(ControlOutcome::Done)
    },
};

const HELP: ControlCommand = Command {
    spec: Spec { origin: "apus", ..help::subcommand(Group::Server, "0.1.0", say_help).spec },
    subcommands: &[],
    run: say_help,
};

fn say_help(
    _: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    help::help(reply, "QUOTA", LINES);
    Ok(ControlOutcome::Done)
}

const LINES: &[&str] = &[
    "DATABASES",
    "    Return what each database took and may take.",
    "RESET",
    "    Begin all accounts at zero. What rates have left stays.",
    "USERS",
    "    Return what each user took and may take.",
];

fn now_us(context: &Context<'_>) -> i64 {
    context.server.keyspace.clock().monotonic_us()
}

/// Seven pairs of an account: what was taken, what was rejected, the rates that are limited, and
/// what is left of them.
fn reply_account(reply: &mut Reply<'_>, account: &Account, now_us: i64) {
    for (limit, used) in RATES.into_iter().zip(account.usage()) {
        reply.integer_field(limit.name(), used);
    }
    reply.integer_field("rejected", account.rejected());
    reply.bulk(b"limits");
    let limited = account.limited_rates(now_us);
    reply.map(limited.len());
    for (limit, rate, _) in &limited {
        reply.bulk(limit.name().as_bytes());
        reply.bulk(format!("{}/{}", rate.amount, rate.seconds).as_bytes());
    }
    reply.bulk(b"remaining");
    reply.map(limited.len());
    for (limit, _, remaining) in &limited {
        reply.integer_field(limit.name(), *remaining);
    }
}
