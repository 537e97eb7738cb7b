//! COMMAND GETKEYS: the keys of a request that is not run.
//!
//! Invariant: keys are found the way the lock plan finds them, so the two never disagree.

use commands::declare::Flags;
use commands::errors::INVALID_ARGUMENTS;
use commands::keys::{Access, FindKeys, KeySpec};
use engine::table::request_keys::{self, RequestKeys};
use keyspace::Refusal;
use proto::{Args, Reply};

use super::info::write_access;
use crate::control::context::{Context, ControlOutcome};

/// COMMAND GETKEYS.
pub(super) fn get_keys(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let (request, keys) = keys(context, args)?;
    reply.array(keys.len());
    keys.iter().for_each(|&(index, _)| reply.bulk(&request[index]));
    Ok(ControlOutcome::Done)
}

/// COMMAND GETKEYSANDFLAGS.
pub(super) fn get_keys_and_flags(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let (request, keys) = keys(context, args)?;
    reply.array(keys.len());
    for (index, access) in keys {
        reply.array(2);
        reply.bulk(&request[index]);
        write_access(access.of_found(), reply);
    }
    Ok(ControlOutcome::Done)
}

/// The request that follows the subcommand, and where its keys stand.
fn keys<'a>(context: &Context<'_>, args: Args<'a>) -> Result<(Args<'a>, RequestKeys), Refusal> {
    let request = args.skip(2);
    let entry = context.server.table.resolve(request).map_err(|_| INVALID_COMMAND)?;
    if entry.spec.keys.iter().all(|spec| spec.access.has(Access::NOT_KEY)) {
        return Err(NO_KEYS);
    }
    if !entry.spec.arity.admits(request.len()) {
        return Err(INVALID_NUMBER);
    }
    let mut specs = entry.spec.keys.iter();
    match request_keys::find(entry, request) {
        Ok(keys) if !keys.is_empty() && !specs.any(|spec| counts_none(spec, request)) => {
            Ok((request, keys))
        }
        _ if entry.spec.flags.has(Flags::NO_MANDATORY_KEYS) => Ok((request, RequestKeys::new())),
        _ => Err(INVALID_ARGUMENTS),
    }
}

/// Whether a number of keys stands there, and is 0: a command with such a group of keys has none
/// without it, whatever other keys it names.
fn counts_none(spec: &KeySpec, request: Args<'_>) -> bool {
    let mut has_any = false;
    let visited = spec.visit(request, |_| has_any = true);
    matches!(spec.find, FindKeys::Count { .. }) && visited.is_ok() && !has_any
}

const INVALID_COMMAND: Refusal = Refusal::error("ERR Invalid command specified");
const NO_KEYS: Refusal = Refusal::error("ERR The command has no key arguments");
const INVALID_NUMBER: Refusal =
    Refusal::error("ERR Invalid number of arguments specified for command");
