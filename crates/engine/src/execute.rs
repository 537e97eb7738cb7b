//! One request: lookup, admission, transaction, commit.
//!
//! Invariant: every command that runs, from every client, runs through here; what it wrote leaves
//! by `commit` while its locks are still held.

pub mod offload;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use commands::{Flags, Handler, LockPlan, Role};
use config::settings::PREFETCH_BATCH_MAX_SIZE;
use keyspace::{Acquisition, LocatedKeys, Location, PartitionSet, Refusal, Tx, TxOptions, Wait};
use proto::{Args, Output, OwnedArgs, Reply};
use smallvec::SmallVec;

use crate::admission::gates::{self, GateVerdict};
use crate::admission::redirection::{OpenSlotKeys, RoutedRequest};
use crate::commit::accounting::{charge, charge_step};
use crate::commit::handler::{HandlerOutcome, HandlerWork};
use crate::commit::served_request::ServedRequest;
use crate::execute::offload::ControlCall;
use crate::lane::Lane;
use crate::limits::budget;
use crate::runtime::failpoint;
use crate::session::Waiting;
use crate::session::fieldsets::{self, with_fields};
use crate::session::{
    Blocked, ExecutedCommand, LockWaitEnd, RequestAttempt, Session, Step, Suspension, tx_options,
};
use crate::shared::Shared;
use crate::table::command_table::{CommandEntry, Run};
use crate::transaction::control_plane::{CallingSession, ControlOutcome, ControlRequest};
use crate::transaction::engine::Engine;

mod foreign;
mod forward;
mod http_request;
mod lock_batch;
mod locks;
mod lookup;
mod offload_start;
mod queue;
mod rejection;
mod unit;

pub use foreign::{ForeignBody, ForeignRequest, PartOutcome};
pub use forward::{join_forward, send_on};
pub use lock_batch::{BatchedRequest, BatchedRequests, LOCK_BATCH_MAX, LockBatch};
use locks::{Granted, PREFETCHED_MAX};
pub use lookup::{Located, Lookup, Resolved};
use offload_start::computes_apart;
pub use offload_start::{InputHandover, is_heavy_request};
pub use queue::queue_together;
pub(crate) use rejection::refuse;
use rejection::reject;

/// Where requests are run: what runs them, at which lane, and what of their session's input may
/// leave with them.
#[derive(Clone, Copy)]
pub struct Executor<'a> {
    /// The engine that the commands run on.
    pub engine: &'static Engine,
    /// The worker's lane, on which transactions begin.
    pub lane: &'a Lane,
    /// Where long arguments stay in the buffer that they were read into.
    pub handover: &'a InputHandover,
}

/// A request on its way through `execute`.
struct CommandExecution<'a> {
    engine: &'static Engine,
    lane: &'a Lane,
    handover: &'a InputHandover,
    session: &'a mut Session,
    pub entry: &'static CommandEntry,
    location: Option<Location>,
    /// As far as they were located before its turn.
    several: &'a [Location],
    pub args: Args<'a>,
    import: Option<Import<'a>>,
    out: &'a mut Output,
}

/// A request of HIMPORT SET, whose values get their fields where it runs.
struct Import<'a> {
    /// The request as it was sent: so it leaves its worker.
    sent: Args<'a>,
    fields: Arc<OwnedArgs>,
    /// Whether the fields are to be put before the values elsewhere, and were not yet.
    is_long: bool,
}

/// Runs one request. `grant` is what came of its wait, if it had to wait.
pub fn execute(
    executor: Executor<'_>,
    session: &mut Session,
    args: Args<'_>,
    located: &Located,
    out: &mut Output,
    grant: Option<LockWaitEnd>,
) -> Step {
    let Executor { engine, lane, handover } = executor;
    let server = lane.shared;
    let (mark, length) = (out.mark(), out.len());
    let resolved = located.resolved().map_or_else(|| Resolved::of(server, args), Ok);
    let Resolved { entry, location } = match resolved {
        Ok(resolved) => resolved,
        Err(refusal) => {
            reject(lane, session, None, args, out, &refusal);
            return after(session, None, out, mark, Step::Done);
        }
    };
    session.client.live.last_command.store(entry.id as u32, Ordering::Relaxed);
    let is_queued = session.is_queueing() && !entry.spec.flags.has(Flags::IMMEDIATE);
    let bytes_needed = || budget::bytes_needed(entry.spec.flags, args);
    let admit = || gates::admit(lane, session, entry, args, || located.locations());
    let (verdict, grant) = locks::enter(lane, grant, bytes_needed, admit);
    match verdict {
        GateVerdict::Admitted => {}
        GateVerdict::Refused(refusal) => {
            if let Some(step) = http_request::divert(lane, session, args, out) {
                return step;
            }
            server.observed.stats.rejected(lane.number, entry.id);
            reject(lane, session, Some(entry), args, out, &refusal);
            return after(session, None, out, mark, Step::Done);
        }
        GateVerdict::Postponed(suspension) => return Step::Postpone(suspension),
        GateVerdict::Elsewhere(node) if !is_queued => {
            return forward::begin(lane, session, (entry, args), (node, false));
        }
        // What is queued goes along with its EXEC.
        GateVerdict::Elsewhere(_) => {}
    }
    if !matches!(entry.run, Run::Control) {
        failpoint::behind_gates();
    }
    if is_queued {
        queue::queue(lane, session, entry, location, args, out);
        return after(session, None, out, mark, Step::Done);
    }
    let request = CommandExecution {
        engine,
        lane,
        handover,
        session,
        entry,
        location,
        several: located.several(),
        args,
        import: None,
        out,
    };
    request.run_admitted(grant, (mark, length))
}

/// Leaves the reply out where the client wants none. What tells of subscriptions is no reply.
fn after(
    session: &mut Session,
    ran: Option<&CommandEntry>,
    out: &mut Output,
    mark: proto::Mark,
    step: Step,
) -> Step {
    if matches!(step, Step::Done | Step::Close) {
        session.check_import_answer(|| out.written_since(mark));
        if !session.replies() && !ran.is_some_and(CommandEntry::answers_with_messages) {
            out.truncate(mark);
        }
        session.command_done(ran);
    }
    step
}

impl CommandExecution<'_> {
    /// Runs what the gates let pass. `mark` is where the output stood, with its length.
    fn run_admitted(mut self, grant: Granted, (mark, length): (proto::Mark, usize)) -> Step {
        let (lane, entry, args) = (self.lane, self.entry, self.args);
        let client = Some(self.session.client.id);
        let served = ServedRequest { server: lane.shared, client, entry, args };
        let mut step = served.serve(|| match entry.run {
            Run::Data(handler) if entry.spec.flags.has(Flags::USES_FIELDSET) => {
                self.run_import(handler, grant)
            }
            Run::Data(handler) => self.run_data(handler, grant),
            Run::Control => self.run_control(),
            Run::Unit => self.run_unit(grant),
        });
        let Self { session, out, .. } = self;
        charge_step(lane, session, &mut step, || charge(lane, session, entry, args, out, length));
        // EXEC leaves out itself what its client does not want: that may be another in its middle.
        let mark = if entry.spec.role == Role::Exec { out.mark() } else { mark };
        after(session, Some(entry), out, mark, step)
    }

    fn run_data(&mut self, handler: Handler, grant: Granted) -> Step {
        let is_granted = grant.is_some();
        if !is_granted
            && is_heavy_request(self.args)
            && let Some(step) = self.offload_unlocked(handler)
        {
            return step;
        }
        let mut located = LocatedKeys::default();
        let (mut acquisition, attempt) = match grant {
            Some(granted) => {
                if !self.several.is_empty() {
                    located = self.located().1;
                }
                granted
            }
            None => {
                let partitions;
                (partitions, located) = self.located();
                (self.plan(partitions), RequestAttempt::default())
            }
        };
        if !is_granted && !self.acquire(&mut acquisition) {
            return self.park(acquisition, attempt);
        }
        let mut tx = self.begin(acquisition, self.may_be_undone());
        if let Some(keys) = self.open_keys()
            && let Some(refusal) = keys.refuse(&self.lane.routes(), &tx)
        {
            drop(tx);
            return self.redirect(&keys, &refusal);
        }
        tx.serve_within_budget();
        if let Some(location) = self.location {
            tx.hint(&self.args[1], location);
        } else if located.locations().len() > 0 {
            if self.lane.shared.config.get(PREFETCH_BATCH_MAX_SIZE) > 0 {
                let some = located.locations().take(PREFETCHED_MAX);
                tx.prefetch(&some.collect::<SmallVec<[Location; 8]>>());
            }
            tx.set_located(located);
        }
        let work = self.work(handler);
        let entry = self.entry;
        if is_heavy_request(self.args)
            || self.is_bulky()
            || self.import.as_ref().is_some_and(|import| import.is_long)
            || (failpoint::are_reads_apart() && computes_apart(entry.spec.flags))
        {
            return self.hand_over(tx, work, attempt, true);
        }
        match work.run(&mut tx, self.args, self.out, &self.lane.wakes) {
            HandlerOutcome::Replied(seen) => {
                self.session.note_reply(self.entry, seen);
                Step::Done
            }
            HandlerOutcome::Failed(seen) => {
                self.session.note_reply_lsn(seen);
                self.note_failure();
                Step::Done
            }
            HandlerOutcome::Heavy => self.hand_over(tx, work, attempt, false),
            HandlerOutcome::Wait(wait) => self.block(&mut tx, work, *wait),
            HandlerOutcome::Widen => {
                locks::park_wider(self.lane, tx.widen(attempt.widenings), &attempt)
            }
        }
    }

    /// Where its keys belong, as far as they were located before.
    fn locations(&self) -> &[Location] {
        if self.several.is_empty() { self.location.as_slice() } else { self.several }
    }

    /// Its keys of a slot on the move, if it has any.
    #[inline]
    fn open_keys(&self) -> Option<OpenSlotKeys> {
        if self.lane.shared.gates.routing.is_on() { self.find_open_keys() } else { None }
    }

    #[cold]
    fn find_open_keys(&self) -> Option<OpenSlotKeys> {
        self.routed().open_keys(&self.lane.routes())
    }

    fn routed(&self) -> RoutedRequest<'_> {
        let Self { lane, entry, args, .. } = *self;
        let (session, flags) = (&*self.session, gates::effective_flags(self.session, entry));
        let (server, locations) = (lane.shared, self.locations());
        RoutedRequest { server, session, entry, args, locations, flags }
    }

    /// Sends the client, or the request, elsewhere, as the gates would have. The reply of EXEC is
    /// left out here: what its client does not want is known only where EXEC ends.
    #[cold]
    fn redirect(&mut self, keys: &OpenSlotKeys, refusal: &Refusal) -> Step {
        let destination = keys.destination(self.routed(), &self.lane.routes(), refusal);
        if let Some(node) = destination {
            return forward::begin(self.lane, self.session, (self.entry, self.args), (node, true));
        }
        let mark = self.out.mark();
        self.lane.shared.observed.stats.rejected(self.lane.number, self.entry.id);
        reject(self.lane, self.session, Some(self.entry), self.args, self.out, refusal);
        if !self.session.replies() {
            self.out.truncate(mark);
        }
        Step::Done
    }

    #[inline]
    fn work(&self, handler: Handler) -> HandlerWork {
        let (server, entry, resp) = (self.lane.shared, self.entry, self.session.resp);
        HandlerWork { server, entry, handler, resp, reader: self.session.reader_of(entry) }
    }

    /// Runs a command with the fields that the session has prepared for its values.
    #[cold]
    fn run_import(&mut self, handler: Handler, grant: Granted) -> Step {
        let fields = match self.session.fieldsets().fields_of(self.args) {
            Ok(fields) => fields,
            Err(refusal) => {
                self.refuse(&refusal);
                return Step::Done;
            }
        };
        let sent = self.args;
        let (session, out) = (&mut *self.session, &mut *self.out);
        let is_long = fieldsets::is_long(&fields, sent);
        let expanded;
        let args = if is_long {
            sent
        } else {
            expanded = with_fields(&fields, sent);
            expanded.as_args()
        };
        let import = Some(Import { sent, fields, is_long });
        let mut request = CommandExecution { session, out, args, import, ..*self };
        request.run_data(handler, grant)
    }

    /// Stands the client in the queues of the keys it waits for, under their locks.
    #[cold]
    fn block(&self, tx: &mut Tx, work: HandlerWork, wait: Wait) -> Step {
        let waiting = Waiting::begin(tx, &self.session.client, work.waiting(), wait);
        Step::Wait(Suspension::Blocked(Box::new(Blocked::on_keys(self.ran(), waiting))))
    }

    /// The request, as what has just begun.
    fn ran(&self) -> ExecutedCommand {
        ExecutedCommand::begun(self.entry, self.args)
    }

    /// Takes the locks of a plan if all are there at once.
    #[inline]
    fn acquire(&self, acquisition: &mut Acquisition) -> bool {
        let flags = || gates::flag_set(self.session, self.entry);
        locks::acquire(self.lane, flags, acquisition)
    }

    /// Begins a transaction with what was acquired, at the present time: others may have run since
    /// an earlier attempt.
    #[inline]
    fn begin(&self, acquisition: Acquisition, undoable: bool) -> Tx {
        Tx::begin(acquisition, TxOptions { undoable, ..tx_options(self.lane, self.session) })
    }

    #[inline]
    fn plan(&self, partitions: PartitionSet) -> Acquisition {
        let keyspace = self.lane.shared.keyspace;
        match self.entry.spec.plan {
            LockPlan::World => Acquisition::of_world(keyspace),
            LockPlan::Visits | LockPlan::OfWords(_) => {
                Acquisition::of_partitions(keyspace, PartitionSet::new())
            }
            LockPlan::Keys => Acquisition::of_partitions(keyspace, partitions),
        }
    }

    /// Leaves the request until its locks are there.
    #[cold]
    fn park(&self, acquisition: Acquisition, attempt: RequestAttempt) -> Step {
        locks::park(self.lane, acquisition, attempt)
    }

    /// What is to be locked, and the keys as they were located for that, if they are several: their
    /// locks are on the way from memory. A request whose key counts lie has no keys, and locks
    /// nothing: its handler refuses it in its own words.
    #[inline]
    fn located(&self) -> (PartitionSet, LocatedKeys) {
        let (mut partitions, mut located) = (PartitionSet::new(), LocatedKeys::default());
        if self.entry.spec.plan != LockPlan::Keys {
            return (partitions, located);
        }
        if let Some(location) = self.location {
            partitions.push(location.partition());
            return (partitions, located);
        }
        let keyspace = self.lane.shared.keyspace;
        let mut known = self.several.iter();
        let visited = self.entry.spec.visit_keys(self.args, |index| {
            let key = &self.args[index];
            let location = keyspace.locate_unless_known(key, known.next());
            keyspace.prefetch_locks(&[location]);
            partitions.push(location.partition());
            located.push(key, location);
        });
        match visited {
            Ok(()) => (partitions, located),
            Err(_) => (PartitionSet::new(), LocatedKeys::default()),
        }
    }

    fn may_widen(&self) -> bool {
        self.entry.spec.plan == LockPlan::Keys
            && self.entry.spec.flags.has(Flags::TOUCHES_ARBITRARY_KEYS)
    }

    /// Whether its transaction may have to be undone, beside those whose keys are waited for.
    fn may_be_undone(&self) -> bool {
        let may_serve_any = self.entry.spec.plan == LockPlan::World;
        self.may_widen() || may_serve_any && self.lane.shared.keyspace.any_waiters()
    }

    fn run_control(&mut self) -> Step {
        let Self { engine, lane, entry, args, .. } = *self;
        let mut reply = Reply::new(self.out, self.session.resp);
        let asker = Some(CallingSession { lane, session: &mut *self.session });
        let request = ControlRequest { entry, asker, unit: None };
        let next = failpoint::beside(entry.spec.role, || engine.control(request, args, &mut reply));
        self.finish_control(next)
    }

    fn finish_control(&mut self, next: Result<ControlOutcome, Refusal>) -> Step {
        match next {
            Ok(ControlOutcome::Done) => Step::Done,
            Ok(ControlOutcome::Close) => Step::Close,
            Ok(ControlOutcome::Wait(suspension)) => Step::Wait(suspension),
            Ok(ControlOutcome::Offload(work)) => {
                let background = &self.lane.shared.threads.background;
                Step::offload(background.run(self.call(), work))
            }
            Ok(ControlOutcome::OffloadWithLocks(work)) => {
                let background = &self.lane.shared.threads.background;
                Step::offload(background.run_with_locks(self.call(), work))
            }
            Err(refusal) => {
                self.refuse(&refusal);
                Step::Done
            }
        }
    }

    /// The request, for another thread.
    fn call(&self) -> ControlCall {
        let (server, resp) = (self.lane.shared, self.session.resp);
        let ceiling = server.output_ceiling(&self.session.client);
        ControlCall { server, entry: self.entry, args: self.args.into(), resp, ceiling }
    }

    #[cold]
    fn refuse(&mut self, refusal: &Refusal) {
        self.lane.shared.refuse(refusal, &mut Reply::new(self.out, self.session.resp));
        self.note_failure();
    }

    fn note_failure(&self) {
        self.lane.shared.observed.stats.failed(self.lane.number, self.entry.id);
    }
}

/// The partitions of very many keys.
#[cold]
pub(crate) fn partitions_of(server: &Shared, entry: &CommandEntry, args: Args<'_>) -> PartitionSet {
    let mut partitions = PartitionSet::new();
    let visited = entry.spec.visit_keys(args, |index| {
        partitions.push(server.keyspace.locate(&args[index]).partition());
    });
    if visited.is_ok() { partitions } else { PartitionSet::new() }
}
