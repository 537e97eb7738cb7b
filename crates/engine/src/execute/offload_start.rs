//! What is too much for a worker leaves it: with its locks, or without where it only reads or
//! stores what it computes. A request that is long because of what it brings leaves with the very
//! bytes that were read.
//!
//! Invariant: what leaves has changed nothing yet that is not committed (what was over is removed
//! before it is known that the rest is heavy), and has leave for heavy work before its locks or its
//! copies leave the worker's turnstile.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use commands::{Flags, Handler, LockPlan};
use keyspace::{HeavyPass, PartitionSet, Tx, TxOptions};
use proto::{ArgSpans, Args, OwnedArgs};
use tokio::sync::oneshot;

use super::CommandExecution;
use crate::admission::readmission::Passage;
use crate::commit::handler::HandlerWork;
use crate::execute::offload::{OffloadedCommand, OffloadedTransaction, ReadPhase, UnlockedCommand};
use crate::session::{OffloadResult, Suspension};
use crate::session::{RequestAttempt, Step, tx_options};

/// A request of so many bytes leaves its worker, where these lie by themselves: to copy them takes
/// longer than the way.
const BULKY: usize = 1 << 20;

impl Step {
    /// The request runs on another thread; the session waits for what comes of it.
    pub fn offload(result: oneshot::Receiver<OffloadResult>) -> Self {
        Self::Wait(Suspension::Offload(result))
    }
}

impl CommandExecution<'_> {
    /// Moves a transaction to a heavy-work thread, without its locks if it can do without them; or
    /// gives them back while somebody asks for the world or was kept from them for long. `is_first`
    /// says that its handler has not run yet.
    #[cold]
    pub(super) fn hand_over(
        &self,
        mut tx: Tx,
        work: HandlerWork,
        mut attempt: RequestAttempt,
        is_first: bool,
    ) -> Step {
        let server = work.server;
        let mut pass = None;
        // A transaction that has the world needs no leave, and would wait for itself.
        if !tx.has_world() {
            let asked =
                attempt.pass.take().unwrap_or_else(|| HeavyPass::for_offload(server.keyspace));
            if !asked.is_admitted() {
                let attempt = RequestAttempt { pass: Some(asked), moves: false, ..attempt };
                drop(tx);
                return self.park(self.plan(self.located().0), attempt);
            }
            if let Some(phase) = self.read_phase(&tx, work, is_first) {
                return self.read_apart(tx, phase, asked, work);
            }
            if !tx.prolong() {
                let attempt = RequestAttempt { pass: Some(asked), moves: false, ..attempt };
                return self.park(tx.defer(), attempt);
            }
            pass = Some(asked);
        }
        let running = server.begin_long_running(self.lane.ticked_us(), tx.partitions().into());
        let client = Arc::clone(&self.session.client);
        let subject = self.session.acl_subject_from_now(server);
        let fields = self.import.as_ref().map(|import| Arc::clone(&import.fields));
        let passage = Passage::of(self.lane, self.session);
        let open_keys = self.open_keys();
        let transaction =
            OffloadedTransaction { pass, running, tx, client, subject, passage, open_keys, fields };
        self.offload(OffloadedCommand::OffloadedTransaction(transaction), work)
    }

    /// Has a command of very many keys leave before they are looked for: that alone would take a
    /// worker too long. `None` if it has few, or if there is no leave for it now; and in a cluster
    /// while slots are on the move, as it is asked under its locks which keys are here.
    #[cold]
    pub(super) fn offload_unlocked(&self, handler: Handler) -> Option<Step> {
        let spec = self.entry.spec;
        if spec.plan != LockPlan::Keys || self.location.is_some() || !self.has_many_keys() {
            return None;
        }
        if self.lane.shared.gates.routing.is_on() && !self.lane.routes().open.is_empty() {
            return None;
        }
        let mut pass = HeavyPass::for_offload(self.lane.shared.keyspace);
        if !pass.is_admitted() {
            return None;
        }
        pass.suspend();
        let undoable = self.may_widen();
        let options = TxOptions { undoable, ..tx_options(self.lane, self.session) };
        let client = Arc::clone(&self.session.client);
        let subject = self.session.acl_subject_from_now(self.lane.shared);
        let passage = Passage::of(self.lane, self.session);
        let unlocked = UnlockedCommand { pass, options, client, subject, passage };
        Some(self.offload(OffloadedCommand::UnlockedCommand(unlocked), self.work(handler)))
    }

    fn has_many_keys(&self) -> bool {
        /// So many are found within a worker's time.
        const FEW: usize = 1000;
        let mut count = 0;
        self.entry.spec.visit_keys(self.args, |_| count += 1).is_ok() && count > FEW
    }

    /// Has the command leave, with the input of its session if the request is long.
    fn offload(&self, leaving: OffloadedCommand, work: HandlerWork) -> Step {
        let (sender, receiver) = oneshot::channel();
        let sent = self.import.as_ref().map_or(self.args, |import| import.sent);
        if is_long(sent) && self.handover.holds(sent) {
            let places = self.handover.places(sent);
            self.handover.load(PendingOffload { leaving, work, places, sender });
        } else {
            work.server.threads.background.run_command(leaving, sent.into(), work, sender);
        }
        Step::offload(receiver)
    }

    /// Whether what the request brings is more than a worker should copy, and can go along with it.
    #[inline]
    pub(super) fn is_bulky(&self) -> bool {
        is_long(self.args) && self.handover.holds(self.args)
    }

    /// A transaction that computes without the locks of this one, if the command is of those that
    /// only read, or store what they compute. Not where its client caches what it reads: news of a
    /// change would come before the reply that it makes void; and not where keys are of a slot on
    /// the move, which MIGRATE may take away meanwhile.
    fn read_phase(&self, tx: &Tx, work: HandlerWork, is_first: bool) -> Option<Tx> {
        let spec = work.entry.spec;
        if spec.plan != LockPlan::Keys
            || self.session.is_told_of_changes()
            || !computes_apart(spec.flags)
            || self.open_keys().is_some()
        {
            return None;
        }
        if self.may_widen() && commands::generic::pattern_option(self.args).is_some() {
            return None;
        }
        let mut keys = Vec::new();
        spec.visit_keys(self.args, |index| keys.push(&self.args[index])).ok()?;
        tx.begin_read_phase(keys.into_iter(), is_first)
    }

    /// Gives the locks back and has the command go on without them.
    fn read_apart(&self, tx: Tx, phase: Tx, mut pass: HeavyPass, work: HandlerWork) -> Step {
        let (options, partitions) = (tx.options(), PartitionSet::from(tx.partitions()));
        // The locks go first, as the world may be granted right after the pass.
        drop(tx);
        pass.suspend();
        let client = Arc::clone(&self.session.client);
        let subject = self.session.acl_subject_from_now(work.server);
        let passage = Passage::of(self.lane, self.session);
        let reading = ReadPhase { pass, phase, options, partitions, client, subject, passage };
        self.offload(OffloadedCommand::ReadPhase(reading), work)
    }
}

/// What leaves a worker together with the input of its session.
#[derive(Default)]
pub struct InputHandover {
    /// Where the input lies that the present request may take along.
    input: Cell<(usize, usize)>,
    pending: Cell<Option<Box<PendingOffload>>>,
}

/// A command that leaves as soon as its session has no use for the input any more.
pub struct PendingOffload {
    leaving: OffloadedCommand,
    work: HandlerWork,
    /// Where its arguments lie in the input.
    places: ArgSpans,
    sender: oneshot::Sender<OffloadResult>,
}

impl InputHandover {
    /// Requests of this input are executed, which may go along with one of them. What a panic left
    /// here is of another input, and ends.
    #[inline]
    pub fn open(&self, input: &[u8]) {
        let Range { start, end } = addresses(input);
        self.input.set((start, end));
        self.pending.take();
    }

    /// The requests of the input were executed; the request that is to leave with the input, if
    /// there is one.
    #[inline]
    pub fn close(&self) -> Option<Box<PendingOffload>> {
        self.input.set((0, 0));
        self.pending.take()
    }

    /// Whether the input is little else than this request.
    #[cold]
    fn holds(&self, args: Args<'_>) -> bool {
        let ((start, end), arguments) = (self.input.get(), args.addresses());
        // What stands behind it is copied.
        start <= arguments.start && arguments.end <= end && end - arguments.end < BULKY
    }

    /// Where arguments lie that it holds.
    fn places(&self, args: Args<'_>) -> ArgSpans {
        args.places(self.input.get().0)
    }

    #[cold]
    fn load(&self, pending: PendingOffload) {
        self.pending.set(Some(Box::new(pending)));
    }
}

impl PendingOffload {
    /// Leaves with the input that the request was found in.
    #[cold]
    pub fn submit(self, input: Vec<u8>) {
        let Self { leaving, work, places, sender } = self;
        let args = OwnedArgs::within(input, places);
        work.server.threads.background.run_command(leaving, args, work, sender);
    }
}

fn addresses(bytes: &[u8]) -> Range<usize> {
    let Range { start, end } = bytes.as_ptr_range();
    start.addr()..end.addr()
}

/// Whether a request leaves its worker for what it brings, if that can go along.
#[inline]
pub(super) fn is_long(args: Args<'_>) -> bool {
    args.extent() >= BULKY
}

/// Whether a request's size alone is more than a worker should spend on one client.
#[inline]
pub fn is_heavy_request(args: Args<'_>) -> bool {
    /// What one more argument costs: a lookup, an entry, a line of reply.
    const ARGUMENT_NS: u64 = 150;
    let count = args.len() as u64;
    // Only long requests are weighed: the short ones are the hot path.
    count > 64 && count * ARGUMENT_NS > keyspace::WORKER_BUDGET_NS
}

/// Whether a command takes nothing from its locks but what its keys hold at one moment.
pub(crate) fn computes_apart(flags: Flags) -> bool {
    flags.has(Flags::READONLY) || flags.has(Flags::OPTIMISTIC)
}
