//! What a script or a function says that it does.
//!
//! Invariant: nothing is run to know it.

use commands::{Flags, Role};
use proto::Args;
use script::{Program, Sha1};

use crate::limits::scripts::state::Scripts;
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;

/// Whether a command runs a script or a function, which may declare what it does.
#[inline]
pub(crate) fn may_declare(role: Role) -> bool {
    matches!(role, Role::RunScript | Role::RunDigest | Role::RunFunction)
}

/// The flags of a command; of one that runs a script or a function which declares what it does,
/// whether that writes, and needs memory.
pub(crate) fn declared_flags(server: &Shared, entry: &CommandEntry, args: Args<'_>) -> Flags {
    let Scripts { cache, libraries, .. } = &server.scripts;
    let declared = match entry.spec.role {
        Role::RunScript => match cache.get(Sha1::of(&args[1])) {
            Some(program) => Some(program.flags()),
            None => Program::parse(&args[1]).ok().map(|program| program.flags()),
        },
        Role::RunDigest => cache.get_by_digits(&args[1]).map(|program| program.flags()),
        Role::RunFunction => {
            libraries.hold(|state| state.function(&args[1]).map(|(_, function)| function.flags))
        }
        _ => None,
    };
    match declared {
        Some(declared) if declared.no_writes => Flags::READONLY,
        Some(declared) if !declared.is_compatible && declared.allow_oom => Flags::WRITE,
        Some(declared) if !declared.is_compatible => Flags::WRITE.and(Flags::DENYOOM),
        _ => entry.spec.flags,
    }
}
