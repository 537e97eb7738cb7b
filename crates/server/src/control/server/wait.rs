//! WAIT and WAITAOF, as a server without replicas answers them.
//!
//! Invariant: no replica ever comes that could end such a wait, so only the disk, its timeout,
//! CLIENT UNBLOCK and the end of the connection do.

use std::time::Duration;

use base::number::parse_i64;
use commands::arguments::integer;
use commands::declare::{Command, Flags, Group, Spec, exactly};
use commands::errors::NOT_POSITIVE;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::aof::Phase;
use crate::control::{Context, ControlCommand, Next};
use crate::session::{Blocked, Safety, Stage};

/// What both share.
const BASE: Spec = Spec {
    group: Group::Generic,
    complexity: "O(1)",
    flags: Flags::BLOCKING,
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

fn wait(context: &mut Context<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    let replicas = integer(args, 1)?;
    let timeout = timeout(context, args, 2)?;
    Ok(wait_for(context, replicas, timeout, |reply| reply.integer(0), reply))
}

fn wait_aof(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let local = integer(args, 1)?;
    if !(0..=1).contains(&local) {
        return Err(NOT_A_COUNT_OF_FILES);
    }
    let replicas = parse_i64(&args[2]).filter(|&count| count >= 0).ok_or(NOT_POSITIVE)?;
    let timeout = timeout(context, args, 3)?;
    if local == 0 {
        return Ok(wait_for(context, replicas, timeout, |reply| reply_copies(0, reply), reply));
    }
    let server = context.server;
    if server.aof.phase() == Phase::Off {
        return Err(NO_FILE);
    }
    let lsn = server.journal.end();
    if replicas == 0 && lsn <= server.journal.safe() {
        reply_copies(1, reply);
        return Ok(Next::Done);
    }
    if context.unit.is_some() {
        let local = i64::from(lsn <= server.journal.safe());
        reply_copies(local, reply);
        return Ok(Next::Done);
    }
    let until = timeout.map(|timeout| Box::pin(tokio::time::sleep(timeout)));
    let blocked = Blocked::on_disk(until, Safety::new(lsn, replicas == 0));
    Ok(Next::Wait(Stage::Blocked(Box::new(blocked))))
}

/// Says how many copies there are: in the file here, and none on replicas.
pub(crate) fn reply_copies(local: i64, reply: &mut Reply<'_>) {
    reply.array(2);
    reply.integer(local);
    reply.integer(0);
}

/// Answers at once if nobody is asked for, or within a unit, where nobody waits; else when the time
/// is over.
fn wait_for(
    context: &Context<'_>,
    replicas: i64,
    timeout: Option<Duration>,
    answer: fn(&mut Reply<'_>),
    reply: &mut Reply<'_>,
) -> Next {
    if replicas <= 0 || context.unit.is_some() {
        answer(reply);
        return Next::Done;
    }
    let until = timeout.map(|timeout| Box::pin(tokio::time::sleep(timeout)));
    Next::Wait(Stage::Blocked(Box::new(Blocked::on_time(until, answer))))
}

/// Milliseconds to wait; for ever if `None`.
fn timeout(
    context: &Context<'_>,
    args: Args<'_>,
    index: usize,
) -> Result<Option<Duration>, Refusal> {
    let millis = parse_i64(&args[index]).ok_or(NOT_A_TIMEOUT)?;
    if millis < 0 {
        return Err(NEGATIVE_TIMEOUT);
    }
    context.server.keyspace.clock().now_ms().checked_add(millis).ok_or(LATE_TIMEOUT)?;
    Ok(u64::try_from(millis).ok().filter(|&millis| millis > 0).map(Duration::from_millis))
}

const NOT_A_COUNT_OF_FILES: Refusal =
    Refusal::error("ERR value is out of range, value must between 0 and 1");
pub(crate) const NO_FILE: Refusal =
    Refusal::error("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
const NOT_A_TIMEOUT: Refusal = Refusal::error("ERR timeout is not an integer or out of range");
const NEGATIVE_TIMEOUT: Refusal = Refusal::error("ERR timeout is negative");
const LATE_TIMEOUT: Refusal = Refusal::error("ERR timeout is out of range");
