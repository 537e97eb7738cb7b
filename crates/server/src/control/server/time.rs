//! TIME: one look at the clock.
//!
//! Invariant: the command changes nothing.

use commands::declare::{Command, Flags, Group, Role, Spec, exactly};
use engine::transaction::control_plane::write_time;

use crate::control::context::{ControlCommand, ControlOutcome};

pub(super) const TIME: ControlCommand = Command {
    spec: Spec {
        name: "TIME",
        role: Role::Time,
        since: "2.6.0",
        group: Group::Server,
        summary: "Returns the server time.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: Flags::LOADING
            .and(Flags::STALE)
            .and(Flags::FAST)
            .and(Flags::IDEMPOTENT)
            .and(Flags::CHANGES_NOTHING),
        tips: &["nondeterministic_output"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |context, _, reply| {
        // One moment for all of a transaction or script, whichever thread it is run on. A script
        // that has run for long is told the time as it goes on (`scripting::script_host`).
        let now = match &context.unit {
            Some(unit) => unit.tx.now_us(),
            None => context.server.keyspace.clock().now_us(),
        };
        write_time(now, reply);
        Ok(ControlOutcome::Done)
    },
};
