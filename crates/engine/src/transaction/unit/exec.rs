//! EXEC: the commands that a session queued, as one unit.
//!
//! Invariants: watched keys are locked with the commands' own, and stay watched until the unit is
//! committed; so of two transactions that each change what the other watches, one is refused. The
//! session is changed by commands behind `become_final` only, so there is nothing of it to restore.

mod control;

use std::sync::Arc;

use commands::arguments::database;
use commands::errors::TRANSACTION_DISCARDED;
use commands::{Flags, Role};
use config::settings::PREFETCH_BATCH_MAX_SIZE;
use keyspace::{Location, Refusal, Tx};
use proto::{Args, Output, Reply, Resp};
use smallvec::SmallVec;

use super::command_cost::CommandCost;
use super::{Program, ProgramRequest, RunsOn, Unit};
use crate::admission::gates::{self, FlagsOf};
use crate::admission::quota;
use crate::clients::registry::Client;
use crate::lane::Lane;
use crate::limits::loading::LOADING;
use crate::limits::quotas::DatabasesOverQuota;
use crate::limits::slot_map::SlotAccess;
use crate::session::fieldsets::{Fieldsets, is_long, with_fields};
use crate::session::multi::{MultiQueue, Queued, Watching};
use crate::session::{AclSubject, LockSet, ProgramAccounts, Request, Session, aborted};
use crate::table::command_table::{CommandEntry, Run};
use crate::table::flag_set::FlagSet;
use crate::transaction::control_plane::ControlWork;
use crate::transaction::engine::Engine;

const WITHOUT_MULTI: Refusal = Refusal::error("ERR EXEC without MULTI");

/// Queues longer than this are not for a worker, whatever they do.
const WORKER_QUEUE: usize = 500;

/// A worker is kept so long by the commands of a queue together, whatever each of them costs.
const WORKER_TIME_US: i64 = 1000;

/// So many commands are booked before others of the worker come.
const CHARGED_TOGETHER: usize = 1000;

/// The keys of so many commands are fetched from memory together.
const FETCHED: usize = 16;

/// A transaction under way.
struct Exec {
    server: &'static Engine,
    queue: Arc<MultiQueue>,
    watching: Option<Watching>,
    resp: Resp,
    subject: Option<Arc<AclSubject>>,
    /// What its client has said that opens slots of a cluster to it.
    access: SlotAccess,
    /// What HIMPORT PREPARE has named, where a command may ask for it.
    fieldsets: Fieldsets,
    /// What the commands did that ran already; the next one comes after them.
    ran: Vec<CommandCost>,
    /// How many of these are booked.
    charged: usize,
    has_begun: bool,
    /// The database that it began in.
    home: usize,
    /// The present command's program, if it is a unit of its own: a unit may have to go on
    /// elsewhere.
    nested: Option<Box<dyn Program>>,
    /// Which commands of the queue were ended by others. These commands end as well where all
    /// begins again.
    killed: Vec<usize>,
    /// The work of the present command, if that may wait for a disk or for others and is to be done
    /// elsewhere.
    task: Option<ControlWork>,
    closes: bool,
    /// Whether the client wants no replies from here on.
    is_mute: bool,
    /// Whether it has subscribed to anything: PING has another form then.
    is_subscriber: bool,
    /// Whether the client has asked for the debugger of scripts.
    wants_debugger: bool,
    /// The client, once the transaction has left its worker with what the client watches.
    out_for: Option<Arc<Client>>,
}

pub(super) fn prepare(asked: ProgramRequest<'_>, _: Args<'_>) -> Result<Box<dyn Program>, Refusal> {
    let ProgramRequest { server, resp, subject, access, session, .. } = asked;
    let Some(session) = session else { return Err(WITHOUT_MULTI) };
    let multi = session.multi.as_ref();
    let Some((multi, queue)) = multi.and_then(|it| Some((it, it.queue.as_ref()?))) else {
        return Err(WITHOUT_MULTI);
    };
    let (queue, watching) = (Arc::clone(queue), multi.watching.clone());
    if queue.is_dirty {
        session.end_transaction(server);
        return Err(TRANSACTION_DISCARDED);
    }
    let (is_mute, is_subscriber) = (!session.replies(), session.is_subscriber());
    let wants_debugger = session.wants_debugger;
    let mut exec = Exec::of(server, queue, resp);
    (exec.watching, exec.subject, exec.access) = (watching, subject, access);
    (exec.is_mute, exec.is_subscriber) = (is_mute, is_subscriber);
    exec.wants_debugger = wants_debugger;
    Ok(Box::new(exec))
}

impl ProgramAccounts for Exec {
    fn detach(&mut self, session: &mut Session) {
        session.multi = None;
        session.show_multi();
    }

    fn put_off(&mut self, session: &mut Session) {
        if let Some(multi) = &mut session.multi {
            multi.watching = self.watching.take();
        }
        session.show_multi();
    }

    fn charge_next(&mut self, lane: &Lane, session: &mut Session) -> bool {
        let end = self.ran.len().min(self.charged + CHARGED_TOGETHER);
        self.charge_up_to(end, lane, session);
        self.charged = end;
        self.ran.len() - end <= CHARGED_TOGETHER
    }

    fn charge(&self, _: Args<'_>, lane: &Lane, session: &mut Session) {
        self.charge_up_to(self.ran.len(), lane, session);
        if self.has_begun && self.server.gates.quotas.is_accounting_on() {
            session.note_request_began_in(self.home);
        }
        if let Some(last) = self.ran.last()
            && last.database != session.database
        {
            session.select(last.database);
        }
        if self.closes {
            session.close();
        }
    }
}

impl Program for Exec {
    fn needs(&self, _: Args<'_>, _: &[Location]) -> LockSet {
        let mut needs = self.queue.needs(self.server);
        let keyspace = self.server.keyspace;
        let watched = self.watching.iter().flat_map(|watching| &*watching.keys);
        needs.partitions.extend(watched.map(|(_, key)| keyspace.locate(key).partition()));
        // What would become final on the way begins so.
        needs.world |= needs.undoable && self.queue.iter_from(0).any(|it| makes_final(it.entry));
        needs
    }

    fn flags(&self, of: FlagsOf<'_>) -> Option<(FlagSet, Flags)> {
        Some((self.queue.flags(), self.queue.flags_by(of)))
    }

    fn run(
        &mut self,
        _: Args<'_>,
        unit: &mut Unit,
        place: &mut RunsOn<'_>,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if !self.has_begun {
            if !self.is_watch_whole(unit) {
                // Nothing runs, and nothing is booked.
                self.abandon();
                if !self.is_mute {
                    Reply::new(out, self.resp).null_array();
                }
                return Ok(());
            }
            // A thread that loads has had the world since the commands were queued.
            let is_kept = self.server.gates.loading.refuses(|| self.queue.flags());
            let refusal = is_kept.then_some(LOADING).or_else(|| self.refusal_of_short(unit));
            if let Some(refusal) = refusal {
                self.refuse_all(&refusal, unit, out);
                return Ok(());
            }
            let is_long = self.queue.len() > WORKER_QUEUE;
            if is_long && unit.refuses_long_work() && !self.returns(unit) {
                return Err(Refusal::Heavy);
            }
            (self.has_begun, self.home) = (true, unit.home());
            if !self.is_mute {
                Reply::new(out, self.resp).array(self.queue.len());
            }
        }
        let queue = Arc::clone(&self.queue);
        let clock = self.server.keyspace.clock();
        let moment = place.moment(self.server);
        let began = clock.since(moment);
        let mut started = began;
        while let Some(queued) = queue.get(self.ran.len()) {
            let has_taken_long = started - began > WORKER_TIME_US;
            if !self.is_place_for(queued.entry, unit, place, has_taken_long) {
                return Err(Refusal::Heavy);
            }
            if self.ran.len().is_multiple_of(FETCHED) {
                self.fetch_ahead(&unit.tx);
            }
            let (length, mark, was_closing) = (out.len(), out.mark(), self.closes);
            let is_denied = self.deny(queued, unit, out);
            let failed = is_denied || self.step(queued, unit, place, out)?;
            let nested = self.nested.take();
            // What tells of subscriptions is no reply, but an error is.
            let is_mute = self.is_mute && (failed || !queued.entry.answers_with_messages());
            // A client that has ended itself is told no more.
            if is_mute || was_closing {
                out.truncate(mark);
            }
            let ended = clock.since(moment);
            let micros = u64::try_from(ended - std::mem::replace(&mut started, ended)).unwrap_or(0);
            let (reply_bytes, database) = ((out.len() - length) as u64, unit.tx.database());
            let cost = CommandCost { database, micros, reply_bytes, failed, is_denied, nested };
            self.ran.push(cost);
        }
        Ok(())
    }

    fn restart(&mut self) {
        let nested = self.ran.drain(..).map(|ran| ran.nested).chain([self.nested.take()]);
        for (place, program) in nested.enumerate() {
            let Some(mut program) = program else { continue };
            if !program.killed().is_empty() && !self.killed.contains(&place) {
                self.killed.push(place);
            }
            program.forget();
        }
        self.has_begun = false;
    }

    fn killed(&mut self) -> Vec<usize> {
        self.killed.clone()
    }

    fn kill(&mut self, _: Args<'_>, killed: Vec<usize>) {
        self.killed = killed;
    }

    fn abandon(&mut self) {
        self.queue = Arc::default();
        if let Some(watching) = self.watching.take() {
            watching.end_elsewhere(self.server);
        }
    }

    /// An error behind the last command that ran is EXEC's own, as Redis counts.
    fn has_failed(&self) -> bool {
        self.ran.last().is_some_and(|ran| ran.is_denied)
    }

    fn needs_no_locks(&self) -> bool {
        self.watching.as_ref().is_some_and(|watching| watching.watch.is_broken())
    }

    fn committed(&mut self, _: Args<'_>, unit: &mut Unit) {
        if let Some(watching) = self.watching.take() {
            watching.end(&mut unit.tx);
        }
    }

    fn leave_worker(&mut self, session: &mut Session) {
        // The watch ends under the locks of its keys, when all is done.
        if let Some(multi) = &mut session.multi {
            multi.watching = None;
        }
        self.out_for = Some(Arc::clone(&session.client));
        self.fieldsets = session.fieldsets().clone();
    }

    fn may_be_deferred(&self) -> bool {
        // What others ended is known here only.
        self.killed.is_empty()
    }

    fn keep_rules(&mut self, subject: &Arc<AclSubject>) {
        self.subject = Some(Arc::clone(subject));
    }

    fn returns(&self, unit: &Unit) -> bool {
        // What may have to begin at its beginning has to find all there.
        let done = self.ran.len() + usize::from(self.task.is_some());
        let first = if unit.may_begin_again() { 0 } else { done };
        self.queue.iter_from(first).any(|queued| self.needs_session(queued.entry))
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        // No session has what the program watches: the program has panicked, or its session is
        // gone.
        if self.out_for.is_some() && self.watching.is_some() {
            self.abandon();
        }
        // If the queue is to be asked for again, its session has it, too.
        if let Some(queue) = Arc::get_mut(&mut self.queue) {
            queue.recycle();
        }
    }
}

/// Whether a command can be run only where its session is. Scripts have none, either.
fn needs_session(entry: &CommandEntry) -> bool {
    let flags = entry.spec.flags;
    let is_of_session = flags.has(Flags::NOSCRIPT) || makes_final(entry);
    let needs_none = matches!(entry.spec.role, Role::Debug | Role::Unwatch);
    matches!(entry.run, Run::Control) && is_of_session && !needs_none
}

/// Whether a command may do what can be neither undone nor put off.
fn makes_final(entry: &CommandEntry) -> bool {
    matches!(entry.run, Run::Control) && !entry.spec.flags.has(Flags::IDEMPOTENT)
}

impl Exec {
    /// One of a queue, whose client may do anything and watches nothing.
    fn of(server: &'static Engine, queue: Arc<MultiQueue>, resp: Resp) -> Self {
        let ran = Vec::with_capacity(queue.len());
        Self {
            server,
            queue,
            watching: None,
            resp,
            subject: None,
            access: SlotAccess::default(),
            fieldsets: Fieldsets::default(),
            ran,
            charged: 0,
            has_begun: false,
            home: 0,
            nested: None,
            killed: Vec::new(),
            task: None,
            closes: false,
            is_mute: false,
            is_subscriber: false,
            wants_debugger: false,
            out_for: None,
        }
    }

    /// Accounts for the commands that ran before a place in the queue and are not accounted yet.
    fn charge_up_to(&self, end: usize, lane: &Lane, session: &mut Session) {
        let ran = &self.ran[self.charged..end];
        let queued = self.queue.iter_from(self.charged);
        queued.zip(ran).for_each(|(queued, ran)| ran.charge(queued, self.home, lane, session));
    }

    fn is_watch_whole(&self, unit: &Unit) -> bool {
        let Some(watching) = &self.watching else { return true };
        let watch = &watching.watch;
        let lapsed = |(database, key): &(usize, Box<[u8]>)| {
            unit.tx.has_expired_since_watched(*database, key, watch)
        };
        !watching.watch.is_broken() && !watching.keys.iter().any(lapsed)
    }

    /// Why the whole transaction is refused, though its gates were open a moment ago: one of them
    /// has shut since, and would shut in the middle for the scripts in it.
    fn refusal_of_short(&self, unit: &mut Unit) -> Option<Refusal> {
        let (server, initial_refusals) = (self.server, unit.initial_refusals());
        if !initial_refusals.is_any() {
            return None;
        }
        initial_refusals
            .refuse(server, self.queue.flags_by(gates::script_flags_of(server)), false)
            .or_else(|| {
                self.refusal_of_full(initial_refusals.databases_over_quota(), unit.tx.database())
            })
    }

    /// Why one of its commands may not run for want of memory in the database that it runs in.
    fn refusal_of_full(&self, full: DatabasesOverQuota, begun: usize) -> Option<Refusal> {
        let (server, mut selected) = (self.server, begun);
        let flags_of = gates::script_flags_of(server);
        self.queue.iter_from(0).filter(|_| full.are_there()).find_map(|queued| {
            let Queued { entry, args, .. } = queued;
            if entry.spec.role == Role::Select {
                let named = database(&args[1], server.keyspace.database_count());
                selected = named.unwrap_or(selected);
                return None;
            }
            let request = Request { entry, args, database: selected };
            quota::refuse_memory_for(server, full, request, flags_of(entry, args))
        })
    }

    /// None of its commands runs.
    fn refuse_all(&mut self, refusal: &Refusal, unit: &mut Unit, out: &mut Output) {
        self.queue = Arc::default();
        let mark = out.mark();
        unit.refuse(&aborted(refusal), &mut Reply::new(out, self.resp));
        if self.is_mute {
            out.truncate(mark);
        }
    }

    /// Whether a command can be run only where the session is.
    fn needs_session(&self, entry: &CommandEntry) -> bool {
        needs_session(entry) || self.is_subscriber && entry.spec.role == Role::Ping
    }

    /// Whether the next command may begin here, as far as one can tell.
    fn is_place_for(
        &self,
        entry: &CommandEntry,
        unit: &Unit,
        place: &RunsOn<'_>,
        has_taken_long: bool,
    ) -> bool {
        match place {
            RunsOn::Heavy => self.task.is_some() || !self.needs_session(entry),
            RunsOn::Worker(..) if self.needs_session(entry) || !unit.refuses_long_work() => true,
            RunsOn::Worker(..) if has_taken_long => false,
            // DEBUG may take any time, and so may a script.
            RunsOn::Worker(..) => {
                let is_script = matches!(entry.run, Run::Unit);
                !(entry.spec.flags.has(Flags::PROTECTED) || is_script && unit.must_leave_worker())
            }
        }
    }

    /// Has the keys of the next commands on their way from memory.
    fn fetch_ahead(&self, tx: &Tx) {
        if self.server.config.get(PREFETCH_BATCH_MAX_SIZE) > 0 {
            let next = self.queue.iter_from(self.ran.len()).take(FETCHED);
            let keys: SmallVec<[Location; FETCHED]> = next.filter_map(|it| it.location).collect();
            tx.prefetch(&keys);
        }
    }

    /// Refuses a command that its user may not run any more; whether that is so.
    fn deny(&self, queued: Queued<'_>, unit: &mut Unit, out: &mut Output) -> bool {
        let Queued { entry, args, .. } = queued;
        let request = Request { entry, args, database: unit.tx.database() };
        let subject = self.subject.as_ref();
        let refusal = subject.and_then(|subject| subject.refuse_queued(unit, request));
        refusal.is_some_and(|refusal| self.refuse(unit, &refusal, out))
    }

    /// Runs one command; whether it failed.
    fn step(
        &mut self,
        queued: Queued<'_>,
        unit: &mut Unit,
        place: &mut RunsOn<'_>,
        out: &mut Output,
    ) -> Result<bool, Refusal> {
        let Queued { entry, args, .. } = queued;
        match entry.run {
            Run::Data(handler) if entry.spec.flags.has(Flags::USES_FIELDSET) => {
                let fieldsets = match place {
                    RunsOn::Worker(_, session) => session.fieldsets(),
                    RunsOn::Heavy => &self.fieldsets,
                };
                match fieldsets.fields_of(args) {
                    Ok(fields) if unit.refuses_long_work() && is_long(&fields, args) => {
                        Err(Refusal::Heavy)
                    }
                    Ok(fields) => {
                        let args = with_fields(&fields, args);
                        unit.call(entry, handler, args.as_args(), self.resp, out)
                    }
                    Err(refusal) => Ok(self.refuse(unit, &refusal, out)),
                }
            }
            Run::Data(handler) => {
                if let Some(location) = queued.location {
                    unit.tx.hint(&args[1], location);
                }
                unit.call(entry, handler, args, self.resp, out)
            }
            Run::Control => self.control(queued, unit, place, out),
            Run::Unit => self.run_nested(queued, unit, place, out),
        }
    }

    /// Runs a command that is a unit of its own, such as a script; whether it failed.
    fn run_nested(
        &mut self,
        queued: Queued<'_>,
        unit: &mut Unit,
        place: &mut RunsOn<'_>,
        out: &mut Output,
    ) -> Result<bool, Refusal> {
        let mut program = match self.nested.take() {
            Some(program) => program,
            None => {
                let session = match place {
                    RunsOn::Worker(_, session) => Some(&mut **session),
                    RunsOn::Heavy => {
                        // A function's session would see to it that its library is safe first.
                        unit.tx.note_lsn(self.server.scripts.libraries.state().changed_at());
                        None
                    }
                };
                let asked = ProgramRequest {
                    server: self.server,
                    entry: queued.entry,
                    resp: self.resp,
                    subject: self.subject.clone(),
                    access: self.access,
                    initial_refusals: Some(unit.initial_refusals()),
                    wants_debugger: self.wants_debugger,
                    session,
                };
                let server = self.server;
                match server.prepare(queued.entry, asked, queued.args) {
                    Ok(mut program) => {
                        if self.killed.contains(&self.ran.len()) {
                            program.kill(queued.args, vec![0]);
                        }
                        program
                    }
                    Err(refusal) => return Ok(self.refuse(unit, &refusal, out)),
                }
            }
        };
        unit.set_may_begin_offloaded(unit.refuses_long_work());
        let result = program.run(queued.args, unit, place, out);
        let failed = program.has_failed();
        self.nested = Some(program);
        result.map(|()| failed)
    }

    fn refuse(&self, unit: &mut Unit, refusal: &Refusal, out: &mut Output) -> bool {
        unit.refuse(refusal, &mut Reply::new(out, self.resp));
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use keyspace::{Acquisition, Tx, TxOptions};
    use proto::{Args, Output, OwnedArgs, Resp};

    use super::{Exec, Program, RunsOn, Unit};
    use crate::clients::mailbox::PendingWakes;
    use crate::execute::Resolved;
    use crate::limits::write_refusals::{FEW_REPLICAS, LOG_FAILED};
    use crate::runtime::background::wait_for;
    use crate::session::multi::MultiQueue;
    use crate::testing;

    /// A gate that shuts behind the gates of EXEC, as its locks come, refuses the whole of it.
    #[test]
    fn what_is_short_under_its_locks_is_asked_again() {
        let server = testing::engine();
        let words: OwnedArgs = ["SET", "a", "1"].iter().map(|it| it.as_bytes()).collect();
        let Resolved { entry, location } =
            Resolved::of(server, words.as_args()).expect("SET is a command");
        for reason in [None, Some(FEW_REPLICAS), Some(LOG_FAILED)] {
            let mut queue = MultiQueue::default();
            queue.push(entry, words.as_args(), location);
            let mut exec = Exec::of(server, Arc::new(queue), Resp::Two);
            let needs = exec.needs(Args::default(), &[]);
            let mut locks = Acquisition::of_partitions(server.keyspace, needs.partitions);
            wait_for(&mut locks);
            reason.inspect(|reason| server.gates.write_refusals.set(*reason, true));
            let internal = TxOptions::internal(0, server.keyspace.clock().now_ms());
            let options = TxOptions { heavy: true, ..internal };
            let mut unit = Unit::begin(server, Tx::begin(locks, options), None);
            let mut out = Output::new();
            exec.run(Args::default(), &mut unit, &mut RunsOn::Heavy, &mut out).expect("it has all");
            unit.commit(&PendingWakes::default()).expect("it has all locks");
            drop(unit);
            reason.inspect(|reason| server.gates.write_refusals.set(*reason, false));
            let reply = String::from_utf8_lossy(out.front()).into_owned();
            match reason {
                None => assert_eq!(reply, "*1\r\n+OK\r\n"),
                Some(_) => assert!(reply.starts_with("-EXECABORT "), "{reply}"),
            }
        }
    }
}
