//! CONFIG: reading, changing and writing down the configuration.
//!
//! Invariant: changes and the writing of the file take turns, on heavy-work threads, so no worker
//! waits for either.

use commands::declare::{Command, Flags, Group, Secrets, Spec, at_least, exactly};
use engine::runtime::log::{log_notice, log_warning};
use engine::runtime::replace_file;
use keyspace::{Count, Refusal};
use proto::{Args, Reply};

use crate::control::apply_config;
use crate::control::context::{Context, ControlCommand, ControlOutcome, by_size};
use crate::control::help::{self, container};
use crate::control::users;

pub(super) const CONFIG: ControlCommand = Command {
    spec: Spec {
        name: "CONFIG",
        since: "2.0.0",
        group: Group::Server,
        summary: "A container for server configuration commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..Spec::BASE
    },
    subcommands: &[SET, HELP, REWRITE, RESETSTAT, GET],
    run: container,
};

const ADMIN: Spec = Spec {
    group: Group::Server,
    flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::LOADING).and(Flags::STALE),
    ..Spec::BASE
};

/// Tips of what a client of a cluster asks of all nodes.
pub(super) const ON_ALL_NODES: &[&str] =
    &["request_policy:all_nodes", "response_policy:all_succeeded"];

const GET: ControlCommand = Command {
    spec: Spec {
        name: "GET",
        since: "2.0.0",
        syntax: "parameter [parameter ...]",
        summary: "Returns the effective values of configuration parameters.",
        complexity: "O(N) when N is the number of configuration parameters provided",
        arity: at_least(3),
        history: &[("7.0.0", "Added the ability to pass multiple pattern parameters in one call")],
        flags: ADMIN.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..ADMIN
    },
    subcommands: &[],
    run: get,
};

fn get(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    Ok(by_size(context.server, args, reply, |server, args, reply| {
        let patterns: Vec<&[u8]> = args.skip(2).iter().collect();
        let found = server.config.matching(&patterns);
        reply.map(found.len());
        for (name, value) in found {
            reply.bulk(&name);
            reply.bulk(&value);
        }
    }))
}

const SET: ControlCommand = Command {
    spec: Spec {
        name: "SET",
        since: "2.0.0",
        syntax: "parameter value [parameter value ...]",
        summary: "Sets configuration parameters in-flight.",
        complexity: "O(N) when N is the number of configuration parameters provided",
        arity: at_least(4),
        tips: ON_ALL_NODES,
        history: &[("7.0.0", "Added the ability to set multiple parameters in one call.")],
        secrets: Secrets::DirectivesFrom(2),
        ..ADMIN
    },
    subcommands: &[],
    run: set,
};

fn set(
    context: &mut Context<'_>,
    _: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let (server, is_local) = (context.server, context.session()?.is_local);
    Ok(ControlOutcome::offload(move |_, args, reply| {
        let pairs: Vec<&[u8]> = args.skip(2).iter().collect();
        let changed = apply_config::change_config(server, &pairs, is_local);
        changed.map_err(|error| Refusal::owned(error.line()))?;
        reply.ok();
        Ok(())
    }))
}

const REWRITE: ControlCommand = Command {
    spec: Spec {
        name: "REWRITE",
        since: "2.8.0",
        summary: "Persists the effective configuration to file.",
        complexity: "O(1)",
        arity: exactly(2),
        tips: ON_ALL_NODES,
        ..ADMIN
    },
    subcommands: &[],
    run: rewrite,
};

fn rewrite(
    context: &mut Context<'_>,
    _: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    Ok(ControlOutcome::offload(move |_, _, reply| {
        let _turn = server.take_config_turn();
        if let Err(error) =
            server.config.rewrite(users::lines(server).as_deref(), replace_file::replace_atomically)
        {
            let path = server.config.path().map(|path| format!(" {}:", path.display()));
            let path = path.unwrap_or_default();
            log_warning!(server.log, "CONFIG REWRITE failed:{path} {error}");
            return Err(Refusal::owned(error.to_string()));
        }
        log_notice!(server.log, "CONFIG REWRITE executed with success.");
        reply.ok();
        Ok(())
    }))
}

const RESETSTAT: ControlCommand = Command {
    spec: Spec {
        name: "RESETSTAT",
        since: "2.0.0",
        summary: "Resets the server's statistics.",
        complexity: "O(1)",
        arity: exactly(2),
        tips: ON_ALL_NODES,
        ..ADMIN
    },
    subcommands: &[],
    run: reset_statistics,
};

fn reset_statistics(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    server.observed.stats.reset();
    let counters = server.keyspace.counters();
    for count in [
        Count::Hits,
        Count::Misses,
        Count::Expired,
        Count::Evicted,
        Count::ExpiredMembers,
        Count::ExpiryTimeouts,
        Count::Moved,
        Count::Kept,
    ] {
        counters.reset(count);
    }
    server.keyspace.compatibility().reset();
    server.links.reset_counts(server);
    server.saves.reset_count();
    server.aof.rewrite.reset_count();
    server.aof.stats.reset_delayed();
    server.keyspace.lazy_free_queue().reset();
    server.memory.budget.excess.reset();
    server.memory.defrag.stopwatch.reset();
    server.keyspace.stall_stats().reset();
    server.access.acl_log.reset_counters();
    server.observed.slot_stats.reset(|_| true);
    server.threads.loops.reset();
    server.threads.all_worker_counters().for_each(engine::runtime::counters::WorkerCounters::reset);
    reply.ok();
    Ok(ControlOutcome::Done)
}

const HELP: ControlCommand = help::subcommand(Group::Server, "5.0.0", print_help);

fn print_help(
    _: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let lines = [
        "GET <pattern>",
        "    Return parameters matching the glob-like <pattern> and their values.",
        "SET <directive> <value>",
        "    Set the configuration <directive> to <value>.",
        "RESETSTAT",
        "    Reset statistics reported by the INFO command.",
        "REWRITE",
        "    Rewrite the configuration file.",
    ];
    help::help(reply, "CONFIG", &lines);
    Ok(ControlOutcome::Done)
}
