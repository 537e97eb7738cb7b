//! CLIENT PAUSE and UNPAUSE.
//!
//! Invariants: the end of a pause is a time that exists; a pause is answered when what was under
//! way is over.

use base::time::UnixMillis;
use commands::LockPlan;
use commands::arguments::is;
use commands::declare::{Command, Spec, at_least, exactly};
use engine::runtime::background;
use engine::session::patience;
use keyspace::{Acquisition, Refusal};
use proto::{Args, Reply};

use super::specs::OF_OTHERS;
use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::control::help::misused;
use crate::server::Server;

pub(super) const PAUSE: ControlCommand = Command {
    spec: Spec {
        name: "PAUSE",
        since: "3.0.0",
        syntax: "timeout [WRITE | ALL]",
        summary: "Suspends commands processing.",
        complexity: "O(1)",
        arity: at_least(3),
        // Within a unit, which must be alone; else others are waited for.
        plan: LockPlan::World,
        history: &[("6.2.0", "`CLIENT PAUSE WRITE` mode added along with the `mode` option.")],
        ..OF_OTHERS
    },
    subcommands: &[],
    run: pause,
};

fn pause(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let all_commands = match args.get(3) {
        None => true,
        Some(_) if args.len() > 4 => return Err(misused("CLIENT", &args[1])),
        Some(mode) if is(mode, "ALL") => true,
        Some(mode) if is(mode, "WRITE") => false,
        Some(_) => return Err(Refusal::error("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let timeout = base::number::parse_i64(&args[2])
        .ok_or(Refusal::error("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(Refusal::error("ERR timeout is negative"));
    }
    let server = context.server;
    let clock = server.keyspace.clock();
    let time_out = move |now: UnixMillis| now.checked_add(timeout);
    let until = time_out(clock.now_ms()).ok_or(Refusal::error("ERR timeout is out of range"))?;
    if let Some(unit) = &context.unit {
        // A unit that has the world is alone.
        unit.tx.require_world()?;
        server.gates.pause.begin(all_commands).confirm(clock.now_ms(), until);
        reply.ok();
        return Ok(ControlOutcome::Done);
    }
    Ok(ControlOutcome::offload_with_locks(move |_, _, reply| {
        // Not before: what waits for its end could have all threads.
        let ticket = server.gates.pause.begin(all_commands);
        let clock = server.keyspace.clock();
        await_running_commands(server, clock.monotonic_us())?;
        // Its time begins as it is answered.
        let now = clock.now_ms();
        ticket.confirm(now, time_out(now).unwrap_or(until));
        reply.ok();
        Ok(())
    }))
}

/// Waits until what was let pass before that is over, on whatever thread: behind it nobody is told
/// that nothing changes. The world comes last, as nothing long begins while it is wanted.
fn await_running_commands(server: &'static Server, began_us: i64) -> Result<(), Refusal> {
    patience::await_older_commands(server, began_us)?;
    background::wait_for_client(server.keyspace, &mut Acquisition::of_world(server.keyspace))
}

pub(super) const UNPAUSE: ControlCommand = Command {
    spec: Spec {
        name: "UNPAUSE",
        since: "6.2.0",
        summary: "Resumes processing commands from paused clients.",
        complexity: "O(N) Where N is the number of paused clients",
        arity: exactly(2),
        ..OF_OTHERS
    },
    subcommands: &[],
    run: unpause,
};

fn unpause(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    context.server.gates.pause.end();
    reply.ok();
    Ok(ControlOutcome::Done)
}
