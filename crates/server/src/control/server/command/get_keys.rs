//! COMMAND GETKEYS: the keys of a request that is not run.
//!
//! Invariant: keys are found the way the lock plan finds them, so the two never disagree.

use std::collections::TryReserveError;

use commands::arguments::is;
use commands::declare::Flags;
use commands::keys::Access;
use keyspace::Refusal;
use proto::{Args, Reply};

use super::info::write_access;
use crate::control::{Context, Next};
use crate::table::Entry;

/// COMMAND GETKEYS.
pub(super) fn get_keys(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let (request, keys) = keys(context, args)?;
    reply.array(keys.len());
    keys.iter().for_each(|&(index, _)| reply.bulk(&request[index]));
    Ok(Next::Done)
}

/// COMMAND GETKEYSANDFLAGS.
pub(super) fn get_keys_and_flags(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let (request, keys) = keys(context, args)?;
    reply.array(keys.len());
    for (index, access) in keys {
        reply.array(2);
        reply.bulk(&request[index]);
        write_access(access, reply);
    }
    Ok(Next::Done)
}

/// The request that follows the subcommand, and where its keys stand.
fn keys<'a>(
    context: &Context<'_>,
    args: Args<'a>,
) -> Result<(Args<'a>, Vec<(usize, Access)>), Refusal> {
    let request = args.skip(2);
    let entry = context.server.table.resolve(request).map_err(|_| INVALID_COMMAND)?;
    if entry.spec.keys.iter().all(|spec| spec.access.has(Access::NOT_KEY)) {
        return Err(NO_KEYS);
    }
    if !entry.spec.arity.admits(request.len()) {
        return Err(INVALID_NUMBER);
    }
    match find(entry, request) {
        Ok(keys) if !keys.is_empty() => Ok((request, keys)),
        _ if entry.spec.flags.has(Flags::NO_MANDATORY_KEYS) => Ok((request, Vec::new())),
        _ => Err(INVALID_ARGUMENTS),
    }
}

fn find(entry: &Entry, request: Args<'_>) -> Result<Vec<(usize, Access)>, Refusal> {
    let mut keys = Vec::new();
    // As many as the request has at most: they arrived, so this is bounded.
    keys.try_reserve(request.len()).map_err(|_: TryReserveError| INVALID_ARGUMENTS)?;
    // Shard channels are placed as keys are, and are none.
    for spec in entry.spec.keys.iter().filter(|spec| !spec.access.has(Access::NOT_KEY)) {
        let access = access(spec.access, request);
        spec.visit(request, |index| keys.push((index, access)))?;
    }
    Ok(keys)
}

/// What this request does to a key: the access of SET and of BITFIELD depends on their options.
fn access(declared: Access, request: Args<'_>) -> Access {
    if !declared.has(Access::VARIABLE_FLAGS) {
        return declared;
    }
    if is(&request[0], "BITFIELD") {
        let ways = if only_gets(request) { Access::RO } else { Access::RW.and(Access::UPDATE) };
        return ways.and(Access::ACCESS);
    }
    match request.iter().skip(3).any(|option| is(option, "GET")) {
        true => Access::RW.and(Access::ACCESS).and(Access::UPDATE),
        false => Access::OW.and(Access::UPDATE),
    }
}

/// Whether all operations of a BITFIELD are GET, and none is cut short.
fn only_gets(request: Args<'_>) -> bool {
    let mut index = 2;
    while let Some(word) = request.get(index) {
        index += match word {
            _ if is(word, "GET") => 3,
            _ if is(word, "OVERFLOW") => 2,
            _ => return false,
        };
    }
    index == request.len().max(2)
}

const INVALID_COMMAND: Refusal = Refusal::error("ERR Invalid command specified");
const NO_KEYS: Refusal = Refusal::error("ERR The command has no key arguments");
const INVALID_NUMBER: Refusal =
    Refusal::error("ERR Invalid number of arguments specified for command");
const INVALID_ARGUMENTS: Refusal = Refusal::error("ERR Invalid arguments specified for command");
