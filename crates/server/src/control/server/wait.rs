//! WAIT and WAITAOF: copies of what was written, on replicas and in the append-only file.
//!
//! Invariant: what is waited for is the client's own latest write, so nothing that others write
//! prolongs a wait. A command that could have written and did not counts as what it saw. In EXEC
//! that is what came before it, and in a script nothing, as in Redis.

use base::number::parse_i64;
use commands::arguments::integer;
use commands::declare::{Command, Flags, Group, Spec, exactly};
use commands::errors::{NEGATIVE_TIMEOUT, NOT_A_WHOLE_TIMEOUT, NOT_POSITIVE, TIMEOUT_OUT_OF_RANGE};
use durability::aof::AofState;
use durability::waitaof::{NO_FILE, is_in_file, is_on_replicas, reply_copies};
use engine::session::{AckRequirement, AckWait, Blocked, ExecutedCommand, Suspension};
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome};

/// What both share.
const BASE: Spec = Spec {
    group: Group::Generic,
    complexity: "O(1)",
    flags: Flags::BLOCKING.and(Flags::IDEMPOTENT),
    categories: &["@connection"],
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    ..Spec::BASE
};

pub(super) const WAIT: ControlCommand = Command {
    spec: Spec {
        name: "WAIT",
        since: "3.0.0",
        syntax: "numreplicas timeout",
        summary: "Blocks until the asynchronous replication of all preceding write commands sent \
                  by the connection is completed.",
        arity: exactly(3),
        ..BASE
    },
    subcommands: &[],
    run: wait,
};

pub(super) const WAITAOF: ControlCommand = Command {
    spec: Spec {
        name: "WAITAOF",
        since: "7.2.0",
        syntax: "numlocal numreplicas timeout",
        summary: "Blocks until all of the preceding write commands sent by the connection are \
                  written to the append-only file of the master and/or replicas.",
        arity: exactly(4),
        ..BASE
    },
    subcommands: &[],
    run: wait_aof,
};

fn wait(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    if context.server.gates.replica_role.is_replica() {
        return Err(WAIT_ON_REPLICA);
    }
    let replicas = integer(args, 1)?;
    let timeout = timeout(context, args, 2)?;
    let replicas = usize::try_from(replicas).unwrap_or(0);
    Ok(await_copies(context, args, reply, timeout, AckRequirement::Applied { replicas }))
}

fn wait_aof(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let local = integer(args, 1)?;
    if !(0..=1).contains(&local) {
        return Err(NOT_A_COUNT_OF_FILES);
    }
    let replicas = parse_i64(&args[2]).filter(|&count| count >= 0).ok_or(NOT_POSITIVE)?;
    let timeout = timeout(context, args, 3)?;
    if context.server.gates.replica_role.is_replica() {
        return Err(WAITAOF_ON_REPLICA);
    }
    if local == 1 && context.server.aof.phase() == AofState::Off {
        return Err(NO_FILE);
    }
    let replicas = usize::try_from(replicas).unwrap_or(usize::MAX);
    let awaited = AckRequirement::Synced { here: local == 1, replicas };
    Ok(await_copies(context, args, reply, timeout, awaited))
}

/// Replies at once where the copies are there, or nobody may wait.
fn await_copies(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    timeout: Option<i64>,
    awaited: AckRequirement,
) -> ControlOutcome {
    let server = context.server;
    let lsn = context.session().map_or(0, |session| session.last_write());
    let needs_file = matches!(awaited, AckRequirement::Synced { here: true, .. });
    let is_over = is_on_replicas(server, lsn, awaited) && (!needs_file || is_in_file(server, lsn));
    if is_over || context.unit.is_some() {
        reply_copies(server, lsn, awaited, reply);
        return ControlOutcome::Done;
    }
    let ran = ExecutedCommand::begun(context.entry, args);
    let blocked = Blocked::on_copies(ran, timeout, AckWait::new(lsn, awaited));
    ControlOutcome::Wait(Suspension::Blocked(Box::new(blocked)))
}

/// Until when to wait, on the monotonic clock in microseconds; for ever if `None`.
fn timeout(context: &Context<'_>, args: Args<'_>, index: usize) -> Result<Option<i64>, Refusal> {
    let millis = parse_i64(&args[index]).ok_or(NOT_A_WHOLE_TIMEOUT)?;
    if millis < 0 {
        return Err(NEGATIVE_TIMEOUT);
    }
    let clock = context.server.keyspace.clock();
    clock.now_ms().checked_add(millis).ok_or(TIMEOUT_OUT_OF_RANGE)?;
    let until_us = clock.monotonic_us().saturating_add(millis.saturating_mul(1000));
    Ok((millis > 0).then_some(until_us))
}

const WAIT_ON_REPLICA: Refusal = Refusal::error(
    "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a \
     replica is configured to be writable (which is not the default) writes to replicas are just \
     local and are not propagated.",
);
const WAITAOF_ON_REPLICA: Refusal = Refusal::error(
    "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas \
     are just local and are not propagated.",
);
const NOT_A_COUNT_OF_FILES: Refusal =
    Refusal::error("ERR value is out of range, value must between 0 and 1");
