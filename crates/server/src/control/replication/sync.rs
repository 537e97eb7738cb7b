//! What a replica sends on its way to become one: REPLCONF, PSYNC, SYNC.
//!
//! Invariant: a client that asks for a sync runs nothing more on its worker; the links answer.

use commands::arguments::is;
use commands::declare::{Command, Flags, Group, Role, Spec, at_least, exactly};
use engine::clients::registry::Signal;
use engine::session::{AskedSync, Blocked, ExecutedCommand, Suspension};
use keyspace::Refusal;
use proto::{Args, Reply};
use replication::primary::ReplconfReply;

use crate::control::context::{Context, ControlCommand, ControlOutcome};

/// What both forms of asking for a sync share.
const BASE: Spec = Spec {
    group: Group::Server,
    summary: "An internal command used in replication.",
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::NO_ASYNC_LOADING)
        .and(Flags::NO_MULTI)
        .and(Flags::SESSION),
    ..Spec::BASE
};

pub(super) const PSYNC: ControlCommand = Command {
    spec: Spec {
        name: "PSYNC",
        role: Role::Psync,
        since: "2.8.0",
        syntax: "replicationid offset",
        arity: at_least(3),
        ..BASE
    },
    subcommands: &[],
    run: psync,
};

pub(super) const SYNC: ControlCommand = Command {
    spec: Spec { name: "SYNC", role: Role::Sync, since: "1.0.0", arity: exactly(1), ..BASE },
    subcommands: &[],
    run: |context, args, _| ask(context, args, AskedSync::Sync),
};

pub(super) const REPLCONF: ControlCommand = Command {
    spec: Spec {
        name: "REPLCONF",
        role: Role::Replconf,
        since: "3.0.0",
        group: Group::Server,
        summary: "An internal command for configuring the replication stream.",
        complexity: "O(1)",
        arity: at_least(1),
        flags: Flags::ADMIN
            .and(Flags::NOSCRIPT)
            .and(Flags::LOADING)
            .and(Flags::STALE)
            .and(Flags::ALLOW_BUSY)
            .and(Flags::SESSION),
        ..Spec::BASE
    },
    subcommands: &[],
    run: replconf,
};

fn psync(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let failover = args.len() > 3 && is(&args[3], "FAILOVER");
    let asked = AskedSync::Psync { id: args[1].to_vec(), byte: args[2].to_vec(), failover };
    ask(context, args, asked)
}

/// The session moves to the links, with the request waiting for them.
fn ask(
    context: &mut Context<'_>,
    args: Args<'_>,
    asked: AskedSync,
) -> Result<ControlOutcome, Refusal> {
    let ran = ExecutedCommand::begun(context.entry, args);
    let session = context.session()?;
    session.replica_mut().asked = Some(asked);
    session.client.ask(Signal::Move);
    session.client.wake();
    Ok(ControlOutcome::Wait(Suspension::Blocked(Box::new(Blocked::on_time(ran, None, |_| ())))))
}

fn replconf(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    let words: Vec<&[u8]> = (1..args.len()).map(|index| &args[index]).collect();
    let announced = &mut context.session()?.replica_mut().announced;
    match server.links.announce(server, announced, &words) {
        ReplconfReply::Ok => reply.ok(),
        ReplconfReply::Error(error) => {
            return Err(Refusal::owned(String::from_utf8_lossy(&error).into_owned()));
        }
        // Only a replica that is attached acknowledges anything.
        ReplconfReply::Silence | ReplconfReply::Ack(_) => {}
    }
    Ok(ControlOutcome::Done)
}
