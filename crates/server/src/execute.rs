//! One request: lookup, admission, transaction, commit.
//!
//! Invariant: every command that runs, whoever sent it, runs through here; what it wrote leaves by
//! `commit` while its locks are still held.

use std::sync::atomic::Ordering;

use commands::{Flags, Group, Handler, Plan, Role};
use config::settings::PREFETCH_BATCH_MAX_SIZE;
use keyspace::{
    Acquisition, BUSY, HeavyPass, Location, Lsn, PartitionSet, Refusal, Tx, TxOptions, Wait,
};
use proto::{Args, Output, Reply, Resp};
use smallvec::SmallVec;

use crate::blocking::Waiting;
use crate::budget;
use crate::client_id::ClientId;
use crate::clients::client_flags;
use crate::command_log::Execution;
use crate::commit::commit;
use crate::control::context::{Asker, Context, ControlHandler, Next};
use crate::evict;
use crate::gates::{self, Verdict};
use crate::heavy::Call;
use crate::mailbox::Rounds;
use crate::server::Server;
use crate::session::{Blocked, Parked, Ran, Session, Stage};
use crate::table::{Entry, Run};
use crate::unit::drill;
use crate::worker::Worker;

mod chain;
mod departure;
mod known;
mod queue;
mod rejection;
mod unit;

pub(crate) use chain::{CHAIN_MAX, Chain, Link, Links};
#[cfg(debug_assertions)]
pub(crate) use departure::computes_apart;
pub(crate) use departure::{InputHandover, looks_heavy};
pub(crate) use known::{Known, Recognized};
pub(crate) use queue::queue_together;
use rejection::reject;
pub(crate) use rejection::{aborted, refuse};

/// What became of a request.
pub(crate) enum Step {
    /// It was answered.
    Done,
    /// It was answered, and the connection is to be closed.
    Close,
    /// It cannot run yet and is to be given again when the stage is over.
    Postpone(Stage),
    /// It runs on; the session waits for its end.
    Wait(Stage),
}

/// Where the keys of a request belong.
type Locations = SmallVec<[Location; 10]>;

/// Of the keys of a request so many are fetched from memory together, under its locks. More would
/// drive each other out of the nearest cache.
const PREFETCHED_MAX: usize = 64;

/// Which attempt at a request this is.
#[derive(Default)]
pub(crate) struct Round {
    /// How often it was widened.
    pub(crate) number: u32,
    /// Leave for heavy work, if that is what it turned out to be.
    pub(crate) pass: Option<HeavyPass>,
    /// Whether it turned out to be that in the middle, and moves before it begins.
    pub(crate) moves: bool,
    /// When it began to wait for what it has now, or still waits for, if it has waited: on the
    /// monotonic clock in microseconds.
    pub(crate) began_us: Option<i64>,
    /// What of it was ended by others in an attempt before, if it is a program.
    pub(crate) killed: Vec<usize>,
}

/// What the wait of a request ended with.
pub(crate) enum Grant {
    /// All its locks.
    Locks(Acquisition, Round),
    /// The end of its patience.
    Busy,
}

/// A request on its way through `execute`.
struct Request<'a> {
    worker: &'a Worker,
    session: &'a mut Session,
    entry: &'static Entry,
    location: Option<Location>,
    args: Args<'a>,
    out: &'a mut Output,
}

/// Runs one request. `grant` is what came of its wait, if it had to wait.
pub(crate) fn execute(
    worker: &Worker,
    session: &mut Session,
    args: Args<'_>,
    known: Option<Known>,
    out: &mut Output,
    grant: Option<Grant>,
) -> Step {
    let server = worker.server;
    let (mark, length) = (out.mark(), out.len());
    let known = known.map_or_else(|| Known::of(server, args), Ok);
    let Known { entry, location } = match known {
        Ok(known) => known,
        Err(refusal) => {
            reject(worker, session, None, out, &refusal);
            return after(session, None, out, mark, Step::Done);
        }
    };
    session.client.live.last_command.store(entry.id as u32, Ordering::Relaxed);
    let (verdict, grant) = match grant {
        None => {
            evict::prepare(worker, || budget::room_for(entry.spec.flags, args));
            (gates::admit(worker, session, entry, args), None)
        }
        Some(Grant::Busy) => (Verdict::Refused(BUSY), None),
        // Rights, a pause or a load may have come while it waited: then the locks go back.
        Some(Grant::Locks(acquisition, round)) => {
            let verdict = gates::admit(worker, session, entry, args);
            let is_admitted = matches!(verdict, Verdict::Admitted);
            (verdict, Some((acquisition, round)).filter(|_| is_admitted))
        }
    };
    match verdict {
        Verdict::Admitted => {}
        Verdict::Refused(refusal) => {
            server.stats.rejected(worker.lane, entry.id);
            reject(worker, session, Some(entry), out, &refusal);
            return after(session, None, out, mark, Step::Done);
        }
        Verdict::Postponed(stage) => return Step::Postpone(stage),
    }
    if session.is_queueing() && !entry.spec.flags.has(Flags::IMMEDIATE) {
        queue::queue(worker, session, entry, location, args, out);
        return after(session, None, out, mark, Step::Done);
    }
    // EXEC leaves out itself what its client does not want: that may be another in its middle.
    let is_exec = entry.spec.role == Role::Exec;
    let mut request = Request { worker, session, entry, location, args, out };
    let mut step = match entry.run {
        Run::Data(handler) if entry.spec.flags.has(Flags::USES_FIELDSET) => {
            request.run_import(handler, grant)
        }
        Run::Data(handler) => request.run_data(handler, grant),
        Run::Control(handler) => request.run_control(handler),
        Run::Unit(prepare) => request.run_unit(prepare, grant),
    };
    match &mut step {
        Step::Postpone(_) => return step,
        // What has a result to come is booked with that.
        Step::Wait(stage) if stage.has_result_to_come() => _ = worker.tick(),
        // What waits is booked when that is over.
        Step::Wait(Stage::Blocked(blocked)) => note_wait(worker, session, &mut blocked.ran),
        _ => book(worker, session, entry, args, out, length),
    }
    let mark = if is_exec { out.mark() } else { mark };
    after(session, Some(entry), out, mark, step)
}

/// Books a command that this worker has just run, whose reply begins where the output's length was
/// `length`.
#[inline]
fn book(
    worker: &Worker,
    session: &Session,
    entry: &'static Entry,
    args: Args<'_>,
    out: &Output,
    length: usize,
) {
    let micros = note_time(worker, entry);
    let reply_bytes = (out.len() - length) as u64 + out.bytes_to_come();
    account(worker, session, entry, args, micros, reply_bytes);
    tell_watchers(worker, session, session.database, entry, args);
}

/// Notes what a command took that waits now, and tells those who watch.
#[cold]
fn note_wait(worker: &Worker, session: &Session, ran: &mut Ran) {
    ran.micros = note_time(worker, ran.entry);
    tell_watchers(worker, session, session.database, ran.entry, ran.args.as_args());
}

/// Notes how long this worker was busy with a command, in microseconds.
#[inline]
fn note_time(worker: &Worker, entry: &Entry) -> u64 {
    let micros = u64::try_from(worker.tick()).unwrap_or(0);
    crate::counters::add(&worker.counters.busy_us, micros);
    if worker.server.keyspace.stall_stats().is_remarkable(micros) {
        note_hold(worker.server, entry, micros);
    }
    micros
}

/// Notes a command that held its locks for long; what held the world is noted with the stop.
#[cold]
fn note_hold(server: &Server, entry: &Entry, micros: u64) {
    if matches!(entry.run, Run::Data(_)) && entry.spec.plan != Plan::World {
        server.keyspace.stall_stats().note_hold(micros);
    }
}

/// Books a command that ran: its calls, its time, whether it was slow.
#[inline]
pub(crate) fn account(
    worker: &Worker,
    session: &Session,
    entry: &'static Entry,
    args: Args<'_>,
    micros: u64,
    reply_bytes: u64,
) {
    let server = worker.server;
    server.stats.called(worker.lane, entry.id, micros);
    crate::counters::add(&worker.counters.commands, 1);
    crate::counters::add(&session.client.live.commands, 1);
    if server.command_log.is_remarkable(args.extent(), micros, reply_bytes) {
        let (client, time_s) = (
            Some(&*session.client),
            session.client.live.last_active.load(Ordering::Relaxed) / 1000,
        );
        let execution = Execution { client, time_s, entry, args, micros, reply_bytes };
        server.command_log.note(&server.config, execution);
    }
    if micros >= server.latency.threshold_us() {
        server.latency.note_command(server.keyspace.clock(), entry.spec.flags, micros);
    }
}

/// Tells those who watch of a command that ran, or began to wait, with the database that its client
/// was in right after it.
#[inline]
pub(crate) fn tell_watchers(
    worker: &Worker,
    session: &Session,
    database: usize,
    entry: &'static Entry,
    args: Args<'_>,
) {
    let watchers = &worker.server.watchers;
    if watchers.any() {
        watchers.tell(worker, session, database, entry, args);
    }
}

/// Leaves the reply out where the client wants none. What tells of subscriptions is no reply.
fn after(
    session: &mut Session,
    ran: Option<&Entry>,
    out: &mut Output,
    mark: proto::Mark,
    step: Step,
) -> Step {
    if matches!(step, Step::Done | Step::Close) {
        if !session.replies() && !ran.is_some_and(answers_with_messages) {
            out.truncate(mark);
        }
        session.command_done(ran);
    }
    step
}

/// Whether a command confirms what it did by messages, which are no replies.
pub(crate) fn answers_with_messages(entry: &Entry) -> bool {
    entry.spec.group == Group::PubSub && entry.spec.flags.has(Flags::SUBSCRIBED)
}

impl Request<'_> {
    fn run_data(&mut self, handler: Handler, grant: Option<(Acquisition, Round)>) -> Step {
        let is_granted = grant.is_some();
        if !is_granted
            && looks_heavy(self.args)
            && let Some(step) = self.leave_unlocked(handler)
        {
            return step;
        }
        let mut locations = Locations::new();
        let (mut acquisition, round) = grant.unwrap_or_else(|| {
            locations = self.locations();
            (self.plan(&locations), Round::default())
        });
        if !is_granted && !self.acquire(&mut acquisition) {
            return self.park(acquisition, round);
        }
        let mut tx = self.begin(acquisition, self.may_widen());
        if let Some(location) = self.location {
            tx.hint(&self.args[1], location);
        } else if self.worker.server.config.get(PREFETCH_BATCH_MAX_SIZE) > 0 {
            tx.prefetch(&locations[..locations.len().min(PREFETCHED_MAX)]);
        }
        let work = self.work(handler);
        let entry = self.entry;
        if looks_heavy(self.args) || self.is_bulky() || drill::reads_apart(entry.spec.flags) {
            return self.hand_over(tx, work, round, true);
        }
        match work.run(&mut tx, self.args, self.out, &self.worker.rounds) {
            Outcome::Replied(seen) => {
                self.session.see_by(self.entry, seen);
                Step::Done
            }
            Outcome::Failed(seen) => {
                self.session.see(seen);
                self.note_failure();
                Step::Done
            }
            Outcome::Heavy => self.hand_over(tx, work, round, false),
            Outcome::Wait(wait) => self.block(&mut tx, work, *wait),
            Outcome::Widen => {
                let acquisition = tx.widen(round.number);
                self.park(acquisition, Round { number: round.number + 1, ..Round::default() })
            }
        }
    }

    #[inline]
    fn work(&self, handler: Handler) -> Work {
        let (server, entry, resp) = (self.worker.server, self.entry, self.session.resp);
        Work { server, entry, handler, resp, reader: self.session.reader_of(entry) }
    }

    /// Runs a command with the fields that the session has prepared for its values.
    #[cold]
    fn run_import(&mut self, handler: Handler, grant: Option<(Acquisition, Round)>) -> Step {
        let expanded = match self.session.fieldsets().expand(self.args) {
            Ok(expanded) => expanded,
            Err(refusal) => {
                self.refuse(&refusal);
                return Step::Done;
            }
        };
        let (worker, entry, location) = (self.worker, self.entry, self.location);
        let (session, out, args) = (&mut *self.session, &mut *self.out, expanded.as_args());
        Request { worker, session, entry, location, args, out }.run_data(handler, grant)
    }

    /// Stands the client in the queues of the keys it waits for, under their locks.
    #[cold]
    fn block(&self, tx: &mut Tx, work: Work, wait: Wait) -> Step {
        let waiting = Waiting::begin(tx, &self.session.client, work, wait);
        Step::Wait(Stage::Blocked(Box::new(Blocked::on_keys(self.ran(), waiting))))
    }

    /// The request, as what has just begun.
    fn ran(&self) -> Ran {
        Ran::begun(self.entry, self.args)
    }

    /// Takes the locks of a plan if all are there at once.
    #[inline]
    fn acquire(&self, acquisition: &mut Acquisition) -> bool {
        let flags = || gates::effective_flags(self.session, self.entry);
        !acquisition.wants_world() && self.worker.come_in_past_gates(flags) && acquisition.attempt()
    }

    /// Begins a transaction with what was acquired, at the present time: others may have run since
    /// an earlier attempt.
    #[inline]
    fn begin(&self, acquisition: Acquisition, undoable: bool) -> Tx {
        Tx::begin(acquisition, TxOptions { undoable, ..options(self.worker, self.session) })
    }

    #[inline]
    fn plan(&self, locations: &[Location]) -> Acquisition {
        let keyspace = self.worker.server.keyspace;
        match self.entry.spec.plan {
            Plan::World => Acquisition::of_world(keyspace),
            Plan::Visits => Acquisition::of_partitions(keyspace, PartitionSet::new()),
            Plan::Keys => Acquisition::of_partitions(keyspace, partitions(locations)),
        }
    }

    /// Leaves the request until its locks are there.
    #[cold]
    fn park(&self, acquisition: Acquisition, round: Round) -> Step {
        Step::Postpone(Stage::Parked(Parked::new(acquisition, round, self.worker.ticked_us())))
    }

    /// Where the keys belong that are locked, the locks on the way from memory if they are several.
    /// A request whose key counts lie has none, and locks none: its handler refuses it in its own
    /// words.
    #[inline]
    fn locations(&self) -> Locations {
        let mut locations = Locations::new();
        if self.entry.spec.plan != Plan::Keys {
            return locations;
        }
        if let Some(location) = self.location {
            locations.push(location);
            return locations;
        }
        let keyspace = self.worker.server.keyspace;
        for spec in self.entry.spec.keys {
            let visited = spec.visit(self.args, |index| {
                let location = keyspace.locate(&self.args[index]);
                keyspace.prefetch_locks(&[location]);
                locations.push(location);
            });
            if visited.is_err() {
                return Locations::new();
            }
        }
        locations
    }

    fn may_widen(&self) -> bool {
        self.entry.spec.plan == Plan::Keys
            && self.entry.spec.flags.has(Flags::TOUCHES_ARBITRARY_KEYS)
    }

    fn run_control(&mut self, handler: ControlHandler) -> Step {
        let (server, worker, entry, args) =
            (self.worker.server, self.worker, self.entry, self.args);
        let mut reply = Reply::new(self.out, self.session.resp);
        let asker = Some(Asker { worker, session: &mut *self.session });
        let mut context = Context { server, asker, entry, unit: None };
        let next = drill::beside(entry, || handler(&mut context, args, &mut reply));
        self.finish_control(next)
    }

    fn finish_control(&mut self, next: Result<Next, Refusal>) -> Step {
        match next {
            Ok(Next::Done) => Step::Done,
            Ok(Next::Close) => Step::Close,
            Ok(Next::Wait(stage)) => Step::Wait(stage),
            Ok(Next::Elsewhere(work)) => {
                let heavy = &self.worker.server.heavy;
                Step::elsewhere(heavy.run(self.call(), work))
            }
            Ok(Next::Visit(work)) => {
                let heavy = &self.worker.server.heavy;
                Step::elsewhere(heavy.run_visit(self.call(), work))
            }
            Err(refusal) => {
                self.refuse(&refusal);
                Step::Done
            }
        }
    }

    /// The request, for another thread.
    fn call(&self) -> Call {
        let (server, resp) = (self.worker.server, self.session.resp);
        let ceiling = server.output_ceiling(&self.session.client);
        Call { server, entry: self.entry, args: self.args.into(), resp, ceiling }
    }

    #[cold]
    fn refuse(&mut self, refusal: &Refusal) {
        self.worker.server.refuse(refusal, &mut Reply::new(self.out, self.session.resp));
        self.note_failure();
    }

    fn note_failure(&self) {
        self.worker.server.stats.failed(self.worker.lane, self.entry.id);
    }
}

/// How a session's transactions are begun.
#[inline]
pub(crate) fn options(worker: &Worker, session: &Session) -> TxOptions {
    // CLIENT IMPORT-SOURCE has its effect in import mode only.
    let sees_expired = worker.server.keyspace.settings().suspends_expiry()
        && session.client.has_flag(client_flags::IMPORT_SOURCE);
    let now_us = worker.now_us();
    TxOptions {
        lane: worker.lane,
        database: session.database,
        now: now_us / 1000,
        now_us,
        sees_expired,
        touches: !session.no_touch,
        undoable: false,
        heavy: false,
        origin: session.client.id,
    }
}

/// The partitions of very many keys.
#[cold]
pub(crate) fn partitions_of(server: &Server, entry: &Entry, args: Args<'_>) -> PartitionSet {
    let mut partitions = PartitionSet::new();
    for spec in entry.spec.keys {
        let visit =
            |index: usize| partitions.push(server.keyspace.locate(&args[index]).partition());
        if spec.visit(args, visit).is_err() {
            return PartitionSet::new();
        }
    }
    partitions
}

#[inline]
fn partitions(locations: &[Location]) -> PartitionSet {
    locations.iter().map(|location| location.partition()).collect()
}

/// Everything needed to run a data command, on whatever thread.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub(crate) server: &'static Server,
    pub(crate) entry: &'static Entry,
    pub(crate) handler: Handler,
    pub(crate) resp: Resp,
    /// Whose copies of what it reads are tracked.
    pub(crate) reader: Option<ClientId>,
}

/// How a handler's run ended.
pub(crate) enum Outcome {
    /// It replied and was committed; the reply waits for this LSN.
    Replied(Lsn),
    /// It replied an error; nothing but expired keys was committed.
    Failed(Lsn),
    /// It is too much for a worker; nothing was changed.
    Heavy,
    /// It needs more locks.
    Widen,
    /// There is nothing for it yet.
    Wait(Box<Wait>),
}

impl Outcome {
    fn having_seen(self, lsn: Lsn) -> Self {
        match self {
            Self::Replied(_) => Self::Replied(lsn),
            Self::Failed(_) => Self::Failed(lsn),
            other => other,
        }
    }
}

impl Work {
    /// Runs the handler and commits what it did; the caller then drops the transaction.
    #[inline]
    pub(crate) fn run(
        self,
        tx: &mut Tx,
        args: Args<'_>,
        out: &mut Output,
        rounds: &Rounds,
    ) -> Outcome {
        let mark = out.mark();
        let reply = &mut Reply::new(out, self.resp);
        let result = self.handler.run(tx, args, reply);
        let outcome = match result {
            Ok(()) => Outcome::Replied(0),
            Err(Refusal::Heavy) => {
                out.truncate(mark);
                if tx.is_touched() {
                    // What was over was removed: a change of its own, before the locks may go.
                    if commit(self.server, rounds, tx, Args::default()).is_err() {
                        return Outcome::Widen;
                    }
                    tx.renew();
                }
                return Outcome::Heavy;
            }
            Err(Refusal::Widen) => {
                out.truncate(mark);
                return Outcome::Widen;
            }
            Err(Refusal::Wait(wait)) => {
                out.truncate(mark);
                Outcome::Wait(wait)
            }
            Err(refusal) => {
                out.truncate(mark);
                self.server.refuse(&refusal, &mut Reply::new(out, self.resp));
                Outcome::Failed(0)
            }
        };
        match commit(self.server, rounds, tx, args) {
            Ok(seen) => {
                if let Some(reader) = self.reader {
                    let Self { server, entry, .. } = self;
                    server.tracking.remember(server, reader, entry.spec, args);
                }
                outcome.having_seen(seen)
            }
            Err(_) => {
                out.truncate(mark);
                Outcome::Widen
            }
        }
    }
}
