//! FCALL and FCALL_RO.
//!
//! Invariant: a call keeps the library that it found, whatever becomes of it meanwhile.

use std::sync::Arc;

use commands::Role;
use commands::declare::{Command, Spec};
use keyspace::Refusal;
use proto::Args;

use super::eval::{COMMON, NOTED_READING, NOTED_USE, READ_ONLY, count_keys, prepare};
use super::run::{CallTarget, ScriptCall};
use crate::journal::ReplyLsn;
use crate::transaction::unit::{Program, ProgramRequest, UnitCommand};

/// Both of them.
pub(crate) const COMMANDS: &[&UnitCommand] = &[&FCALL, &FCALL_RO];

const NOT_FOUND: Refusal = Refusal::error("ERR Function not found");
const BAD_COUNT: Refusal = Refusal::error("ERR Bad number of keys provided");

const FCALL: UnitCommand = Command {
    spec: Spec {
        name: "FCALL",
        role: Role::RunFunction,
        since: "7.0.0",
        syntax: "function numkeys [key [key ...]] [arg [arg ...]]",
        summary: "Invokes a function.",
        complexity: "Depends on the function that is executed.",
        keys: &[NOTED_USE],
        ..COMMON
    },
    subcommands: &[],
    run: call,
};

const FCALL_RO: UnitCommand = Command {
    spec: Spec {
        name: "FCALL_RO",
        role: Role::RunFunction,
        syntax: "function numkeys [key [key ...]] [arg [arg ...]]",
        summary: "Invokes a read-only function.",
        complexity: "Depends on the function that is executed.",
        keys: &[NOTED_READING],
        ..READ_ONLY
    },
    subcommands: &[],
    run: call,
};

fn call(mut asked: ProgramRequest<'_>, args: Args<'_>) -> Result<Box<dyn Program>, Refusal> {
    let state = asked.server.scripts.libraries.state();
    if let Some(session) = &mut asked.session {
        // That there is none of the name is told once that is safe.
        session.note_reply(asked.entry, ReplyLsn::of_others(state.changed_at()));
    }
    let Some((loaded, function)) = state.function(&args[1]) else { return Err(NOT_FOUND) };
    let keys = count_keys(args, || BAD_COUNT)?;
    let code = CallTarget::Function(Arc::clone(loaded), function.name.clone());
    let call = prepare(&asked, keys, code, function.flags)?;
    Ok(Box::new(ScriptCall { saw: state.changed_at(), ..call }))
}
