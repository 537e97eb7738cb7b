//! Requests that are done in steps, none longer than a session's turn: others of the worker come in
//! between.
//!
//! Invariants: between two steps nothing is locked and the session is whole, so the session may end
//! or move there; the reply is passed on when the last step is done.

use std::task::Context as TaskContext;
use std::time::Duration;

use keyspace::{Acquisition, BUSY, PartitionSet, Refusal, Tx};
use proto::{Args, Output};

use super::Session;
use super::request::tx_options;
use super::suspension::{AfterOffload, ExecutedCommand, OffloadResult, Parked};
use super::timer::Timer;
use crate::journal::ReplyLsn;
use crate::lane::Lane;
use crate::session::RequestAttempt;
use crate::table::command_table::CommandEntry;

/// The clock is looked at after so many parts of a step.
const PARTS_PER_LOOK: u32 = 16;

/// A part that a gate keeps looks so often whether it is open.
const GATE_LOOK: Duration = Duration::from_millis(5);

/// Work that goes on from where the last step ended.
pub trait SteppedWork: Send {
    /// Takes a step.
    fn step(&mut self, step_context: &mut StepContext<'_, '_>) -> StepOutcome;
}

/// How far a step came.
pub enum StepOutcome {
    /// All is done, and replied.
    Done,
    /// The same, and the connection is to be closed.
    Closes,
    /// There is an error to be replied.
    Failed(Refusal),
    /// The turn's time is over.
    GoesOn,
    /// The locks for the next part are not there; the session is woken when they are.
    Waits,
}

/// A request under way.
pub struct Steps {
    work: Box<dyn SteppedWork>,
    /// The wait for locks of its next part.
    parked: Option<Box<Parked>>,
    /// What is passed on in the end.
    pub done: OffloadResult,
}

/// Where a step is taken.
pub struct StepContext<'a, 'c> {
    /// The lane of the session's worker.
    pub lane: &'a Lane,
    /// The session that the request came from.
    pub session: &'a mut Session,
    /// Those of the request.
    pub args: Args<'a>,
    /// Where the reply is written.
    pub out: &'a mut Output,
    parked: &'a mut Option<Box<Parked>>,
    timer: &'a mut dyn Timer,
    cx: &'a mut TaskContext<'c>,
    parts: u32,
}

impl Steps {
    /// A request that is about to begin.
    pub fn begin(
        entry: &'static CommandEntry,
        args: Args<'_>,
        work: Box<dyn SteppedWork>,
    ) -> Box<Self> {
        let (output, ran) = (Output::new(), ExecutedCommand::begun(entry, args));
        let done =
            OffloadResult { output, seen: ReplyLsn::default(), ran, then: AfterOffload::Nothing };
        Box::new(Self { work, parked: None, done })
    }

    /// The request.
    pub fn request(&self) -> (&'static CommandEntry, Args<'_>) {
        (self.done.ran.entry, self.done.ran.args.as_args())
    }

    /// The session goes to another worker, where the next part asks for its locks anew.
    pub(crate) fn pack(&mut self) {
        self.parked = None;
    }
}

impl Steps {
    /// Takes a step of it.
    pub fn step(
        &mut self,
        lane: &Lane,
        session: &mut Session,
        timer: &mut dyn Timer,
        cx: &mut TaskContext<'_>,
    ) -> StepOutcome {
        let Self { work, parked, done } = self;
        let (args, out) = (done.ran.args.as_args(), &mut done.output);
        work.step(&mut StepContext { lane, session, args, out, parked, timer, cx, parts: 0 })
    }
}

impl StepContext<'_, '_> {
    /// Called behind each part of a step: whether the step is over.
    pub fn is_over(&mut self) -> bool {
        self.parts += 1;
        self.parts.is_multiple_of(PARTS_PER_LOOK) && self.lane.is_batch_over()
    }

    /// Begins the transaction of the next part with its locks.
    pub(crate) fn begin(&self, acquisition: Acquisition) -> Tx {
        Tx::begin(acquisition, tx_options(self.lane, self.session))
    }

    /// The next part waits for a gate: its session looks again soon.
    pub fn wait_for_gate(&mut self) {
        self.wait_for(GATE_LOOK);
    }

    /// The next part waits for a time: its session looks again then, or before.
    pub fn wait_for(&mut self, time: Duration) {
        self.timer.wake_in(self.cx, time);
    }

    /// The next part waits for these locks.
    pub fn park(&mut self, acquisition: Acquisition) {
        let parked = Parked::new(acquisition, RequestAttempt::default(), self.lane.ticked_us());
        *self.parked = Some(parked);
    }

    /// The locks of the next part, if they are there; the error says that others have them for too
    /// long.
    pub fn acquire(
        &mut self,
        wanted: impl FnOnce() -> PartitionSet,
    ) -> Option<Result<Acquisition, Refusal>> {
        let (lane, server) = (self.lane, self.lane.shared);
        let mut parked = match self.parked.take() {
            Some(parked) => parked,
            None => {
                let mut acquisition = Acquisition::of_partitions(server.keyspace, wanted());
                if lane.enter() && acquisition.attempt() {
                    return Some(Ok(acquisition));
                }
                Parked::new(acquisition, RequestAttempt::default(), lane.ticked_us())
            }
        };
        if lane.poll_locks(&mut parked.acquisition, self.cx.waker()).is_ready() {
            return Some(Ok(parked.acquisition));
        }
        if parked.has_lost_patience(server, self.timer, self.cx) {
            return Some(Err(BUSY));
        }
        *self.parked = Some(parked);
        None
    }
}
