//! What a session may wait for between two requests or in the middle of one.
//!
//! Invariant: a suspension is all that stands for the wait in the world: without it there is no
//! ticket for a lock, no place in a queue and no timer.

use keyspace::Acquisition;
use proto::{Args, Output, OwnedArgs};
use tokio::sync::oneshot;

use super::Session;
use super::blocked::{Blocked, Recheck};
use super::forwarding::ForwardedReplies;
use super::life::Wait;
use super::steps::Steps;
use super::waiting::Waiting;
use crate::clients::client_id::ClientId;
use crate::journal::{LinePlace, ReplyLsn};
use crate::lane::Lane;
use crate::runtime::backpressure::Backpressure;
use crate::session::RequestAttempt;
use crate::table::command_table::CommandEntry;

/// What the session awaits.
pub enum Suspension {
    /// Nothing but requests.
    None,
    /// Locks for the request at the head of the input.
    Locks(Box<Parked>),
    /// A result from another thread.
    Offload(oneshot::Receiver<OffloadResult>),
    /// The same from a unit that may come back, and then goes on with the session.
    ResumableOffload(oneshot::Receiver<OffloadResult>),
    /// The replies of another node of the cluster to requests that were sent on to it.
    Forwarded(oneshot::Receiver<ForwardedReplies>),
    /// Its own next step.
    Steps(Box<Steps>),
    /// The end of other sessions.
    SessionEndWait(Box<SessionEndWait>),
    /// The end of CLIENT PAUSE; the request at the head of the input is still to be run.
    Pause,
    /// Room for what the request at the head of the input would leave behind.
    Backpressure(&'static Backpressure),
    /// Something that a blocking command waits for.
    Blocked(Box<Blocked>),
}

/// A request whose locks are not all there.
pub struct Parked {
    /// The locks that are there, and the one that is awaited.
    pub acquisition: Acquisition,
    /// How often the request was tried, and since when.
    pub attempt: RequestAttempt,
    /// When it began to wait, on the monotonic clock in microseconds.
    pub began_us: i64,
}

impl Parked {
    /// A request begins to wait, or waits on if it had its locks and gave them back.
    pub fn new(acquisition: Acquisition, attempt: RequestAttempt, now_us: i64) -> Box<Self> {
        let began_us = attempt.began_us.unwrap_or(now_us);
        Box::new(Self { acquisition, attempt, began_us })
    }
}

/// What came back from another thread.
pub struct OffloadResult {
    /// The reply.
    pub output: Output,
    /// What the output must wait for.
    pub seen: ReplyLsn,
    /// The command, for the accounts of the worker.
    pub ran: ExecutedCommand,
    /// What the session does next.
    pub then: AfterOffload,
}

impl OffloadResult {
    /// What a gate holds goes back to its session, which asks the gates and waits.
    pub(crate) fn put_off(entry: &'static CommandEntry, args: OwnedArgs) -> Self {
        Self::put_off_program(entry, args, None)
    }

    /// As `put_off`, of a program that may have taken something of its session along.
    pub(crate) fn put_off_program(
        entry: &'static CommandEntry,
        args: OwnedArgs,
        program: Option<Box<dyn ProgramAccounts>>,
    ) -> Self {
        let ran = ExecutedCommand { entry, args, micros: 0, failed: false, program };
        Self { output: Output::new(), seen: ReplyLsn::default(), ran, then: AfterOffload::PutOff }
    }
}

/// What comes behind that.
pub enum AfterOffload {
    /// The command is complete.
    Nothing,
    /// The command found nothing and stands in queues now.
    Waits(Waiting),
    /// The program needs its session, with which it goes on.
    GoesOn(Box<dyn Resumable>),
    /// A gate holds it. Nothing is left of it, and it begins anew.
    PutOff,
}

/// What goes on at its session's worker, where it is half done.
pub trait Resumable: Send {
    /// Goes on.
    fn resume(self: Box<Self>, lane: &Lane, session: &mut Session, args: OwnedArgs) -> Resumed;
}

/// What came of that.
pub enum Resumed {
    /// The program is over.
    Over(Box<OffloadResult>),
    /// The program has left again; the session waits so.
    Away(Suspension),
}

/// What is to be booked of a program that is over, at its session's worker.
pub trait ProgramAccounts: Send {
    /// The program needs nothing of its session any more.
    fn detach(&mut self, _: &mut Session) {}

    /// A gate holds the program, which its session begins anew: what the program took along goes
    /// back.
    fn put_off(&mut self, _: &mut Session) {}

    /// Books as many of its commands as a worker has time for; whether `charge` has time for the
    /// others.
    fn charge_next(&mut self, _: &Lane, _: &mut Session) -> bool {
        true
    }

    /// Books its commands, and ends its session if one of them did that.
    fn charge(&self, _: Args<'_>, _: &Lane, _: &mut Session) {}
}

/// A command that ran on another thread, or waits, for the books of its session's worker.
pub struct ExecutedCommand {
    /// The command.
    pub entry: &'static CommandEntry,
    /// The request, its name first.
    pub args: OwnedArgs,
    /// How long the command ran, in microseconds.
    pub micros: u64,
    /// Whether the reply is an error.
    pub failed: bool,
    /// The program that it was, if it was one, with what its own commands have to be booked for.
    pub program: Option<Box<dyn ProgramAccounts>>,
}

impl ExecutedCommand {
    /// What has just begun.
    pub fn begun(entry: &'static CommandEntry, args: Args<'_>) -> Self {
        Self { entry, args: args.into(), micros: 0, failed: false, program: None }
    }
}

/// A wait for the end of other sessions.
pub struct SessionEndWait {
    /// The clients whose sessions are to end.
    pub ids: Vec<ClientId>,
    /// When the wait began, and when it has lasted long enough: on the monotonic clock, in
    /// microseconds.
    pub began_us: i64,
    /// The end of the wait at the latest.
    pub until_us: i64,
    /// What is replied then.
    pub done: OffloadResult,
}

impl SessionEndWait {
    /// Waits for the end of these clients' sessions, until then at most, and replies this.
    pub fn new(ids: Vec<ClientId>, (began_us, until_us): (i64, i64), done: OffloadResult) -> Self {
        Self { ids, began_us, until_us, done }
    }
}

impl Suspension {
    /// What it is a wait for.
    #[inline]
    pub fn wait(&self) -> Wait {
        match self {
            Self::None => Wait::Nothing,
            Self::Locks(_) => Wait::Locks,
            Self::Offload(_) | Self::Forwarded(_) | Self::Steps(_) | Self::SessionEndWait(_) => {
                Wait::Result
            }
            Self::ResumableOffload(_) => Wait::Return,
            Self::Pause => Wait::Postponed,
            Self::Backpressure(_) => Wait::Room,
            Self::Blocked(_) => Wait::Event,
        }
    }

    /// Whether the request has begun, and its reply comes when it is over.
    pub(crate) fn has_result_to_come(&self) -> bool {
        self.wait().is_offloaded()
    }

    /// What of it goes along to another worker.
    pub fn packed(mut self) -> Self {
        if let Self::Blocked(blocked) = &mut self
            && let Recheck::Underway(..) = blocked.recheck
        {
            blocked.recheck = Recheck::Due;
        }
        if let Self::Steps(steps) = &mut self {
            steps.pack();
        }
        if self.wait().survives_move() { self } else { Self::None }
    }

    /// The suspension at its new worker, where it stands in no line yet.
    pub fn unpacked(mut self) -> Self {
        if let Self::Blocked(blocked) = &mut self
            && let Some(ack_wait) = &mut blocked.ack_wait
        {
            ack_wait.place = LinePlace::default();
        }
        self
    }
}
