//! MULTI, DISCARD and UNWATCH.
//!
//! Invariants: none of them is ever queued but UNWATCH, which then does nothing. The end
//! of a transaction waits for no other.

use commands::declare::{Command, Flags, Role, Spec, exactly};
use engine::transaction::unit::COMMON_OF_TRANSACTIONS as COMMON;
use keyspace::Refusal;
use proto::{Args, Reply};

use super::context::{Context, ControlCommand, ControlOutcome};

/// All commands of the family.
pub(crate) const COMMANDS: &[&ControlCommand] = &[&DISCARD, &MULTI, &UNWATCH];

const NESTED: Refusal = Refusal::error("ERR MULTI calls can not be nested");
const DISCARD_WITHOUT_MULTI: Refusal = Refusal::error("ERR DISCARD without MULTI");

const MULTI: ControlCommand = Command {
    spec: Spec {
        name: "MULTI",
        role: Role::Multi,
        summary: "Starts a transaction.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: COMMON.flags.and(Flags::IMMEDIATE).and(Flags::SESSION),
        ..COMMON
    },
    subcommands: &[],
    run: multi,
};

fn multi(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let session = context.session()?;
    let multi = session.multi.get_or_insert_default();
    if multi.is_queueing() {
        return Err(NESTED);
    }
    multi.begin();
    session.show_multi();
    reply.ok();
    Ok(ControlOutcome::Done)
}

const DISCARD: ControlCommand = Command {
    spec: Spec {
        name: "DISCARD",
        role: Role::Discard,
        since: "2.0.0",
        summary: "Discards a transaction.",
        complexity: "O(N), when N is the number of queued commands",
        arity: exactly(1),
        flags: COMMON.flags.and(Flags::IMMEDIATE).and(Flags::SESSION),
        ..COMMON
    },
    subcommands: &[],
    run: |context, _, reply| {
        if !context.session()?.is_queueing() {
            return Err(DISCARD_WITHOUT_MULTI);
        }
        end_transaction(context)?;
        reply.ok();
        Ok(ControlOutcome::Done)
    },
};

const UNWATCH: ControlCommand = Command {
    spec: Spec {
        name: "UNWATCH",
        role: Role::Unwatch,
        since: "2.2.0",
        summary: "Forgets about watched keys of a transaction.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: COMMON.flags.and(Flags::IDEMPOTENT).and(Flags::SESSION),
        ..COMMON
    },
    subcommands: &[],
    run: |context, _, reply| {
        // Within EXEC all that was watched is forgotten anyway, once it is over.
        if context.session().is_ok_and(|session| !session.is_queueing()) {
            end_transaction(context)?;
        }
        reply.ok();
        Ok(ControlOutcome::Done)
    },
};

/// Ends what was queued and watched; no client waits for the locks of the watched keys.
fn end_transaction(context: &mut Context<'_>) -> Result<(), Refusal> {
    let lane = context.lane()?;
    let session = context.session()?;
    if let Some(multi) = session.multi.take() {
        multi.end_at(lane);
        session.show_multi();
    }
    Ok(())
}
