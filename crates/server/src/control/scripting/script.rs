//! SCRIPT: the cache, and the end of scripts that take too long.
//!
//! Invariant: what SCRIPT LOAD accepts can be compiled.

use commands::arguments::is;
use commands::declare::{Command, Flags, Group, Role, Spec, at_least, exactly};
use engine::scripting::eval::{NO_DEBUGGER, refusal};
use engine::scripting::interpreter::with_interpreter;
use engine::session::patience::busy_since_us;
use keyspace::Refusal;
use proto::{Args, Reply};
use script::{Program, Sha1};

use crate::control::context::{Context, ControlCommand, ControlOutcome, by_size};
use crate::control::help::{self, container};
use crate::server::Server;

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[&SCRIPT];

const FLUSH_MODE: Refusal = Refusal::error("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
const DEBUG_MODE: Refusal = Refusal::error("ERR Use SCRIPT DEBUG YES/SYNC/NO");
const NO_SCRIPT: Refusal = Refusal::error("NOSCRIPT No matching script.");

/// The longest text that a worker compiles, which takes it half a millisecond.
const WORKER_SOURCE: usize = 64 << 10;

/// What the subcommands have in common.
const COMMON: Spec = Spec {
    role: Role::Script,
    since: "2.6.0",
    group: Group::Scripting,
    complexity: "O(1)",
    flags: Flags::NOSCRIPT,
    ..Spec::BASE
};

const SCRIPT: ControlCommand = Command {
    spec: Spec {
        name: "SCRIPT",
        role: Role::Script,
        since: "2.6.0",
        group: Group::Scripting,
        summary: "A container for Lua scripts management commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..Spec::BASE
    },
    subcommands: &[DEBUG, EXISTS, FLUSH, KILL, LOAD, SHOW, HELP],
    run: container,
};

const DEBUG: ControlCommand = Command {
    spec: Spec {
        name: "DEBUG",
        since: "3.2.0",
        syntax: "<YES | SYNC | NO>",
        summary: "Sets the debug mode of server-side Lua scripts.",
        arity: exactly(3),
        ..COMMON
    },
    subcommands: &[],
    run: debug,
};

fn debug(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let session = context.session()?;
    if is(&args[2], "NO") {
        session.wants_debugger = false;
        reply.ok();
        return Ok(ControlOutcome::Done);
    }
    if !is(&args[2], "YES") && !is(&args[2], "SYNC") {
        return Err(DEBUG_MODE);
    }
    // A client that goes on as if it were debugging must not change live data.
    session.wants_debugger = true;
    Err(NO_DEBUGGER)
}

const EXISTS: ControlCommand = Command {
    spec: Spec {
        name: "EXISTS",
        syntax: "sha1 [sha1 ...]",
        summary: "Determines whether server-side Lua scripts exist in the script cache.",
        complexity: "O(N) with N being the number of scripts to check (so checking a single \
                     script is an O(1) operation).",
        arity: at_least(3),
        tips: &["request_policy:all_shards", "response_policy:agg_logical_and"],
        flags: COMMON.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..COMMON
    },
    subcommands: &[],
    run: |context, args, reply| {
        Ok(by_size(context.server, args, reply, |server, args, reply| {
            let digests = args.skip(2);
            reply.array(digests.len());
            for digest in digests.iter() {
                let script = Sha1::parse(digest).and_then(|it| server.scripts.cache.get(it));
                reply.integer(i64::from(script.is_some()));
            }
        }))
    },
};

const FLUSH: ControlCommand = Command {
    spec: Spec {
        name: "FLUSH",
        syntax: "[ASYNC | SYNC]",
        summary: "Removes all server-side Lua scripts from the script cache.",
        complexity: "O(N) with N being the number of scripts in cache",
        arity: at_least(2),
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        history: &[("6.2.0", "Added the `ASYNC` and `SYNC` flushing mode modifiers.")],
        ..COMMON
    },
    subcommands: &[],
    run: flush,
};

fn flush(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let is_fine = match args.get(2) {
        None => true,
        Some(mode) => args.len() == 3 && (is(mode, "SYNC") || is(mode, "ASYNC")),
    };
    if !is_fine {
        return Err(FLUSH_MODE);
    }
    context.server.scripts.cache.flush();
    // The interpreters of other threads forget them when they run next, or are dropped before.
    with_interpreter(context.server, |_| ());
    reply.ok();
    Ok(ControlOutcome::Done)
}

const KILL: ControlCommand = Command {
    spec: Spec {
        name: "KILL",
        summary: "Terminates a server-side Lua script during execution.",
        arity: exactly(2),
        flags: Flags::NOSCRIPT.and(Flags::ALLOW_BUSY),
        tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
        ..COMMON
    },
    subcommands: &[],
    run: |context, _, reply| {
        let before_us = busy_since_us(context.server);
        context.server.scripts.running.kill(before_us, false)?;
        reply.ok();
        Ok(ControlOutcome::Done)
    },
};

const LOAD: ControlCommand = Command {
    spec: Spec {
        name: "LOAD",
        syntax: "script",
        summary: "Loads a server-side Lua script to the script cache.",
        complexity: "O(N) with N being the length in bytes of the script body.",
        arity: exactly(3),
        flags: Flags::NOSCRIPT.and(Flags::STALE),
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..COMMON
    },
    subcommands: &[],
    run: |context, args, reply| {
        let server = context.server;
        if args[2].len() > WORKER_SOURCE {
            return Ok(ControlOutcome::offload(move |_, args, reply| load(server, args, reply)));
        }
        load(server, args, reply)?;
        Ok(ControlOutcome::Done)
    },
};

fn load(server: &Server, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let program = Program::parse(&args[2]).map_err(refusal)?;
    with_interpreter(server, |interpreter| interpreter.check(&program)).map_err(refusal)?;
    reply.bulk(program.sha1().hex().as_bytes());
    server.scripts.cache.load(program);
    Ok(())
}

const SHOW: ControlCommand = Command {
    spec: Spec {
        name: "SHOW",
        since: "8.0.0",
        syntax: "sha1",
        summary: "Shows a server-side Lua script of the script cache.",
        arity: exactly(3),
        flags: Flags::NOSCRIPT.and(Flags::STALE).and(Flags::IDEMPOTENT),
        origin: "valkey",
        ..COMMON
    },
    subcommands: &[],
    run: |context, args, reply| {
        let digest = Sha1::parse(&args[2]).ok_or(NO_SCRIPT)?;
        let program = context.server.scripts.cache.get(digest).ok_or(NO_SCRIPT)?;
        reply.bulk(program.source());
        Ok(ControlOutcome::Done)
    },
};

const HELP: ControlCommand = {
    let command = help::subcommand(Group::Scripting, "5.0.0", print_help);
    Command { spec: Spec { role: Role::Script, ..command.spec }, ..command }
};

fn print_help(
    _: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    help::help(
        reply,
        "SCRIPT",
        &[
            "DEBUG (YES|SYNC|NO)",
            "    Set the debug mode for subsequent scripts executed.",
            "EXISTS <sha1> [<sha1> ...]",
            "    Return information about the existence of the scripts in the script cache.",
            "FLUSH [ASYNC|SYNC]",
            "    Flush the Lua scripts cache. Very dangerous on replicas.",
            "    When called without the optional mode argument, the behavior is determined by the",
            "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
            "    * ASYNC: Asynchronously flush the scripts cache.",
            "    * SYNC: Synchronously flush the scripts cache.",
            "KILL",
            "    Kill the currently executing Lua script.",
            "LOAD <script>",
            "    Load a script into the scripts cache without executing it.",
        ],
    );
    Ok(ControlOutcome::Done)
}
