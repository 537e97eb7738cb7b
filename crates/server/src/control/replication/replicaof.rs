//! REPLICAOF, as far as a server that cannot follow another can answer.
//!
//! Invariant: a server that cannot follow another says so instead of pretending.

use commands::arguments::is;
use commands::declare::{Command, Flags, Group, Spec, exactly};
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, Next};

pub(super) const REPLICAOF: ControlCommand = Command {
    spec: Spec {
        name: "REPLICAOF",
        since: "5.0.0",
        group: Group::Server,
        syntax: "<host port | NO ONE>",
        summary: "Configures a server as replica of another, or promotes it to a master.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::STALE).and(Flags::NO_ASYNC_LOADING),
        ..Spec::BASE
    },
    subcommands: &[],
    run: replicaof,
};

pub(super) const SLAVEOF: ControlCommand = Command {
    spec: Spec {
        name: "SLAVEOF",
        since: "1.0.0",
        group: Group::Server,
        syntax: "<host port | NO ONE>",
        summary: "Sets a Redis server as a replica of another, or promotes it to being a master.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::STALE).and(Flags::NO_ASYNC_LOADING),
        deprecated: Some(("5.0.0", "`REPLICAOF`")),
        ..Spec::BASE
    },
    subcommands: &[],
    run: replicaof,
};

fn replicaof(_: &mut Context<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Refusal> {
    if is(&args[1], "NO") && is(&args[2], "ONE") {
        reply.ok();
        return Ok(Next::Done);
    }
    let port = base::number::parse_i64(&args[2]).filter(|port| (0..=65535).contains(port));
    if port.is_none() {
        return Err(Refusal::error("ERR Invalid master port"));
    }
    Err(Refusal::error("ERR Replication is not supported yet: this server can only be a master"))
}
