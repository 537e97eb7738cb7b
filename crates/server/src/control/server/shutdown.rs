//! SHUTDOWN: the end of the process, asked for by a client.
//!
//! Invariant: what cannot be saved, and SAFE at a primary of a cluster that has slots, keeps the
//! server up unless FORCE says otherwise; NOSAVE without SAFE always ends it.

use std::time::Duration;

use commands::arguments::is;
use commands::declare::{Command, Flags, Group, Spec, at_least};
use commands::errors::SYNTAX;
use config::ShutdownFlags;
use engine::session::patience::busy_since_us;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::server::Server;

pub(super) const SHUTDOWN: ControlCommand = Command {
    spec: Spec {
        name: "SHUTDOWN",
        since: "1.0.0",
        group: Group::Server,
        syntax: "[NOSAVE | SAVE] [NOW] [FORCE] [SAFE] [FAILOVER] [ABORT]",
        summary: "Synchronously saves the database(s) to disk and shuts down the Redis server.",
        complexity: "O(N) when saving, where N is the total number of keys in all databases when \
                     saving data, otherwise O(1)",
        arity: at_least(1),
        flags: Flags::ADMIN
            .and(Flags::NOSCRIPT)
            .and(Flags::LOADING)
            .and(Flags::STALE)
            .and(Flags::NO_MULTI)
            .and(Flags::ALLOW_BUSY),
        history: &[
            ("7.0.0", "Added the `NOW`, `FORCE` and `ABORT` modifiers."),
            ("9.0.0", "Added the `SAFE` and `FAILOVER` modifiers."),
        ],
        ..Spec::BASE
    },
    subcommands: &[],
    run: shut_down,
};

/// How long a script may be over before that is seen.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

const NONE_IN_PROGRESS: Refusal = Refusal::error("ERR No shutdown in progress.");
const NO_CLUSTER: Refusal =
    Refusal::error("ERR SHUTDOWN FAILOVER is only supported in cluster mode.");
const FAILED: Refusal = Refusal::error("ERR Errors trying to SHUTDOWN. Check logs.");

/// How to end; `None` says to call an end off.
fn modifiers(server: &Server, args: Args<'_>) -> Result<Option<ShutdownFlags>, Refusal> {
    let mut how = ShutdownFlags::default();
    let mut abort = false;
    for word in args.iter().skip(1) {
        let modifier = match word {
            _ if is(word, "SAVE") => &mut how.save,
            _ if is(word, "NOSAVE") => &mut how.nosave,
            _ if is(word, "NOW") => &mut how.now,
            _ if is(word, "FORCE") => &mut how.force,
            _ if is(word, "SAFE") => &mut how.safe,
            _ if is(word, "FAILOVER") => &mut how.failover,
            _ if is(word, "ABORT") => &mut abort,
            _ => return Err(SYNTAX),
        };
        *modifier = true;
    }
    if how.save && how.nosave || abort && how != ShutdownFlags::default() {
        return Err(SYNTAX);
    }
    if how.failover && !server.cluster.is_on() {
        return Err(NO_CLUSTER);
    }
    Ok((!abort).then_some(how))
}

fn shut_down(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    let Some(how) = modifiers(server, args)? else {
        if !server.shutdown.call_off(server) {
            return Err(NONE_IN_PROGRESS);
        }
        reply.ok();
        return Ok(ControlOutcome::Done);
    };
    // An end that succeeds is answered by the end of the connection.
    if how.nosave {
        return Ok(ControlOutcome::offload(move |_, _, _| {
            server.shutdown.execute(server, how).map_err(|_| FAILED)
        }));
    }
    Ok(ControlOutcome::offload_with_locks(move |_, _, _| {
        outlast_scripts(server)?;
        server.shutdown.execute(server, how).map_err(|_| FAILED)
    }))
}

/// Waits for the scripts that run now. One that takes too long is not waited for: once it has
/// written nobody can end it, so a save might never begin.
fn outlast_scripts(server: &Server) -> Result<(), Refusal> {
    let asked_us = server.keyspace.clock().monotonic_us();
    let underway = &server.scripts.running;
    while underway.any_since(asked_us) {
        underway.check_is_idle(busy_since_us(server))?;
        std::thread::sleep(BETWEEN_LOOKS);
    }
    Ok(())
}
