//! BGREWRITEAOF: a new base for the append-only file.
//!
//! Invariants: no client waits for its end; what waits for the disk runs off the workers.

use commands::declare::{Command, Flags, Group, Spec, exactly};
use durability::aof;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome};

const UNDERWAY: Refusal =
    Refusal::error("ERR Background append only file rewriting already in progress");
const FAILED: Refusal = Refusal::error(
    "ERR Can't execute an AOF background rewriting. Please check the server logs for more \
     information.",
);

pub(super) const BGREWRITEAOF: ControlCommand = Command {
    spec: Spec {
        name: "BGREWRITEAOF",
        since: "1.0.0",
        group: Group::Server,
        summary: "Asynchronously rewrites the append-only file to disk.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::NO_ASYNC_LOADING),
        ..Spec::BASE
    },
    subcommands: &[],
    run: rewrite,
};

fn rewrite(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    if server.aof.rewrite.is_underway() {
        return Err(UNDERWAY);
    }
    if context.unit.is_some() || server.saves.is_asked_for() || server.backup.is_underway() {
        // What the others of a transaction change must be in it; and one at a time, as in Redis.
        server.aof.rewrite.schedule();
        reply.simple("Background append only file rewriting scheduled");
        return Ok(ControlOutcome::Done);
    }
    // A FLUSHALL's save is waited for, and the disk is asked for a directory.
    Ok(ControlOutcome::offload(move |_, _, reply| {
        server.saves.wait_followed();
        if aof::begin_rewrite(server) {
            reply.simple("Background append only file rewriting started");
            return Ok(());
        }
        // Another rewrite may have been faster.
        Err(if server.aof.rewrite.is_underway() { UNDERWAY } else { FAILED })
    }))
}
