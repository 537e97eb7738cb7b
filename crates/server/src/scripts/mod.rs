//! Lua scripts and functions: the cache of all that EVAL and SCRIPT LOAD brought, the libraries,
//! and how one of them runs as a unit.
//!
//! A script runs under the locks of its declared keys. When it touches another key, all it did is
//! undone, the union is locked, and it runs again with the same time and the same random numbers;
//! when it takes long, it begins again on a heavy-work thread.
//!
//! Invariant: an interpreter stays with its thread and is not there while it runs, so after a panic
//! the next script finds a new one.

mod alone;
mod books;
mod brevity;
mod cache;
mod caller;
mod control;
mod eval;
mod fcall;
mod function;
mod interpreter;
mod interpreters;
mod libraries;
mod load;
mod run;
mod running;
pub(crate) mod state;

use commands::{Flags, Role};
use proto::Args;
use script::{Program, Sha1};

pub use alone::check_library;
pub(crate) use alone::said_of;
pub(crate) use function::replay;
pub(crate) use interpreter::{collect_garbage, drop_stale, tend};
pub(crate) use libraries::{State as LibrariesState, Still};

use crate::control::context::ControlCommand;
use crate::shared::Shared;
use crate::table::Entry;
use crate::unit::UnitCommand;

/// Those that run as a unit.
pub(crate) const COMMANDS: [&[&UnitCommand]; 2] = [eval::COMMANDS, fcall::COMMANDS];

/// Those that see to what can be run.
pub(crate) const CONTROL_COMMANDS: [&[&ControlCommand]; 2] =
    [control::COMMANDS, function::COMMANDS];

/// Whether a command runs a script or a function, which may declare what it does.
#[inline]
pub(crate) fn may_declare(role: Role) -> bool {
    matches!(role, Role::RunScript | Role::RunDigest | Role::RunFunction)
}

/// The flags of a command; of one that runs a script or a function which declares what it does,
/// whether that writes, and needs memory.
pub(crate) fn declared_flags(server: &Shared, entry: &Entry, args: Args<'_>) -> Flags {
    let state::Scripts { cache, libraries, .. } = &server.scripts;
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
