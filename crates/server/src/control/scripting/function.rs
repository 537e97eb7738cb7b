//! FUNCTION: libraries are loaded, listed, exchanged and deleted; a long function is ended.
//!
//! Invariant: library code runs on a worker for as long as a script may, and then begins again on a
//! heavy-work thread; a library is compiled on a worker only where its text is short.

use std::sync::Arc;

use base::glob;
use commands::arguments::is;
use commands::declare::{Command, Flags, Group, Role, Spec, at_least, exactly};
use engine::journal::ReplyLsn;
use engine::limits::scripts::libraries::{LibrariesState, LoadedLibrary};
use engine::scripting::library_changes::{LibraryChange, RestorePolicy};
use engine::scripting::script_host::LibraryHost;
use engine::session::patience::busy_since_us;
use keyspace::Refusal;
use persist::functions;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome, offload_past_gates};
use crate::control::help::{self, container, misused};

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[&FUNCTION];

const FLUSH_MODE: Refusal = Refusal::error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
const NAME_MISSING: Refusal = Refusal::error("ERR library name argument was not given");
/// The longest text that a worker compiles: nothing ends the compiler before it is done.
const WORKER_SOURCE: usize = 4096;

/// What the subcommands have in common.
const COMMON: Spec = Spec {
    since: "7.0.0",
    group: Group::Scripting,
    complexity: "O(1)",
    flags: Flags::NOSCRIPT,
    ..Spec::BASE
};

/// What those have in common that change the libraries.
const CHANGES: Spec = Spec {
    flags: Flags::WRITE.and(Flags::NOSCRIPT),
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    ..COMMON
};

const FUNCTION: ControlCommand = Command {
    spec: Spec {
        name: "FUNCTION",
        since: "7.0.0",
        group: Group::Scripting,
        summary: "A container for function commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        ..Spec::BASE
    },
    subcommands: &[DELETE, DUMP, FLUSH, KILL, LIST, LOAD, RESTORE, STATS, HELP],
    run: container,
};

const DELETE: ControlCommand = Command {
    spec: Spec {
        name: "DELETE",
        role: Role::DeleteLibrary,
        syntax: "library-name",
        summary: "Deletes a library and its functions.",
        arity: exactly(3),
        ..CHANGES
    },
    subcommands: &[],
    run: |context, args, reply| change(context, args, reply, |change| change.delete()),
};

const DUMP: ControlCommand = Command {
    spec: Spec {
        name: "DUMP",
        summary: "Dumps all libraries into a serialized binary payload.",
        complexity: "O(N) where N is the number of functions",
        arity: exactly(2),
        flags: COMMON.flags.and(Flags::IDEMPOTENT),
        ..COMMON
    },
    subcommands: &[],
    run: |context, _, reply| {
        let state = libraries_for_reply(context)?;
        reply.bulk(&functions::dump(state.libraries().map(|loaded| loaded.library.source())));
        Ok(ControlOutcome::Done)
    },
};

const FLUSH: ControlCommand = Command {
    spec: Spec {
        name: "FLUSH",
        role: Role::FlushLibraries,
        syntax: "[ASYNC | SYNC]",
        summary: "Deletes all libraries and functions.",
        complexity: "O(N) where N is the number of functions deleted",
        arity: at_least(2),
        ..CHANGES
    },
    subcommands: &[],
    run: |context, args, reply| {
        if args.len() > 3 {
            return Err(misused("FUNCTION", &args[1]));
        }
        if args.get(2).is_some_and(|mode| !is(mode, "SYNC") && !is(mode, "ASYNC")) {
            return Err(FLUSH_MODE);
        }
        change(context, args, reply, |change| change.flush())
    },
};

const KILL: ControlCommand = Command {
    spec: Spec {
        name: "KILL",
        summary: "Terminates a function during execution.",
        arity: exactly(2),
        flags: Flags::NOSCRIPT.and(Flags::ALLOW_BUSY),
        tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
        ..COMMON
    },
    subcommands: &[],
    run: |context, _, reply| {
        let before_us = busy_since_us(context.server);
        context.server.scripts.running.kill(before_us, true)?;
        reply.ok();
        Ok(ControlOutcome::Done)
    },
};

const LIST: ControlCommand = Command {
    spec: Spec {
        name: "LIST",
        syntax: "[LIBRARYNAME library-name-pattern] [WITHCODE]",
        summary: "Returns information about all libraries.",
        complexity: "O(N) where N is the number of functions",
        arity: at_least(2),
        tips: &["nondeterministic_output_order"],
        flags: COMMON.flags.and(Flags::IDEMPOTENT).and(Flags::CHANGES_NOTHING),
        ..COMMON
    },
    subcommands: &[],
    run: list,
};

/// The libraries, for a reply that leaves once what it tells is safe.
fn libraries_for_reply(context: &mut Context<'_>) -> Result<Arc<LibrariesState>, Refusal> {
    let (entry, state) = (context.entry, context.server.scripts.libraries.state());
    context.session()?.note_reply(entry, ReplyLsn::of_others(state.changed_at()));
    Ok(state)
}

/// Notes a change that was made here, for its reply and for a WAIT of its client.
fn note_change(context: &mut Context<'_>) -> Result<(), Refusal> {
    let (entry, state) = (context.entry, context.server.scripts.libraries.state());
    context.session()?.note_reply(entry, ReplyLsn::own(state.changed_at()));
    Ok(())
}

fn list(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let (mut pattern, mut with_code, mut at) = (None, false, 2);
    while let Some(word) = args.get(at) {
        if is(word, "WITHCODE") && !with_code {
            with_code = true;
        } else if is(word, "LIBRARYNAME") && pattern.is_none() {
            at += 1;
            pattern = Some(args.get(at).ok_or(NAME_MISSING)?);
        } else {
            return Err(Refusal::owned([b"ERR Unknown argument ", word].concat()));
        }
        at += 1;
    }
    let state = libraries_for_reply(context)?;
    let is_chosen = |loaded: &&Arc<LoadedLibrary>| {
        pattern.is_none_or(|pattern| glob::matches(pattern, loaded.library.name(), true))
    };
    let chosen: Vec<_> = state.libraries().filter(is_chosen).collect();
    reply.array(chosen.len());
    for loaded in chosen {
        write_library(loaded, with_code, reply);
    }
    Ok(ControlOutcome::Done)
}

fn write_library(loaded: &LoadedLibrary, with_code: bool, reply: &mut Reply<'_>) {
    reply.map(3 + usize::from(with_code));
    reply.bulk(b"library_name");
    reply.bulk(loaded.library.name());
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(loaded.functions.len());
    for function in &loaded.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(&function.name);
        reply.bulk(b"description");
        match &function.description {
            Some(text) => reply.bulk(text),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        reply.set(function.flags.names().count());
        for flag in function.flags.names() {
            reply.simple(flag);
        }
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(loaded.library.source());
    }
}

const LOAD: ControlCommand = Command {
    spec: Spec {
        name: "LOAD",
        role: Role::LoadLibrary,
        syntax: "[REPLACE] function-code",
        summary: "Creates a library.",
        complexity: "O(1) (considering compilation time is redundant)",
        arity: at_least(3),
        flags: CHANGES.flags.and(Flags::DENYOOM),
        ..CHANGES
    },
    subcommands: &[],
    run: |context, args, reply| {
        let options = args.slice(2..args.len() - 1);
        if let Some(unknown) = options.iter().find(|word| !is(word, "REPLACE")) {
            return Err(Refusal::owned([b"ERR Unknown option given: ", unknown].concat()));
        }
        let server = context.server;
        if args[args.len() - 1].len() <= WORKER_SOURCE && context.is_let_in() {
            let change = LibraryChange { server, args, is_new: true };
            match change.load(LibraryHost::begin_briefly(server)) {
                Err(Refusal::Heavy) => {}
                loaded => {
                    reply.bulk(&loaded?);
                    note_change(context)?;
                    return Ok(ControlOutcome::Done);
                }
            }
        }
        Ok(offload_past_gates(context, move |_, args, reply| {
            let change = LibraryChange { server, args, is_new: true };
            reply.bulk(&change.load(change.loader())?);
            Ok(())
        }))
    },
};

const RESTORE: ControlCommand = Command {
    spec: Spec {
        name: "RESTORE",
        role: Role::RestoreLibraries,
        syntax: "serialized-value [FLUSH | APPEND | REPLACE]",
        summary: "Restores all libraries from a payload.",
        complexity: "O(N) where N is the number of functions on the payload",
        arity: at_least(3),
        flags: CHANGES.flags.and(Flags::DENYOOM),
        ..CHANGES
    },
    subcommands: &[],
    run: |context, args, _| {
        if args.len() > 4 {
            return Err(misused("FUNCTION", &args[1]));
        }
        let policy = RestorePolicy::of(args)?;
        let server = context.server;
        Ok(offload_past_gates(context, move |_, args, reply| {
            LibraryChange { server, args, is_new: true }.restore(policy)?;
            reply.ok();
            Ok(())
        }))
    },
};

/// Makes a short change here, or where it may wait.
fn change(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    make: fn(LibraryChange<'_>) -> Result<(), Refusal>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    if context.is_let_in() {
        make(LibraryChange { server, args, is_new: true })?;
        note_change(context)?;
        reply.ok();
        return Ok(ControlOutcome::Done);
    }
    Ok(offload_past_gates(context, move |_, args, reply| {
        make(LibraryChange { server, args, is_new: true })?;
        reply.ok();
        Ok(())
    }))
}

const STATS: ControlCommand = Command {
    spec: Spec {
        name: "STATS",
        summary: "Returns information about a function during execution.",
        arity: exactly(2),
        flags: Flags::NOSCRIPT
            .and(Flags::ALLOW_BUSY)
            .and(Flags::IDEMPOTENT)
            .and(Flags::CHANGES_NOTHING),
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        ..COMMON
    },
    subcommands: &[],
    run: |context, _, reply| {
        let server = context.server;
        server.scripts.running.check_tells_of_functions()?;
        reply.map(2);
        reply.bulk(b"running_script");
        let now_us = server.keyspace.clock().monotonic_us();
        server.scripts.running.write_oldest_function(now_us, reply);
        let state = libraries_for_reply(context)?;
        reply.bulk(b"engines");
        reply.map(1);
        reply.bulk(b"LUA");
        reply.map(2);
        reply.bulk(b"libraries_count");
        reply.integer(state.size().0 as i64);
        reply.bulk(b"functions_count");
        reply.integer(state.functions_count() as i64);
        Ok(ControlOutcome::Done)
    },
};

const HELP: ControlCommand = help::subcommand(Group::Scripting, "7.0.0", |_, _, reply| {
    help::help(reply, "FUNCTION", HELP_LINES);
    Ok(ControlOutcome::Done)
});

const HELP_LINES: &[&str] = &[
    "LOAD [REPLACE] <FUNCTION CODE>",
    "    Create a new library with the given library name and code.",
    "DELETE <LIBRARY NAME>",
    "    Delete the given library.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Return general information on all the libraries:",
    "    * Library name",
    "    * The engine used to run the Library",
    "    * Functions list",
    "    * Library code (if WITHCODE is given)",
    "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
    "STATS",
    "    Return information about the current function running:",
    "    * Function name",
    "    * Command used to run the function",
    "    * Duration in MS that the function is running",
    "    If no function is running, return nil",
    "    In addition, returns a list of available engines.",
    "KILL",
    "    Kill the current running function.",
    "FLUSH [ASYNC|SYNC]",
    "    Delete all the libraries.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the libraries.",
    "    * SYNC: Synchronously flush the libraries.",
    "DUMP",
    "    Return a serialized payload representing the current libraries, can be restored using \
     FUNCTION RESTORE command",
    "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
    "    Restore the libraries represented by the given payload, it is possible to give a restore \
     policy to",
    "    control how to handle existing libraries (default APPEND):",
    "    * FLUSH: delete all existing libraries.",
    "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
    "    * REPLACE: appends the restored libraries to the existing libraries, On collision, \
     replace the old",
    "      libraries with the new libraries (notice that even on this option there is a chance of \
     failure",
    "      in case of functions name collision with another library).",
];
