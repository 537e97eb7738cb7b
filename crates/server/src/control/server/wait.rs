//! WAIT and WAITAOF, as a server without replicas answers them.
//!
//! Invariant: no replica ever comes that could end such a wait, so only the disk, its timeout,
//! CLIENT UNBLOCK and the end of the connection do.

use std::time::Duration;

use base::number::parse_i64;
use commands::arguments::integer;
use commands::declare::{Command, Flags, Group, Spec, exactly};
use commands::errors::NOT_POSITIVE;
use keyspace::{Lsn, Refusal};
use proto::{Args, Reply};

use crate::aof::Phase;
use crate::control::context::{Context, ControlCommand, Next};
use crate::server::Server;
use crate::session::{Awaited, Blocked, Ran, Safety, Stage};

/// What both share.
const BASE: Spec = Spec {
    group: Group::Generic,
    complexity: "O(1)",
    flags: Flags::BLOCKING.and(Flags::REPEATABLE),
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
    if replicas <= 0 || context.unit.is_some() {
        reply.integer(0);
        return Ok(Next::Done);
    }
    let until = timeout.map(|timeout| Box::pin(tokio::time::sleep(timeout)));
    let ran = Ran::begun(context.entry, args);
    let blocked = Blocked::on_time(ran, until, |reply| reply.integer(0));
    Ok(Next::Wait(Stage::Blocked(Box::new(blocked))))
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
    let server = context.server;
    if local == 1 && server.aof.phase() == Phase::Off {
        return Err(NO_FILE);
    }
    let awaited = match (local, replicas) {
        (0, _) => Awaited::Replicas,
        (_, 0) => Awaited::File,
        _ => Awaited::Both,
    };
    let lsn = server.journal.end();
    let is_over = match awaited {
        Awaited::Replicas => replicas == 0,
        Awaited::File => is_in_file(server, lsn),
        Awaited::Both => false,
    };
    if is_over || context.unit.is_some() {
        reply_copies(server, lsn, reply);
        return Ok(Next::Done);
    }
    let until = timeout.map(|timeout| Box::pin(tokio::time::sleep(timeout)));
    let ran = Ran::begun(context.entry, args);
    let blocked = Blocked::on_disk(ran, until, Safety::new(lsn, awaited));
    Ok(Next::Wait(Stage::Blocked(Box::new(blocked))))
}

/// Says how many copies there are of what was written up to `lsn`: in the file here, whether or not
/// it was asked for, and none on replicas.
pub(crate) fn reply_copies(server: &Server, lsn: Lsn, reply: &mut Reply<'_>) {
    reply.array(2);
    reply.integer(i64::from(is_in_file(server, lsn)));
    reply.integer(0);
}

/// Whether there is a file with a base, and all up to `lsn` is safe in it.
fn is_in_file(server: &Server, lsn: Lsn) -> bool {
    server.aof.is_relied_on() && lsn <= server.journal.safe()
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
