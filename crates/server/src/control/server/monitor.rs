//! MONITOR: a connection that sees what the others do.
//!
//! Invariant: a watcher stays one until RESET or its end.

use commands::declare::{Command, Flags, Group, Spec, exactly};
use engine::clients::registry::client_flags;
use keyspace::Refusal;

use crate::control::context::{ControlCommand, ControlOutcome};

const IN_TRANSACTION: Refusal =
    Refusal::error("ERR MONITOR isn't allowed for DENY BLOCKING client");

pub(super) const MONITOR: ControlCommand = Command {
    spec: Spec {
        name: "MONITOR",
        since: "1.0.0",
        group: Group::Server,
        summary: "Listens for all requests received by the server in real-time.",
        arity: exactly(1),
        flags: Flags::ADMIN
            .and(Flags::NOSCRIPT)
            .and(Flags::LOADING)
            .and(Flags::STALE)
            .and(Flags::SESSION),
        ..Spec::BASE
    },
    subcommands: &[],
    run: |context, _, reply| {
        let (server, is_queued) = (context.server, context.unit.is_some());
        let client = &context.session()?.client;
        if is_queued {
            return Err(IN_TRANSACTION);
        }
        // As in Redis, a client that watches already is not answered.
        if !client.has_flag(client_flags::MONITOR) {
            server.pushes.monitors.add(&server.mailboxes, client);
            reply.ok();
        }
        Ok(ControlOutcome::Done)
    },
};
