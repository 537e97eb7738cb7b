//! CLIENT subcommands about client-side caching, which is off for every client.
//!
//! Invariant: no client is promised invalidations that never come.

use commands::arguments::{Options, is};
use commands::declare::{Command, Spec, at_least, exactly};
use commands::errors::SYNTAX;
use keyspace::Refusal;
use proto::{Args, Reply};

use super::OF_ITSELF;
use crate::control::{Context, ControlCommand, Next};

pub(super) const TRACKING: ControlCommand = Command {
    spec: Spec {
        name: "TRACKING",
        since: "6.0.0",
        syntax: "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] \
         [OPTIN] [OPTOUT] [NOLOOP]",
        summary: "Controls server-assisted client-side caching for the connection.",
        complexity: "O(1). Some options may introduce additional complexity.",
        arity: at_least(3),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: tracking,
};

fn tracking(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let mut options = Options::from(args, 3);
    while let Some(word) = options.word() {
        if is(word, "REDIRECT") {
            let id = options.integer()?;
            let id = u64::try_from(id).ok();
            if id.and_then(|id| context.server.clients.find(id)).is_none() {
                return Err(Refusal::error(
                    "ERR The client ID you want redirect to does not exist",
                ));
            }
        } else if is(word, "PREFIX") {
            options.value()?;
        } else if !["BCAST", "OPTIN", "OPTOUT", "NOLOOP"].iter().any(|known| is(word, known)) {
            return Err(SYNTAX);
        }
    }
    if is(&args[2], "ON") {
        return Err(Refusal::error("ERR Client tracking is not supported yet"));
    }
    if !is(&args[2], "OFF") {
        return Err(SYNTAX);
    }
    reply.ok();
    Ok(Next::Done)
}

pub(super) const CACHING: ControlCommand = Command {
    spec: Spec {
        name: "CACHING",
        since: "6.0.0",
        syntax: "<YES | NO>",
        summary: "Instructs the server whether to track the keys in the next request.",
        complexity: "O(1)",
        arity: exactly(3),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: caching,
};

fn caching(_: &mut Context<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<Next, Refusal> {
    Err(Refusal::error(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
         OPTOUT mode enabled",
    ))
}

pub(super) const GETREDIR: ControlCommand = Command {
    spec: Spec {
        name: "GETREDIR",
        since: "6.0.0",
        summary: "Returns the client ID to which the connection's tracking notifications are \
         redirected.",
        complexity: "O(1)",
        arity: exactly(2),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: getredir,
};

fn getredir(_: &mut Context<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    reply.integer(-1);
    Ok(Next::Done)
}

pub(super) const TRACKINGINFO: ControlCommand = Command {
    spec: Spec {
        name: "TRACKINGINFO",
        since: "6.2.0",
        summary: "Returns information about server-assisted client-side caching for the \
         connection.",
        complexity: "O(1)",
        arity: exactly(2),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: trackinginfo,
};

fn trackinginfo(_: &mut Context<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(1);
    reply.bulk(b"off");
    reply.bulk(b"redirect");
    reply.integer(-1);
    reply.bulk(b"prefixes");
    reply.array(0);
    Ok(Next::Done)
}
