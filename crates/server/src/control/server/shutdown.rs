//! SHUTDOWN: the end of the process, asked for by a client.
//!
//! Invariant: who wants the data saved is not told that it was; what cannot be saved keeps the
//! server up unless FORCE says otherwise.

use commands::arguments::is;
use commands::declare::{Command, Flags, Group, Spec, at_least};
use commands::errors::SYNTAX;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::{Context, ControlCommand, Next};
use crate::log::log_warning;
use crate::session::{Blocked, Stage};

pub(super) const SHUTDOWN: ControlCommand = Command {
    spec: Spec {
        name: "SHUTDOWN",
        since: "1.0.0",
        group: Group::Server,
        syntax: "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
        summary: "Synchronously saves the database(s) to disk and shuts down the Redis server.",
        complexity: "O(N) when saving, where N is the total number of keys in all databases when \
                     saving data, otherwise O(1)",
        arity: at_least(1),
        flags: Flags::ADMIN
            .and(Flags::NOSCRIPT)
            .and(Flags::LOADING)
            .and(Flags::STALE)
            .and(Flags::NO_MULTI)
            .and(Flags::ALLOW_BUSY),
        history: &[("7.0.0", "Added the `NOW`, `FORCE` and `ABORT` modifiers.")],
        ..Spec::BASE
    },
    subcommands: &[],
    run: shut_down,
};

#[derive(Default)]
struct Modifiers {
    save: bool,
    no_save: bool,
    now: bool,
    force: bool,
    abort: bool,
}

impl Modifiers {
    fn of(args: Args<'_>) -> Result<Self, Refusal> {
        let mut modifiers = Self::default();
        for word in args.iter().skip(1) {
            let modifier = match word {
                _ if is(word, "SAVE") => &mut modifiers.save,
                _ if is(word, "NOSAVE") => &mut modifiers.no_save,
                _ if is(word, "NOW") => &mut modifiers.now,
                _ if is(word, "FORCE") => &mut modifiers.force,
                _ if is(word, "ABORT") => &mut modifiers.abort,
                _ => return Err(SYNTAX),
            };
            *modifier = true;
        }
        let Self { save, no_save, now, force, abort } = modifiers;
        if save && no_save || abort && (save || no_save || now || force) {
            return Err(SYNTAX);
        }
        Ok(modifiers)
    }
}

fn shut_down(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let modifiers = Modifiers::of(args)?;
    let server = context.server;
    if modifiers.abort {
        // An end begins at once: there is never one that could still be called off.
        return Err(Refusal::error("ERR No shutdown in progress."));
    }
    if modifiers.save && !modifiers.force {
        log_warning!(server.log, "SHUTDOWN SAVE: there is no way to save the data set yet");
        return Err(Refusal::error("ERR Errors trying to SHUTDOWN. Check logs."));
    }
    server.shutdown.ask();
    // The end of the connection is the answer.
    let agree = |reply: &mut Reply<'_>| reply.ok();
    let never = Blocked::on_time(None, agree);
    Ok(Next::Wait(Stage::Blocked(Box::new(never))))
}
