//! SAVE, BGSAVE and LASTSAVE: the snapshot file, on demand.
//!
//! SAVE keeps its client waiting, and nobody else.
//!
//! Invariant: BGSAVE is answered when the file is to hold all that came before.

use std::sync::mpsc;

use commands::arguments::is;
use commands::declare::{Command, Flags, Group, Spec, at_least, exactly};
use commands::errors::SYNTAX;
use durability::save::{SaveMode, SaveProgress, SaveRefused};
use durability::snapshot::CutFailure;
use engine::limits::loading::LOADING;
use keyspace::{BUSY, Refusal};
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome};

const IN_PROGRESS: Refusal = Refusal::error("ERR Background save already in progress");
const REWRITING: Refusal = Refusal::error(
    "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in \
     order to schedule a BGSAVE whenever possible.",
);
const NONE_TO_CANCEL: Refusal =
    Refusal::error("ERR Background saving is currently not in progress or scheduled");

fn refusal_of(why: SaveRefused) -> Refusal {
    match why {
        SaveRefused::Busy => IN_PROGRESS,
        SaveRefused::NoThread(why) => Refusal::owned(format!("ERR {why}")),
    }
}

/// What a client is told whose snapshot has no cut.
pub(super) fn refusal_without_cut(why: CutFailure) -> Refusal {
    match why {
        CutFailure::Busy => BUSY,
        CutFailure::Loading => LOADING,
    }
}

/// What SAVE says of an error that the log explains.
const FAILED: Refusal = Refusal::error("ERR");

pub(super) const SAVE: ControlCommand = Command {
    spec: Spec {
        name: "SAVE",
        since: "1.0.0",
        group: Group::Server,
        summary: "Synchronously saves the database(s) to disk.",
        complexity: "O(N) where N is the total number of keys in all databases",
        arity: exactly(1),
        flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::NO_ASYNC_LOADING).and(Flags::NO_MULTI),
        ..Spec::BASE
    },
    subcommands: &[],
    run: save,
};

fn save(
    context: &mut Context<'_>,
    _: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    Ok(ControlOutcome::offload_with_locks(move |_, _, reply| {
        let (sender, progress) = mpsc::channel();
        let begun = server.saves.begin(server, SaveMode::Awaited, Some(sender));
        begun.map_err(refusal_of)?;
        match progress.iter().last() {
            Some(SaveProgress::Over(true)) => {
                reply.ok();
                Ok(())
            }
            Some(SaveProgress::CutFailure(why)) => Err(refusal_without_cut(why)),
            _ => Err(FAILED),
        }
    }))
}

pub(super) const BGSAVE: ControlCommand = Command {
    spec: Spec {
        name: "BGSAVE",
        since: "1.0.0",
        group: Group::Server,
        syntax: "[SCHEDULE | CANCEL]",
        summary: "Asynchronously saves the database(s) to disk.",
        complexity: "O(1)",
        arity: at_least(1),
        flags: Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::NO_ASYNC_LOADING),
        history: &[("3.2.2", "Added the `SCHEDULE` option.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: save_in_background,
};

fn save_in_background(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let server = context.server;
    let schedules = match args.len() {
        1 => false,
        2 if is(&args[1], "SCHEDULE") => true,
        2 if is(&args[1], "CANCEL") => return cancel(context, reply),
        _ => return Err(SYNTAX),
    };
    if server.saves.is_asked_for() {
        return Err(IN_PROGRESS);
    }
    let is_rewriting = server.aof.rewrite.is_underway();
    if is_rewriting && !schedules && context.unit.is_none() {
        return Err(REWRITING);
    }
    if is_rewriting || context.unit.is_some() {
        // The locks of a transaction are in the way of a cut.
        server.saves.schedule();
        reply.simple("Background saving scheduled");
        return Ok(ControlOutcome::Done);
    }
    Ok(ControlOutcome::offload_with_locks(move |_, _, reply| {
        let (sender, progress) = mpsc::channel();
        let begun = server.saves.begin(server, SaveMode::Background, Some(sender));
        begun.map_err(refusal_of)?;
        // A save that fails before its cut is told by the log and INFO, as a later failure is.
        if let Ok(SaveProgress::CutFailure(why)) = progress.recv() {
            return Err(refusal_without_cut(why));
        }
        reply.simple("Background saving started");
        Ok(())
    }))
}

/// BGSAVE CANCEL, as Valkey has it.
fn cancel(context: &mut Context<'_>, reply: &mut Reply<'_>) -> Result<ControlOutcome, Refusal> {
    let saves = &context.server.saves;
    let is_running = saves.cancel();
    if is_running {
        reply.simple("Background saving cancelled");
    } else if saves.call_off() {
        reply.simple("Scheduled background saving cancelled");
    } else {
        return Err(NONE_TO_CANCEL);
    }
    Ok(ControlOutcome::Done)
}

pub(super) const LASTSAVE: ControlCommand = Command {
    spec: Spec {
        name: "LASTSAVE",
        since: "1.0.0",
        group: Group::Server,
        summary: "Returns the Unix timestamp of the last successful save to disk.",
        complexity: "O(1)",
        arity: exactly(1),
        flags: Flags::LOADING
            .and(Flags::STALE)
            .and(Flags::FAST)
            .and(Flags::IDEMPOTENT)
            .and(Flags::CHANGES_NOTHING),
        categories: &["@admin", "@dangerous"],
        tips: &["nondeterministic_output"],
        ..Spec::BASE
    },
    subcommands: &[],
    run: |context, _, reply| {
        reply.integer(context.server.saves.status(context.server).last_save);
        Ok(ControlOutcome::Done)
    },
};
