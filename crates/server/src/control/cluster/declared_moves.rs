//! What the commands of moves are.
//!
//! Invariant: every command declared here is a subcommand of CLUSTER.

use commands::declare::{Flags, Group, Role, Spec, at_least, exactly};

use super::commands::{offered, read};
use super::{moves, sync_slots};
use crate::control::context::ControlCommand;

/// What begins or ends moves.
const STEERS: Spec = Spec {
    group: Group::Cluster,
    flags: Flags::ADMIN.and(Flags::STALE).and(Flags::NO_ASYNC_LOADING),
    origin: "valkey",
    since: "9.0.0",
    ..Spec::BASE
};

pub(super) const MIGRATESLOTS: ControlCommand = offered(
    moves::migrate_slots,
    Spec {
        name: "MIGRATESLOTS",
        syntax: "SLOTSRANGE start-slot end-slot [start-slot end-slot ...] NODE node-id",
        summary: "Migrate the given slots from this node to the specified nodes.",
        complexity: "O(N) where N is the total number of the slots between all start slot and end \
            slot arguments.",
        arity: at_least(4),
        ..STEERS
    },
);

pub(super) const CANCELSLOTMIGRATIONS: ControlCommand = offered(
    |context, _, _| read(context, moves::cancel),
    Spec {
        name: "CANCELSLOTMIGRATIONS",
        summary: "Cancel all current ongoing slot migration operations.",
        complexity: "O(N), where N is the number of slot migration operations being cancelled.",
        arity: exactly(2),
        ..STEERS
    },
);

pub(super) const GETSLOTMIGRATIONS: ControlCommand = offered(
    |context, _, _| read(context, moves::list),
    Spec {
        name: "GETSLOTMIGRATIONS",
        summary: "Gets the status of ongoing and recently finished slot import and export \
            operations.",
        complexity: "O(N), where N is the number of active slot import and export jobs.",
        arity: exactly(2),
        ..STEERS
    },
);

pub(super) const MIGRATION: ControlCommand = offered(
    moves::migration,
    Spec {
        name: "MIGRATION",
        since: "8.4.0",
        origin: "redis",
        // Another node is asked, which takes its time.
        flags: STEERS.flags.and(Flags::NOSCRIPT).and(Flags::NO_MULTI),
        syntax: "<IMPORT start-slot end-slot [start-slot end-slot ...] | STATUS <ID id | ALL> | \
            CANCEL <ID id | ALL>>",
        summary: "Moves hash slots to this node at once, and tells of moves.",
        complexity: "O(N) where N is the total number of the slots.",
        arity: at_least(4),
        ..STEERS
    },
);

pub(super) const SYNCSLOTS: ControlCommand = offered(
    sync_slots::sync_slots,
    Spec {
        name: "SYNCSLOTS",
        role: Role::SyncSlots,
        summary: "A container for internal slot migration commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(3),
        ..STEERS
    },
);
