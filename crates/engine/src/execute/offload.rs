//! Heavy work: threads for what would keep a worker from its other clients.
//!
//! Invariant: a transaction has the keyspace's leave for heavy work from before it leaves its
//! worker's turnstile until its locks are dropped, panic or not.

use std::cell::Cell;
use std::sync::Arc;

use base::time::Clock;
use commands::Flags;
use keyspace::{
    Acquisition, BUSY, CommandStart, HeavyPass, PartitionIndex, PartitionSet, Refusal, Tx,
    TxOptions, WaitReason,
};
use proto::{Output, OwnedArgs, Reply, Resp};
use tokio::sync::oneshot;

use crate::admission::readmission::{Passage, Readmission};
use crate::admission::redirection::OpenSlotKeys;
use crate::clients::mailbox::PendingWakes;
use crate::clients::registry::Client;
use crate::commit::handler::{HandlerOutcome, HandlerWork};
use crate::commit::served_request::ServedRequest;
use crate::execute;
use crate::journal::ReplyLsn;
use crate::limits::long_running::RunningGuard;
use crate::runtime::background::{BETWEEN_LOOKS, Background, wait_for_client_while};
use crate::runtime::failpoint;
use crate::session::Waiting;
use crate::session::fieldsets::with_fields;
use crate::session::{AclSubject, Request};
use crate::session::{AfterOffload, ExecutedCommand, OffloadResult, Suspension};
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;
use crate::transaction::control_plane::ControlWork;

mod program;
mod read_phase;

pub(crate) use program::{GuardedProgram, OffloadedProgram};
pub(crate) use read_phase::{ReadPhase, UnlockedCommand};

/// How much of a long reply is made here; the session makes the rest as it is sent.
const FIRST_PIECE: usize = 64 * 1024;

/// A control command that does its work here.
pub struct ControlCall {
    /// What the command steers.
    pub server: &'static Shared,
    /// The command.
    pub entry: &'static CommandEntry,
    /// The request, its name first.
    pub args: OwnedArgs,
    /// The protocol of the client, in which the reply is written.
    pub resp: Resp,
    /// The most that may wait to be sent to its client.
    pub ceiling: usize,
}

/// A transaction that moves here, with what it holds beside its locks.
pub(crate) struct OffloadedTransaction {
    /// None if it has the world.
    pub(crate) pass: Option<HeavyPass>,
    pub(crate) running: RunningGuard,
    pub(crate) tx: Tx,
    /// The client that the transaction is for.
    pub(crate) client: Arc<Client>,
    pub(crate) subject: Option<Arc<AclSubject>>,
    /// By what it was let pass.
    pub(crate) passage: Passage,
    /// Its keys of a slot on the move.
    pub(crate) open_keys: Option<OpenSlotKeys>,
    /// The fields that its values get here, if it is an import.
    pub(crate) fields: Option<Arc<OwnedArgs>>,
}

/// A command that leaves its worker.
pub(crate) enum OffloadedCommand {
    /// With its locks.
    OffloadedTransaction(OffloadedTransaction),
    /// With copies of what its keys hold.
    ReadPhase(ReadPhase),
    /// With nothing yet.
    UnlockedCommand(UnlockedCommand),
}

/// Why something does not begin again.
enum NotReadmitted {
    Refused(Refusal),
    /// A gate holds the request. The request has done nothing and holds nothing, and its session
    /// begins it anew.
    PutOff,
}

impl NotReadmitted {
    /// What its client is told, where it is not begun anew: SCRIPT KILL has ended it just as a gate
    /// held it.
    fn reason(self) -> Refusal {
        const KILLED: Refusal = Refusal::error("ERR Script killed by user with SCRIPT KILL...");
        match self {
            Self::Refused(refusal) => refusal,
            Self::PutOff => KILLED,
        }
    }
}

impl From<Refusal> for NotReadmitted {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl OffloadedTransaction {
    /// Runs the command, which began on a worker.
    fn run(mut self, lane: usize, args: OwnedArgs, work: HandlerWork) -> OffloadResult {
        self.tx.forget_command(&CommandStart::default());
        self.tx.move_to_heavy(lane);
        self.execute(args, work)
    }

    /// Runs the command, as often as it needs more locks.
    fn execute(self, args: OwnedArgs, work: HandlerWork) -> OffloadResult {
        // In a panic too the locks go first, as the world may be granted right after the pass.
        let Self { mut pass, mut running, mut tx, client, subject, passage, open_keys, fields } =
            self;
        let mut output = Output::new();
        output.set_ceiling(work.server.output_ceiling(&client));
        let watch = WorkTimer::start(work.server.keyspace.clock());
        let request = Request { entry: work.entry, args: args.as_args(), database: tx.database() };
        let (server, subject) = (work.server, subject.as_ref());
        let readmission = Readmission::of_command(server, subject, request, passage);
        let (mut failed, mut seen, mut waits, wakes) =
            (false, ReplyLsn::default(), None, PendingWakes::default());
        let entry = work.entry;
        let imported = fields.map(|fields| with_fields(&fields, args.as_args()));
        let words = imported.as_ref().unwrap_or(&args).as_args();
        let served =
            ServedRequest { server: work.server, client: Some(client.id), entry, args: words };
        for widenings in 0.. {
            if let (None, Some(buffer)) = (&imported, args.buffer()) {
                tx.came_in(buffer);
            }
            let run = || work.run(&mut tx, words, &mut output, &wakes);
            match served.serve(run) {
                HandlerOutcome::Replied(shown) => seen = shown,
                HandlerOutcome::Failed(shown) => (failed, seen) = (true, shown),
                HandlerOutcome::Wait(wait) => {
                    waits = Some(Waiting::begin(&mut tx, &client, work.waiting(), *wait));
                }
                HandlerOutcome::Widen => {
                    let (pass_of, running_of) = (&mut pass, &mut running);
                    let widen = || again(tx, widenings, pass_of, running_of, &readmission, || true);
                    match watch
                        .without(widen)
                        .and_then(|tx| with_open_keys(open_keys.as_ref(), work.server, tx))
                    {
                        Ok(widened) => {
                            tx = widened;
                            continue;
                        }
                        Err(NotReadmitted::Refused(busy)) => {
                            execute::refuse(work.server, work.entry, &busy, work.resp, &mut output);
                            failed = true;
                            break;
                        }
                        Err(NotReadmitted::PutOff) => {
                            // Others may have the thread, once its leave is given back.
                            drop((running, pass));
                            return OffloadResult::put_off(work.entry, args);
                        }
                    }
                }
                HandlerOutcome::Heavy => unreachable!("heavy threads carry any load"),
            }
            drop(tx);
            break;
        }
        drop(running);
        drop(pass);
        work.server.mailboxes.wake(&wakes);
        // What a reply needs no lock for is begun here, off the worker.
        output.pull(FIRST_PIECE);
        let (entry, micros) = (work.entry, watch.micros());
        let ran = ExecutedCommand { entry, args, micros, failed, program: None };
        let then = waits.map_or(AfterOffload::Nothing, AfterOffload::Waits);
        OffloadResult { output, seen, ran, then }
    }
}

/// Begins a transaction again with the locks that it turned out to need; waits for them as long as
/// a client is kept waiting. Where they do not come all it did is undone, and it holds nothing.
/// Others run meanwhile, so it begins at the time when they come, unless a gate objects. Where they
/// are wanted no more it begins without any.
#[cold]
fn again(
    tx: Tx,
    widenings: u32,
    pass: &mut Option<HeavyPass>,
    running: &mut RunningGuard,
    readmission: &Readmission<'_>,
    mut are_wanted: impl FnMut() -> bool,
) -> Result<Tx, NotReadmitted> {
    let (options, keyspace) = (tx.options(), tx.keyspace());
    let mut acquisition = tx.widen(widenings);
    running.pause();
    // A transaction that had the world is begun again in a failpoint, and has stepped aside
    // already.
    if acquisition.wants_world()
        && let Some(pass) = pass
        && pass.is_admitted()
    {
        pass.suspend();
    }
    loop {
        let are_there = wait_for_client_while(keyspace, &mut acquisition, &mut are_wanted)?;
        if !are_there || !are_wanted() {
            drop(acquisition);
            // Others may have the world, and then nothing else begins.
            if let Some(pass) = pass
                && !pass.is_admitted()
            {
                pass.resume(|| true);
            }
            acquisition = Acquisition::of_partitions(keyspace, PartitionSet::new());
            let is_granted = acquisition.attempt();
            assert!(is_granted, "nothing is asked for");
        } else if readmission.hold(locked_by(&acquisition))? {
            acquisition = await_leave(readmission, acquisition, pass.as_mut(), &mut are_wanted)?;
            running.begin_anew();
            continue;
        }
        if acquisition.prolong() {
            if let WaitReason::Partitions(partitions) = acquisition.obstacle() {
                running.resume(partitions.iter().copied().collect());
            }
            let now_us = keyspace.clock().now_us();
            return Ok(Tx::begin(acquisition, TxOptions { now: now_us / 1000, now_us, ..options }));
        }
        acquisition.defer();
    }
}

/// The partitions that an acquisition has, if it has not all.
pub(super) fn locked_by(acquisition: &Acquisition) -> Option<&[PartitionIndex]> {
    (!acquisition.wants_world()).then(|| acquisition.partitions())
}

/// A transaction that has its locks again, unless a key of a slot on the move went meanwhile: the
/// table of slots is as it was, and does not say so.
fn with_open_keys(
    open_keys: Option<&OpenSlotKeys>,
    server: &Shared,
    tx: Tx,
) -> Result<Tx, NotReadmitted> {
    let refuse = |keys: &OpenSlotKeys| keys.refuse(&server.gates.routing.table(), &tx);
    match open_keys.and_then(refuse) {
        Some(refusal) => Err(refusal.into()),
        None => Ok(tx),
    }
}

/// Gives the locks back until the gates let pass, or they are wanted no more; what is to be waited
/// for then is the same. The world may pass meanwhile. What its session can begin anew gives back
/// its thread, too.
#[cold]
fn await_leave(
    readmission: &Readmission<'_>,
    acquisition: Acquisition,
    pass: Option<&mut HeavyPass>,
    are_wanted: &mut impl FnMut() -> bool,
) -> Result<Acquisition, NotReadmitted> {
    if readmission.may_be_deferred {
        return Err(NotReadmitted::PutOff);
    }
    let (server, keyspace) = (readmission.server, readmission.server.keyspace);
    let again = match acquisition.obstacle() {
        WaitReason::World => Acquisition::of_world(keyspace),
        WaitReason::Partitions(partitions) => {
            Acquisition::of_partitions(keyspace, partitions.iter().copied().collect())
        }
    };
    drop(acquisition);
    let mut aside = pass.filter(|pass| pass.is_admitted());
    if let Some(pass) = &mut aside {
        pass.suspend();
    }
    let leave = loop {
        match readmission.hold(locked_by(&again)) {
            Ok(true) if server.gates.shutdown_request.is_asked() => break Err(BUSY.into()),
            Ok(true) if !are_wanted() => break Ok(again),
            Ok(true) => std::thread::sleep(BETWEEN_LOOKS),
            Ok(false) => break Ok(again),
            Err(refusal) => break Err(refusal.into()),
        }
    };
    if let Some(pass) = aside {
        pass.resume(|| true);
    }
    leave
}

impl Background {
    /// Runs a command here, for a session that waits for what comes of it.
    pub(crate) fn run_command(
        &self,
        leaving: OffloadedCommand,
        args: OwnedArgs,
        work: HandlerWork,
        sender: oneshot::Sender<OffloadResult>,
    ) {
        self.transact(move |lane| {
            let done = match leaving {
                OffloadedCommand::OffloadedTransaction(transaction) => {
                    transaction.run(lane, args, work)
                }
                OffloadedCommand::ReadPhase(reading) => reading.run(lane, args, work),
                OffloadedCommand::UnlockedCommand(unlocked) => unlocked.run(lane, args, work),
            };
            // A session that is gone needs no reply.
            let _ = sender.send(done);
        });
    }

    /// Runs a program here; how its session waits for that.
    pub(crate) fn run_program(&self, offloaded: OffloadedProgram, args: OwnedArgs) -> Suspension {
        let returns = offloaded.program.returns(&offloaded.unit);
        let offloaded = GuardedProgram::new(offloaded);
        let receiver = self.report(move |lane| offloaded.take().run(lane, args));
        if returns { Suspension::ResumableOffload(receiver) } else { Suspension::Offload(receiver) }
    }

    /// Runs a control command's work here, outside any turnstile.
    pub(crate) fn run(
        &self,
        call: ControlCall,
        work: ControlWork,
    ) -> oneshot::Receiver<OffloadResult> {
        let (job, receiver) = Self::job(call, work);
        self.spawn(job);
        receiver
    }

    /// As `run`, for what waits for others.
    pub fn run_with_locks(
        &self,
        call: ControlCall,
        work: ControlWork,
    ) -> oneshot::Receiver<OffloadResult> {
        let (job, receiver) = Self::job(call, work);
        self.spawn_visit(job);
        receiver
    }

    fn job(
        call: ControlCall,
        work: ControlWork,
    ) -> (impl FnOnce(usize) + Send + 'static, oneshot::Receiver<OffloadResult>) {
        let (sender, receiver) = oneshot::channel();
        let job = move |lane| {
            let ControlCall { server, entry, args, resp, ceiling } = call;
            let mut output = Output::new();
            output.set_ceiling(ceiling);
            let watch = WorkTimer::start(server.keyspace.clock());
            failpoint::point();
            let served = ServedRequest { server, client: None, entry, args: args.as_args() };
            let mut reply = Reply::new(&mut output, resp);
            let result = served.serve(|| work(lane, args.as_args(), &mut reply));
            failpoint::point();
            if result == Err(Refusal::Widen) {
                let _ = sender.send(OffloadResult::put_off(entry, args));
                return;
            }
            let failed = result.is_err();
            if let Err(refusal) = result {
                output = Output::new();
                server.refuse(&refusal, &mut Reply::new(&mut output, resp));
            }
            let ran =
                ExecutedCommand { entry, args, micros: watch.micros(), failed, program: None };
            // The command made its changes by transactions of its own: all of them are seen.
            let is_own = entry.may_write() || entry.spec.flags.has(Flags::MAY_REPLICATE);
            let seen = ReplyLsn { lsn: server.journal.end(), is_own };
            let _ = sender.send(OffloadResult { output, seen, ran, then: AfterOffload::Nothing });
        };
        (job, receiver)
    }

    /// Runs what has leave for heavy work; what comes of it is for its session.
    fn report(
        &self,
        run: impl FnOnce(usize) -> OffloadResult + Send + 'static,
    ) -> oneshot::Receiver<OffloadResult> {
        let (sender, receiver) = oneshot::channel();
        self.transact(move |lane| {
            // A session that is gone needs no reply.
            let _ = sender.send(run(lane));
        });
        receiver
    }
}

/// How long a piece of work takes, without what it waits for.
struct WorkTimer<'a> {
    clock: &'a Clock,
    started: Cell<i64>,
}

impl<'a> WorkTimer<'a> {
    fn start(clock: &'a Clock) -> Self {
        Self { clock, started: Cell::new(clock.monotonic_us()) }
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.clock.monotonic_us() - self.started.get()).unwrap_or(0)
    }

    /// Waits, which is no work.
    fn without<T>(&self, wait: impl FnOnce() -> T) -> T {
        let since = self.clock.monotonic_us();
        let waited_for = wait();
        self.started.set(self.started.get() + self.clock.monotonic_us() - since);
        waited_for
    }
}
