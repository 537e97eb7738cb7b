//! TIME and ROLE: one look at the server each.
//!
//! Invariant: neither of them changes anything.

use commands::declare::{Command, Flags, Group, Role, Spec, exactly};
use engine::transaction::control_plane::write_time;

use crate::control::context::{ControlCommand, Next};

pub(super) const TIME: ControlCommand = Command {
    spec: Spec {
        name: "TIME",
        role: Role::Time,
        since: "2.6.0",
        group: Group::Server,
        summary: "Returns the server time.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: Flags::LOADING.and(Flags::STALE).and(Flags::FAST).and(Flags::REPEATABLE),
        tips: &["nondeterministic_output"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |context, _, reply| {
        // One moment for all of a transaction or script, whichever thread it is run on. A script
        // that has run for long is told the time as it goes on (`scripts::script_host`).
        let now = match &context.unit {
            Some(unit) => unit.tx.now_us(),
            None => context.server.keyspace.clock().now_us(),
        };
        write_time(now, reply);
        Ok(Next::Done)
    },
};

pub(crate) const ROLE: ControlCommand = Command {
    spec: Spec {
        name: "ROLE",
        since: "2.8.12",
        group: Group::Server,
        summary: "Returns the replication role.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: Flags::NOSCRIPT
            .and(Flags::LOADING)
            .and(Flags::STALE)
            .and(Flags::FAST)
            .and(Flags::REPEATABLE),
        categories: &["@admin", "@dangerous"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |_, _, reply| {
        reply.array(3);
        reply.bulk(b"master");
        reply.integer(0);
        reply.array(0);
        Ok(Next::Done)
    },
};
