//! What the subcommands of CLIENT have in common.
//!
//! Invariant: a subcommand that reaches other clients is for administrators.

use commands::declare::{Flags, Group, Role, Spec};

/// What a client does to itself.
pub(super) const OF_ITSELF: Spec = Spec {
    group: Group::Connection,
    role: Role::Client,
    flags: Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE),
    ..Spec::BASE
};

/// What a client does to others.
pub(super) const OF_OTHERS: Spec = Spec { flags: OF_ITSELF.flags.and(Flags::ADMIN), ..OF_ITSELF };
