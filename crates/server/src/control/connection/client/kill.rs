//! CLIENT KILL and UNBLOCK: what one client may do to others.
//!
//! Invariant: a session is closed by its own worker; who kills it only leaves the wish.

use std::sync::Arc;

use commands::arguments::{integer, is};
use commands::declare::{Command, Spec, at_least};
use keyspace::Refusal;
use proto::{Args, Reply};

use super::OF_OTHERS;
use super::filter::{Filter, Purpose, Viewer};
use super::list::address;
use crate::clients::{Client, Signal, client_flags};
use crate::control::help::misused;
use crate::control::{Context, ControlCommand, Next};

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

fn kill(context: &mut Context<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    if args.len() == 3 {
        return kill_by_address(context, &args[2], reply);
    }
    let filter = Filter::parse(context.server, args, Purpose::Kill)?;
    let viewer = Viewer::of(context)?;
    let mut next = Next::Done;
    let mut killed = 0;
    for client in context.server.clients.all() {
        if filter.admits(viewer, &client) {
            killed += 1;
            end(context, &client, &mut next)?;
        }
    }
    reply.integer(killed);
    Ok(next)
}

/// The oldest form, which kills one client and errs if there is none.
fn kill_by_address(
    context: &mut Context<'_>,
    wanted: &[u8],
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let server = context.server;
    let is_wanted = |client: &Client| {
        !client.is_asked(Signal::Kill) && address(server, client.peer).as_bytes() == wanted
    };
    let clients = server.clients.all();
    let Some(client) = clients.iter().find(|client| is_wanted(client)) else {
        return Err(Refusal::error("ERR No such client"));
    };
    let mut next = Next::Done;
    end(context, client, &mut next)?;
    reply.ok();
    Ok(next)
}

/// Ends another client, or the own one once it has its reply.
fn end(context: &mut Context<'_>, client: &Arc<Client>, next: &mut Next) -> Result<(), Refusal> {
    if client.id == context.session()?.client.id {
        *next = Next::Close;
    } else {
        context.server.mailboxes.signal(client, Signal::Kill, &context.worker()?.rounds);
    }
    Ok(())
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
) -> Result<Next, Refusal> {
    if args.len() > 4 {
        return Err(misused("CLIENT", &args[1]));
    }
    let signal = match args.get(3) {
        None => Signal::Unblock,
        Some(reason) if is(reason, "TIMEOUT") => Signal::Unblock,
        Some(reason) if is(reason, "ERROR") => Signal::UnblockError,
        Some(_) => {
            return Err(Refusal::error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
    };
    let id = integer(args, 2)?;
    let client = u64::try_from(id).ok().and_then(|id| context.server.clients.find(id));
    let blocked = client.filter(|client| client.has_flag(client_flags::BLOCKED));
    if let Some(client) = &blocked {
        context.server.mailboxes.signal(client, signal, &context.worker()?.rounds);
    }
    reply.integer(i64::from(blocked.is_some()));
    Ok(Next::Done)
}
