//! The simplest commands of a connection.
//!
//! Invariant: none of them needs a key or another client.

use commands::declare::{Command, Flags, Group, Spec, at_least};
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::{Context, ControlCommand, Next};

pub(super) const PING: ControlCommand = Command {
    spec: Spec {
        name: "PING",
        since: "1.0.0",
        group: Group::Connection,
        syntax: "[message]",
        summary: "Returns the server's liveliness response.",
        complexity: "O(1)",
        arity: at_least(1),
        flags: Flags::FAST,
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: ping,
};

fn ping(context: &mut Context<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(&args[1]),
        _ => return Err(commands::errors::wrong_arity(&context.entry.full_name)),
    }
    Ok(Next::Done)
}
