//! EXEC and WATCH.
//!
//! Invariant: neither is ever queued.

use std::sync::Arc;

use commands::Access;
use commands::declare::{Command, Flags, Group, Role, Spec, at_least, exactly};
use commands::keys::all_from;
use keyspace::{Location, PartitionSet, Refusal};
use proto::{Args, Output, Reply, Resp};

use super::{Program, ProgramRequest, RunsOn, Unit, UnitCommand, exec};
use crate::clients::unregistration::{Registered, Unregistration};
use crate::runtime::yielding::FEW;
use crate::session::LockSet;
use crate::session::ProgramAccounts;
use crate::session::multi::Watching;
use crate::session::{Session, StepContext, StepOutcome, SteppedWork};
use crate::shared::Shared;

/// Those that run as a unit.
pub const COMMANDS: &[&UnitCommand] = &[&EXEC, &WATCH];

/// What all have in common.
pub const COMMON: Spec = Spec {
    since: "1.2.0",
    group: Group::Transactions,
    flags: Flags::NOSCRIPT
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::FAST)
        .and(Flags::ALLOW_BUSY),
    ..Spec::BASE
};

const WATCH_INSIDE_MULTI: Refusal = Refusal::error("ERR WATCH inside MULTI is not allowed");

const EXEC: UnitCommand = Command {
    spec: Spec {
        name: "EXEC",
        role: Role::Exec,
        summary: "Executes all commands in a transaction.",
        complexity: "Depends on commands in the transaction",
        arity: exactly(1),
        // Its commands are told to MONITOR before it is.
        flags: Flags::NOSCRIPT
            .and(Flags::LOADING)
            .and(Flags::STALE)
            .and(Flags::SKIP_SLOWLOG)
            .and(Flags::IMMEDIATE)
            .and(Flags::SESSION),
        ..COMMON
    },
    subcommands: &[],
    run: exec::prepare,
};

const WATCH: UnitCommand = Command {
    spec: Spec {
        name: "WATCH",
        since: "2.2.0",
        syntax: "key [key ...]",
        summary: "Monitors changes to keys to determine the execution of a transaction.",
        complexity: "O(1) for every key.",
        arity: at_least(2),
        flags: COMMON.flags.and(Flags::IMMEDIATE).and(Flags::SESSION),
        keys: &[all_from(1, Access::RO)],
        ..COMMON
    },
    subcommands: &[],
    run: prepare_watch,
};

/// A watch that begins, or gets more keys.
struct Watch {
    server: &'static Shared,
    watch: Arc<keyspace::Watch>,
    /// The keys at which it was entered.
    entered: Vec<Box<[u8]>>,
    database: usize,
    resp: Resp,
}

fn prepare_watch(asked: ProgramRequest<'_>, _: Args<'_>) -> Result<Box<dyn Program>, Refusal> {
    let ProgramRequest { server, resp, session, .. } = asked;
    let session = session.ok_or(WATCH_INSIDE_MULTI)?;
    let database = session.database;
    let multi = session.multi.get_or_insert_default();
    if multi.is_queueing() {
        return Err(WATCH_INSIDE_MULTI);
    }
    // Others see that somebody heeds what they change before the first key is looked at.
    let watching = multi.watching.get_or_insert_with(|| Watching::begin(server.keyspace));
    let (watch, entered) = (Arc::clone(&watching.watch), Vec::new());
    Ok(Box::new(Watch { server, watch, entered, database, resp }))
}

impl ProgramAccounts for Watch {
    fn detach(&mut self, session: &mut Session) {
        let multi = session.multi.get_or_insert_default();
        if let Some(watching) = &mut multi.watching {
            self.entered.drain(..).for_each(|key| watching.add((self.database, key)));
        }
        session.show_multi();
    }
}

impl Program for Watch {
    fn needs(&self, args: Args<'_>, known: &[Location]) -> LockSet {
        let (mut needs, mut known) = (LockSet::default(), known.iter());
        let keyspace = self.server.keyspace;
        args.skip(1).iter().for_each(|key| needs.add_key(keyspace, key, known.next()));
        needs
    }

    fn run(
        &mut self,
        _: Args<'_>,
        _: &mut Unit,
        _: &mut RunsOn<'_>,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        Reply::new(out, self.resp).ok();
        Ok(())
    }

    fn in_steps(&self, args: Args<'_>) -> Option<Box<dyn SteppedWork>> {
        let watch = || Box::new(EachKey { watch: Arc::clone(&self.watch), next: 1 });
        (args.len() > FEW).then(|| watch() as Box<dyn SteppedWork>)
    }

    fn restart(&mut self) {}

    fn committed(&mut self, args: Args<'_>, unit: &mut Unit) {
        if self.watch.is_broken() {
            return;
        }
        for key in args.skip(1).iter() {
            self.entered.push(key.into());
            unit.tx.watch(key, &self.watch);
        }
    }
}

/// Watches each of very many keys. What changes before all are watched breaks the watch as what
/// changes later does.
struct EachKey {
    watch: Arc<keyspace::Watch>,
    /// The argument that comes next.
    next: usize,
}

impl SteppedWork for EachKey {
    fn step(&mut self, step_context: &mut StepContext<'_, '_>) -> StepOutcome {
        let keyspace = step_context.lane.shared.keyspace;
        // Nothing that changes any more breaks a watch that is broken.
        while !self.watch.is_broken()
            && let Some(key) = step_context.args.get(self.next)
        {
            let partition = || keyspace.locate(key).partition();
            let acquisition =
                match step_context.acquire(|| PartitionSet::from_slice(&[partition()])) {
                    Some(Ok(acquisition)) => acquisition,
                    // The keys that are watched stay so.
                    Some(Err(busy)) => return StepOutcome::Failed(busy),
                    None => return StepOutcome::Waits,
                };
            let mut tx = step_context.begin(acquisition);
            let session = &mut *step_context.session;
            let database = session.database;
            if let Some(watching) = session.multi.as_mut().and_then(|it| it.watching.as_mut()) {
                watching.add((database, key.into()));
                tx.watch(key, &self.watch);
            }
            drop(tx);
            self.next += 1;
            if step_context.is_over() {
                return StepOutcome::GoesOn;
            }
        }
        step_context.session.show_multi();
        Reply::new(step_context.out, step_context.session.resp).ok();
        StepOutcome::Done
    }
}

/// Without its session, which has panicked.
impl Drop for Watch {
    fn drop(&mut self) {
        if self.entered.is_empty() {
            return;
        }
        let keys = self.entered.drain(..).map(|key| (self.database, key)).collect();
        let registered = Registered::Watch(Arc::clone(&self.watch), keys);
        drop(Unregistration::new(&self.server.unregistrar, registered));
    }
}
