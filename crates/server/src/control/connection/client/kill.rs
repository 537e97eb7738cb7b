//! CLIENT KILL and UNBLOCK: what one client may do to others.
//!
//! Invariants: a session is closed by its own worker; the client that kills it leaves the wish, and
//! is answered when it is fulfilled. A client that was killed or unblocked is not served from then
//! on.

use std::sync::Arc;
use std::time::Duration;

use commands::arguments::{integer, is};
use commands::declare::{Command, Spec, at_least};
use engine::clients::client_id::ClientId;
use engine::clients::registry::{Client, Signal, client_flags};
use engine::journal::ReplyLsn;
use engine::runtime::failpoint;
use engine::session;
use engine::session::client_info::address;
use engine::session::timer::after;
use engine::session::{AfterOffload, ExecutedCommand, OffloadResult, SessionEndWait, Suspension};
use keyspace::Refusal;
use proto::{Args, Output, Reply};

use super::filter::{ClientFilter, Purpose, Viewer};
use super::specs::OF_OTHERS;
use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::control::help::misused;

/// How long a client that kills others waits for their workers, which may be busy with something
/// long.
const PATIENCE: Duration = Duration::from_millis(100);

const KILL_SYNTAX: &str = "<ip:port | [ID client-id [client-id ...]] [TYPE <NORMAL | MASTER | \
    PRIMARY | SLAVE | REPLICA | PUBSUB>] [USER username] [ADDR ip:port] [LADDR ip:port] \
    [SKIPME <YES | NO>] [MAXAGE maxage] [IDLE idle] [FLAGS flags] [NAME name] \
    [LIB-NAME libname] [LIB-VER libver] [DB db] [CAPA capability] [IP ip] \
    [NOT-TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB>] [NOT-ID client-id [client-id ...]] \
    [NOT-USER username] [NOT-ADDR ip:port] [NOT-LADDR ip:port] [NOT-NAME name] [NOT-FLAGS flags] \
    [NOT-LIB-NAME libname] [NOT-LIB-VER libver] [NOT-DB db] [NOT-CAPA capability] [NOT-IP ip]>";

pub(super) const KILL: ControlCommand = Command {
    spec: Spec {
        name: "KILL",
        since: "2.4.0",
        syntax: KILL_SYNTAX,
        summary: "Terminates open connections.",
        complexity: "O(N) where N is the number of client connections",
        arity: at_least(3),
        history: &[
            ("2.8.12", "Added new filter format."),
            ("2.8.12", "`ID` option."),
            ("3.2.0", "Added `master` type in for `TYPE` option."),
            (
                "5.0.0",
                "Replaced `slave` `TYPE` with `replica`. `slave` still supported for backward \
                 compatibility.",
            ),
            ("6.2.0", "`LADDR` option."),
            ("7.4.0", "`MAXAGE` option."),
        ],
        ..OF_OTHERS
    },
    subcommands: &[],
    run: kill,
};

fn kill(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    if args.len() == 3 {
        return kill_by_address(context, args, reply);
    }
    let filter = ClientFilter::parse(context.server, args, Purpose::Kill)?;
    let viewer = Viewer::of(context)?;
    let mut clients = context.server.clients.all();
    clients.retain(|client| filter.admits(viewer, client));
    end(context, args, &clients, reply)
}

/// The oldest form, which kills one client and errs if there is none.
fn kill_by_address(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    let is_wanted = |client: &Client| {
        !client.is_asked(Signal::Kill) && address(server, client.peer).as_bytes() == &args[2]
    };
    let clients = server.clients.all();
    let Some(client) = clients.iter().find(|client| is_wanted(client)) else {
        return Err(Refusal::error("ERR No such client"));
    };
    end(context, args, std::slice::from_ref(client), reply)
}

/// Ends other clients, and the own one once it has its reply. The reply comes when the others are
/// gone, but within a transaction, where nobody waits.
fn end(
    context: &mut Context<'_>,
    args: Args<'_>,
    clients: &[Arc<Client>],
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let own_id = context.session()?.client.id;
    let (mut ids, mut next) = (Vec::new(), ControlOutcome::Done);
    for client in clients {
        if client.id == own_id {
            next = ControlOutcome::Close;
            continue;
        }
        failpoint::point();
        context.server.mailboxes.signal(client, Signal::Kill, &context.lane()?.wakes);
        failpoint::point();
        if let Some(waiter) = client.names().waiter() {
            // What takes long is waited for as the client's end is.
            let _ = session::unblock(&waiter, false);
        }
        ids.push(client.id);
    }
    if ids.is_empty() || matches!(next, ControlOutcome::Close) || context.unit.is_some() {
        answer(args, clients.len(), reply);
        return Ok(next);
    }
    Ok(ControlOutcome::Wait(await_disconnects(context, args, ids)?))
}

/// The oldest form names one client and is told OK, the others how many there were.
fn answer(args: Args<'_>, killed: usize, reply: &mut Reply<'_>) {
    match args.len() {
        3 => reply.ok(),
        _ => reply.integer(i64::try_from(killed).expect("there are fewer clients")),
    }
}

/// A wait for the end of these clients' sessions, and the reply to it.
fn await_disconnects(
    context: &mut Context<'_>,
    args: Args<'_>,
    ids: Vec<ClientId>,
) -> Result<Suspension, Refusal> {
    let (server, entry, resp) = (context.server, context.entry, context.session()?.resp);
    let mut output = Output::new();
    answer(args, ids.len(), &mut Reply::new(&mut output, resp));
    let ran = ExecutedCommand::begun(entry, args);
    let done =
        OffloadResult { output, seen: ReplyLsn::default(), ran, then: AfterOffload::Nothing };
    let began_us = server.keyspace.clock().monotonic_us();
    Ok(Suspension::SessionEndWait(Box::new(SessionEndWait::new(
        ids,
        (began_us, after(began_us, PATIENCE)),
        done,
    ))))
}

pub(super) const UNBLOCK: ControlCommand = Command {
    spec: Spec {
        name: "UNBLOCK",
        since: "5.0.0",
        syntax: "client-id [TIMEOUT | ERROR]",
        summary: "Unblocks a client blocked by a blocking command from a different connection.",
        complexity: "O(log N) where N is the number of client connections",
        arity: at_least(3),
        ..OF_OTHERS
    },
    subcommands: &[],
    run: unblock,
};

fn unblock(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    if args.len() > 4 {
        return Err(misused("CLIENT", &args[1]));
    }
    let with_error = match args.get(3) {
        None => false,
        Some(reason) if is(reason, "TIMEOUT") => false,
        Some(reason) if is(reason, "ERROR") => true,
        Some(_) => {
            return Err(Refusal::error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
    };
    let id = integer(args, 2)?;
    let client = u64::try_from(id).ok().and_then(|id| context.server.clients.find(id));
    let blocked = client.filter(|client| client.has_flag(client_flags::BLOCKED));
    let (server, wakes) = (context.server, &context.lane()?.wakes);
    let Some(client) = blocked else {
        reply.integer(0);
        return Ok(ControlOutcome::Done);
    };
    if let Some(has_ended) = session::end_wait(server, &client, with_error, wakes) {
        reply.integer(i64::from(has_ended));
        return Ok(ControlOutcome::Done);
    }
    Ok(ControlOutcome::offload(move |_, _, reply| {
        let has_ended = session::await_end_of_wait(server, &client, with_error);
        reply.integer(i64::from(has_ended));
        Ok(())
    }))
}
