//! Units: several commands that run as one transaction, as EXEC and scripts have it.
//!
//! A program names what it locks, runs its commands one after the other on a `Unit`, and may be
//! begun again: when it turns out to need more locks, all it did is undone
//! (docs/decisions/units.md).
//!
//! Invariants: a unit's changes leave in one record, with its locks still held; until then nobody
//! is told anything of them. All that a step does can be undone, or is put off until the commit, or
//! comes behind `become_final`, after which the unit is never begun again.

mod attempt;
mod command_cost;
mod commands;
mod commit;
mod deferred_log;
mod exec;
mod failpoint;
mod finished_command;
mod rights;
mod runs_on;
mod unit_refusals;

use std::collections::BTreeMap;
use std::sync::Arc;

use config::settings::NOTIFY_KEYSPACE_EVENTS;
use keyspace::{Keyspace, Location, Refusal, Tx, UndoPoint};
use proto::{Args, Output, OwnedArgs, Reply, Resp};

use ::commands::declare::Command;
use ::commands::{Flags, Handler, LockPlan};

pub use commands::{COMMANDS, COMMON as COMMON_OF_TRANSACTIONS};
pub(crate) use deferred_log::DeferredLog;
use finished_command::FinishedCommand;
pub use runs_on::RunsOn;
pub(crate) use unit_refusals::UnitRefusals;

use crate::admission::gates::FlagsOf;
use crate::clients::client_id::ClientId;
use crate::commit::blocking;
use crate::commit::handler::{AttemptEnd, HandlerCall};
use crate::commit::publish;
use crate::journal::ReplyLsn;
use crate::limits::slot_map::SlotAccess;
use crate::observe::pubsub::Publication;
use crate::observe::stats;
use crate::observe::tracking::{self, UnitRead};
use crate::session::AclSubject;
use crate::session::{LockSet, ProgramAccounts};
use crate::session::{Session, SteppedWork};
use crate::shared::{Shared, line_of, write_refusal};
use crate::table::command_table::CommandEntry;
use crate::table::flag_set::FlagSet;
use crate::transaction::engine::Engine;

/// A command that runs as a unit.
pub(crate) type UnitCommand = Command<Prepare>;

/// Makes the program of a request, which looks at nothing that a lock guards.
pub type Prepare = fn(ProgramRequest<'_>, Args<'_>) -> Result<Box<dyn Program>, Refusal>;

/// The request for a program.
pub struct ProgramRequest<'a> {
    /// The engine that the program runs on.
    pub server: &'static Engine,
    /// The command that asks: EXEC, EVAL or another.
    pub entry: &'static CommandEntry,
    /// The protocol of the client.
    pub resp: Resp,
    /// Whose rules its commands have to keep, if there are any.
    pub subject: Option<Arc<AclSubject>>,
    /// What the client has said that opens slots of a cluster to it.
    pub access: SlotAccess,
    /// What was short as the unit that it is for began; not there if that has not begun.
    pub initial_refusals: Option<UnitRefusals>,
    /// Whether the client has asked for the debugger of scripts: then none may run on live data.
    pub wants_debugger: bool,
    /// Not there within a unit that left its session's worker.
    pub session: Option<&'a mut Session>,
}

/// What runs as one transaction.
pub trait Program: ProgramAccounts {
    /// What the program locks. Here and below `args` are those of its request; `known` is where the
    /// first of their keys belong.
    fn needs(&self, args: Args<'_>, known: &[Location]) -> LockSet;

    /// Runs the program. `Widen` and `Heavy` say that it cannot go on where it is: a worker is no
    /// place for what is long, nor a heavy-work thread for what needs the session. After `Heavy`
    /// the program is run again at the other place, and goes on.
    fn run(
        &mut self,
        args: Args<'_>,
        unit: &mut Unit,
        place: &mut RunsOn<'_>,
        out: &mut Output,
    ) -> Result<(), Refusal>;

    /// The program as steps, if its keys are too many to be locked together. Then nothing else of
    /// it runs.
    fn in_steps(&self, _: Args<'_>) -> Option<Box<dyn SteppedWork>> {
        None
    }

    /// All that the program did was undone, and it begins anew.
    fn restart(&mut self);

    /// The program is given up for another one that will be prepared in its place: what preparing
    /// it did is undone.
    fn forget(&mut self) {}

    /// All that the program did was undone; it holds nothing and is not begun again.
    fn abandon(&mut self) {}

    /// Whether the program ends without touching the data, whatever locks it has: then it waits for
    /// none. Asked where it is to begin again.
    fn needs_no_locks(&self) -> bool {
        false
    }

    /// What of the program others had end: the places of its parts, or the first if it has none.
    /// The program is given up, and no client can have it end any more.
    fn killed(&mut self) -> Vec<usize> {
        Vec::new()
    }

    /// These parts were ended by others when the program ran before, which was undone: the parts
    /// end at once.
    fn kill(&mut self, _: Args<'_>, _: Vec<usize>) {}

    /// What the program did is final; its locks are still held.
    fn committed(&mut self, _: Args<'_>, _: &mut Unit) {}

    /// The program leaves its session's worker, each time with what it needs of the session, and
    /// with what it has to end itself.
    fn leave_worker(&mut self, _: &mut Session) {}

    /// Whether its session has all that it was made of, and can have it prepared anew. Asked where
    /// all it did was undone.
    fn may_be_deferred(&self) -> bool {
        false
    }

    /// The program begins again, and its user has no longer all rights: whose rules its commands
    /// keep now.
    fn keep_rules(&mut self, _: &Arc<AclSubject>) {}

    /// What its commands do, and what they say that they do as this finds it, if they are queued.
    fn flags(&self, _: FlagsOf<'_>) -> Option<(FlagSet, Flags)> {
        None
    }

    /// Whether the program may have to come back to its session's worker.
    fn returns(&self, _: &Unit) -> bool {
        false
    }

    /// Whether the program failed, for the statistics of its command.
    fn has_failed(&self) -> bool {
        false
    }

    /// Whether the program does little as far as one can tell, and may share its locks with what
    /// comes behind it; asked before it runs.
    fn is_brief(&self) -> bool {
        false
    }

    /// The program ran in company, and took long or did not.
    fn note_run(&self, _was_long: bool) {}

    /// The program could not be run in company.
    fn note_undone(&self) {}
}

/// A running unit: its transaction, and what its commands did so far.
pub struct Unit {
    pub(crate) server: &'static Shared,
    /// The transaction of all commands of the unit.
    pub tx: Tx,
    /// What was short as its program began, once somebody has looked.
    initial_refusals: Option<UnitRefusals>,
    /// Whether its programs were accepted elsewhere: by a primary, or before they were logged.
    must_obey: bool,
    /// The logical database it began in.
    home: usize,
    done: Vec<FinishedCommand>,
    /// Messages that leave when all is final, each with how many commands are `done` before it.
    publications: Vec<(usize, Publication)>,
    changes: u64,
    /// Whose copies of what it reads are tracked.
    reader: Option<ClientId>,
    readings: Vec<UnitRead>,
    /// The codes of the errors that its commands ended in, each with how often.
    errors: BTreeMap<String, u64>,
    /// What the server's logs are told when all is final.
    remarks: Vec<DeferredLog>,
    /// What the remarks take, about.
    remark_bytes: usize,
    /// Whether long work is refused, for the sake of a worker's other clients.
    refuses_long_work: bool,
    /// Whether the unit was on a heavy-work thread and has come back.
    has_come_back: bool,
    /// Whether all of it may be undone, to begin again where nobody else waits for the thread.
    may_begin_offloaded: bool,
    /// Whether the unit has to begin on a heavy-work thread.
    begins_offloaded: bool,
    /// Whether commands before the present one, or a watch, have gone by data as they were.
    has_seen: bool,
    /// There once it did what cannot be undone.
    finality: Option<FinalUnitGuard>,
    /// What its reply must wait for of what was committed before its end.
    committed: ReplyLsn,
}

/// So many bytes of remarks are kept; beyond that they are made at once, and made again by a unit
/// that is begun again.
const REMARKS_MAX: usize = 4 << 20;

/// Held by a unit that did what cannot be undone: a panic would leave the other half undone.
struct FinalUnitGuard(&'static Keyspace);

impl Drop for FinalUnitGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abort("a transaction failed after a command whose effects cannot be undone");
        }
    }
}

/// What a unit did before something began in it, and changed nothing.
#[derive(Clone, Default)]
pub(crate) struct Savepoint {
    database: usize,
    publications: usize,
    readings: usize,
    remarks: usize,
    errors: BTreeMap<String, u64>,
    mark: UndoPoint,
}

impl Unit {
    /// A unit without commands so far, on a transaction whose locks are there.
    #[inline]
    pub fn begin(server: &'static Shared, tx: Tx, reader: Option<ClientId>) -> Self {
        let (home, refuses_long_work) = (tx.database(), !tx.options().heavy);
        let (done, publications) = (Vec::new(), Vec::new());
        Self {
            server,
            tx,
            initial_refusals: None,
            must_obey: false,
            home,
            done,
            publications,
            changes: 0,
            reader,
            readings: Vec::new(),
            errors: BTreeMap::new(),
            remarks: Vec::new(),
            remark_bytes: 0,
            refuses_long_work,
            has_come_back: false,
            may_begin_offloaded: false,
            begins_offloaded: false,
            has_seen: false,
            finality: None,
            committed: ReplyLsn::default(),
        }
    }

    /// To be called before a step that can be neither undone nor put off: from here on the unit is
    /// never begun again. `Widen` where that may still come: then it begins again with all locks
    /// there are, and nothing can make it widen.
    pub(crate) fn become_final(&mut self) -> Result<(), Refusal> {
        if self.may_begin_again() {
            self.tx.require_world()?;
        }
        // What comes may look at the logs.
        self.write_deferred_logs();
        self.count_errors();
        self.finality.get_or_insert(FinalUnitGuard(self.server.keyspace));
        Ok(())
    }

    /// Whether the unit did what cannot be undone.
    pub(crate) fn is_final(&self) -> bool {
        self.finality.is_some()
    }

    /// Whether all of it may have to be undone and begun again, for more locks.
    pub(crate) fn may_begin_again(&self) -> bool {
        self.tx.is_undoable() && !self.tx.has_world()
    }

    /// Tells a log of the server, once all is final.
    #[cold]
    pub(crate) fn defer_log(&mut self, defer_log: DeferredLog) {
        self.remark_bytes += defer_log.memory();
        self.remarks.push(defer_log);
        if self.remark_bytes > REMARKS_MAX {
            self.write_deferred_logs();
        }
    }

    fn write_deferred_logs(&mut self) {
        self.remarks.drain(..).for_each(|defer_log| defer_log.make(self.server));
        self.remark_bytes = 0;
    }

    /// Turns to a database, for the commands of the unit that come.
    pub(crate) fn select(&mut self, index: &[u8]) -> Result<(), Refusal> {
        self.tx.switch_database(self.server.database_of(index)?);
        Ok(())
    }

    /// Publishes a message with what the unit changes; for how many subscriptions it is now.
    pub fn publish(&mut self, publication: Publication) -> usize {
        let receivers = publication.count_receivers(&self.server.pushes.pubsub);
        self.publications.push((self.done.len(), publication));
        receivers
    }

    /// Runs a data command; whether it failed. An error says that the unit cannot go on here: the
    /// command did nothing.
    pub fn call(
        &mut self,
        entry: &'static CommandEntry,
        handler: Handler,
        args: Args<'_>,
        resp: Resp,
        out: &mut Output,
    ) -> Result<bool, Refusal> {
        failpoint::trigger(self)?;
        if entry.spec.plan == LockPlan::Visits {
            // A command by itself would go from lock to lock; a unit keeps those that it has.
            self.tx.require_world()?;
        }
        let (mark, begun) = (out.mark(), self.tx.begin_command());
        let call = HandlerCall { handler, args, resp };
        let failed = match self.attempt(entry, call, out, &begun) {
            AttemptEnd::Replied if self.is_too_much(entry, out) => {
                out.truncate(mark);
                self.tx.forget_command(&begun);
                return Err(Refusal::Heavy);
            }
            AttemptEnd::Replied => {
                // More comes behind it.
                out.finish();
                false
            }
            AttemptEnd::Heavy => {
                self.tx.forget_command(&begun);
                return Err(Refusal::Heavy);
            }
            AttemptEnd::Widen => {
                self.tx.forget_command(&begun);
                return Err(Refusal::Widen);
            }
            // Within a unit nobody waits: the others could not do what is waited for.
            AttemptEnd::Wait(wait) => {
                blocking::reply_empty(wait.at_once, &mut Reply::new(out, resp));
                false
            }
            AttemptEnd::Failed(refusal) => {
                self.count_error(stats::code(line_of(&refusal)));
                true
            }
        };
        crate::runtime::failpoint::trigger_behind_step();
        self.finish_command(args);
        if let Some(reader) = tracking::reader_of(self.reader, entry) {
            self.readings.push(UnitRead::new(reader, &mut self.tx, entry.spec, args));
        }
        Ok(failed)
    }

    /// Replies a refusal as the error it is, which counts once all is final.
    pub fn refuse(&mut self, refusal: &Refusal, reply: &mut Reply<'_>) {
        let code = stats::code(write_refusal(refusal, reply)).to_owned();
        self.count_error(&code);
    }

    /// An error of this code is among its replies; the error counts once all is final.
    pub(crate) fn count_error(&mut self, code: &str) {
        match self.errors.get_mut(code) {
            Some(times) => *times += 1,
            None => _ = self.errors.insert(code.to_owned(), 1),
        }
    }

    /// A command beside the data ran: the client whose reads are tracked, and the observers of the
    /// data, may be others now. What it changed has records of its own: all of them are seen, and
    /// are the unit's own where the command is one that writes.
    pub(crate) fn refresh_views(&mut self, reader: Option<ClientId>, entry: &CommandEntry) {
        self.reader = reader;
        let end = self.server.journal.end();
        self.tx.note_lsn(end);
        if entry.spec.flags.has(Flags::WRITE) {
            self.committed = self.committed.and(ReplyLsn::own(end));
        }
        self.tx.refresh_views();
    }

    /// The data were loaded anew from the log, which has nothing of what it changed so far: that is
    /// gone, and nobody is to be told of it.
    pub fn forget_changes(&mut self) {
        self.done.clear();
        self.changes = 0;
        self.publications.iter_mut().for_each(|(behind, _)| *behind = 0);
    }

    /// The logical database it began in.
    pub(crate) fn home(&self) -> usize {
        self.home
    }

    pub(crate) fn reader(&self) -> Option<ClientId> {
        self.reader
    }

    /// A command is over: keeps what it changed for the journal and for observers.
    pub fn finish_command(&mut self, args: Args<'_>) {
        self.tx.finish_command();
        if !self.tx.effects().has_followers() {
            self.changes += self.tx.forget_effects();
            return;
        }
        let effects = self.tx.take_effects();
        self.changes += effects.changes();
        let database = self.tx.database();
        let asked = self.server.config.get(NOTIFY_KEYSPACE_EVENTS);
        self.done.push(FinishedCommand { effects, database, args: OwnedArgs::from(args), asked });
    }

    /// Does long work here all the same.
    pub(crate) fn take_time(&mut self) {
        self.refuses_long_work = false;
    }

    /// Whether long work is refused here.
    pub(crate) fn refuses_long_work(&self) -> bool {
        self.refuses_long_work
    }

    /// Says whether all of it may be undone, to begin again on a heavy-work thread: what is part of
    /// it may turn out to be long where it cannot undo what came before it.
    pub(crate) fn set_may_begin_offloaded(&mut self, may: bool) {
        self.may_begin_offloaded = may;
    }

    /// Whether all of it may.
    pub(crate) fn may_begin_offloaded(&self) -> bool {
        self.may_begin_offloaded && !self.is_final()
    }

    /// A part of it is long: that part says `Widen` now, and all begins again offloaded, with its
    /// locks.
    pub(crate) fn begin_offloaded(&mut self) {
        self.begins_offloaded = true;
    }

    /// Whether the unit was undone to begin on a heavy-work thread.
    pub(crate) fn begins_offloaded(&self) -> bool {
        self.begins_offloaded
    }

    /// Whether nothing was done yet that giving the locks back would show.
    pub(crate) fn is_fresh(&self) -> bool {
        !self.tx.is_touched() && !self.is_final() && self.changes == 0 && self.done.is_empty()
    }

    /// Lets go what it has gathered for observers: none is told.
    pub(crate) fn forget(&mut self) {
        self.done.clear();
        self.publications.clear();
        self.readings.clear();
        self.errors.clear();
        self.remarks.clear();
        self.changes = 0;
    }

    /// Counts its changes, of which nobody is told.
    pub fn count_unpublished(&mut self) {
        publish::count_changes(self.server, &mut self.tx, self.changes);
        self.tx.seal();
        self.forget();
    }

    /// Makes ready for another program, which has nothing to do with those before: what they did
    /// is final.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.tx.renew();
        (self.initial_refusals, self.committed) = (None, ReplyLsn::default());
        self.forget();
    }

    /// Undoes all of it and keeps the locks.
    pub(crate) fn roll_back(&mut self) {
        self.rollback_to(Savepoint { database: self.home, ..Savepoint::default() });
    }

    /// Where the unit stands, for a command in it that may want to undo what it did; `None` if
    /// something was changed before, which cannot be told from that.
    #[inline]
    pub(crate) fn savepoint(&self) -> Option<Savepoint> {
        if self.has_changed() {
            return None;
        }
        Some(Savepoint {
            mark: self.tx.mark()?,
            database: self.tx.database(),
            publications: self.publications.len(),
            readings: self.readings.len(),
            remarks: self.remarks.len(),
            errors: self.errors.clone(),
        })
    }

    /// Undoes what was done since then and keeps the locks.
    pub(crate) fn rollback_to(&mut self, savepoint: Savepoint) {
        self.tx.return_to(savepoint.mark);
        self.tx.switch_database(savepoint.database);
        self.done.clear();
        self.remarks.truncate(savepoint.remarks);
        self.publications.truncate(savepoint.publications);
        self.readings.truncate(savepoint.readings);
        self.errors = savepoint.errors;
        self.changes = 0;
    }

    /// Whether the unit has changed data, or done what cannot be undone.
    pub fn has_changed(&self) -> bool {
        self.changes > 0 || !self.done.is_empty()
    }

    /// Whether its locks may be given back meanwhile: it has neither changed data nor gone by them.
    pub fn may_release_world(&self) -> bool {
        !self.has_seen && !self.has_changed()
    }

    /// Whether a script that is next could not leave a worker by being undone, alone or with all.
    pub(crate) fn must_leave_worker(&self) -> bool {
        self.refuses_long_work && self.has_changed() && (self.is_final() || self.has_come_back)
    }

    /// Goes on at the worker of its session.
    pub(crate) fn return_to_worker(&mut self, lane: usize) {
        self.tx.move_to_worker(lane);
        self.refuses_long_work = true;
        self.has_come_back = true;
    }

    /// Goes on with the lane of a heavy-work thread.
    pub(crate) fn move_to_heavy(&mut self, lane: usize) {
        self.tx.move_to_heavy(lane);
        self.refuses_long_work = false;
    }

    /// Its transaction, in the database it began in.
    pub(crate) fn into_tx(mut self) -> Tx {
        self.tx.switch_database(self.home);
        self.tx
    }
}
