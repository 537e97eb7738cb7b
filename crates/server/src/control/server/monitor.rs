//! MONITOR: a connection that sees what the others do.
//!
//! Invariant: a watcher stays one until RESET or its end.

use commands::declare::{Command, Flags, Group, Spec, exactly};

use crate::clients::client_flags;
use crate::control::{ControlCommand, Next};

pub(super) const MONITOR: ControlCommand = Command {
    spec: Spec {
        name: "MONITOR",
        since: "1.0.0",
        group: Group::Server,
        summary: "Listens for all requests received by the server in real-time.",
        arity: exactly(1),
        flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::LOADING).and(Flags::STALE),
        ..Spec::BASE
    },
    subcommands: &[],
    run: |context, _, reply| {
        // As in Redis, who watches already is not answered.
        if !context.session.client.has_flag(client_flags::MONITOR) {
            context.server.watchers.add(&context.server.mailboxes, &context.session.client);
            reply.ok();
        }
        Ok(Next::Done)
    },
};
