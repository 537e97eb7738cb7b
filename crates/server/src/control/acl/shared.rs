//! What the subcommands of ACL have in common.
//!
//! Invariant: what reads or changes users is for administrators.

use base::quote::shown;
use commands::declare::{Flags, Group, Spec};
use commands::errors::showing;
use keyspace::Refusal;
use proto::Args;

use crate::control::help;

/// What reads or changes the users.
pub(super) const OF_USERS: Spec = Spec {
    group: Group::Server,
    flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::LOADING).and(Flags::STALE),
    ..Spec::BASE
};

pub(super) fn at_most(args: Args<'_>, count: usize) -> Result<(), Refusal> {
    if args.len() <= count { Ok(()) } else { Err(help::misused("ACL", &args[1])) }
}

pub(super) fn quoting(before: &str, word: &[u8], after: &str) -> Refusal {
    showing(&format!("ERR {before} '"), shown(word, usize::MAX), &format!("'{after}"))
}
