//! Commands beside the data, as transactions see them: a request goes to the control plane, and
//! what comes behind the command comes back.
//!
//! Invariant: nothing here knows a command.

use config::SetError;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::lane::Lane;
use crate::session::{Session, SteppedWork, Steps, Suspension};
use crate::table::command_table::CommandEntry;
use crate::transaction::unit::Unit;

/// Runs commands beside the data.
pub trait ControlPlane: Send + Sync {
    /// Runs one, whose entry says that it is such a command.
    fn run(
        &'static self,
        request: ControlRequest<'_>,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<ControlOutcome, Refusal>;

    /// CONFIG SET of these pairs, for a client that may be of this machine. The command may wait,
    /// so it is not for workers.
    fn configure(&'static self, pairs: &[&[u8]], is_local: bool) -> Result<(), SetError>;

    /// Loads certificates and keys anew; the error is one line. Likewise.
    fn refresh_certificates(&'static self) -> Result<(), String>;
}

/// Whose request it is, and where it runs.
pub struct ControlRequest<'a> {
    /// The command, as it was found.
    pub entry: &'static CommandEntry,
    /// The session that asks, and where; none if a script asks.
    pub asker: Option<CallingSession<'a>>,
    /// The unit that it is part of, if it is of one.
    pub unit: Option<&'a mut Unit>,
}

/// A session at its worker.
pub struct CallingSession<'a> {
    /// The lane of the session's worker.
    pub lane: &'a Lane,
    /// The session that asks.
    pub session: &'a mut Session,
}

/// What a script is told of a command that only a session can have run.
pub const NOT_FROM_SCRIPT: Refusal =
    Refusal::error("ERR This Redis command is not allowed from script");

/// What a control command leaves to a heavy-work thread, where it may wait. The work is given the
/// lane that it may come in at. `Widen` says that a gate holds the work and that the work did
/// nothing: its session begins it anew.
pub(crate) type ControlWork =
    Box<dyn FnOnce(usize, Args<'_>, &mut Reply<'_>) -> Result<(), Refusal> + Send>;

/// What comes after a control command.
pub enum ControlOutcome {
    /// The next request.
    Done,
    /// The end of the connection, once the reply has left.
    Close,
    /// The reply comes later: the session waits.
    Wait(Suspension),
    /// The reply comes from a heavy-work thread.
    Offload(ControlWork),
    /// As `Offload`, with locks of its own, or waiting for others: not for where some are held.
    OffloadWithLocks(ControlWork),
}

const WAITS: Refusal = Refusal::error("ERR this command is not allowed inside a transaction");

impl ControlOutcome {
    /// Leaves work to a heavy-work thread.
    pub fn offload(
        work: impl FnOnce(usize, Args<'_>, &mut Reply<'_>) -> Result<(), Refusal> + Send + 'static,
    ) -> Self {
        Self::Offload(Box::new(work))
    }

    /// Does the work in steps, between which others of the worker come.
    pub fn in_steps(
        entry: &'static CommandEntry,
        args: Args<'_>,
        work: impl SteppedWork + 'static,
    ) -> Self {
        Self::Wait(Suspension::Steps(Steps::begin(entry, args, Box::new(work))))
    }

    /// Ends the command within a unit, where nobody waits; whether the connection is to be closed.
    pub(crate) fn end_here(
        self,
        lane: usize,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<bool, Refusal> {
        match self {
            Self::Done => Ok(false),
            Self::Close => Ok(true),
            Self::Offload(work) => work(lane, args, reply).map(|()| false),
            Self::Wait(_) | Self::OffloadWithLocks(_) => Err(WAITS),
        }
    }

    /// Leaves work to a heavy-work thread that takes locks there.
    pub fn offload_with_locks(
        work: impl FnOnce(usize, Args<'_>, &mut Reply<'_>) -> Result<(), Refusal> + Send + 'static,
    ) -> Self {
        Self::OffloadWithLocks(Box::new(work))
    }
}

/// Replies a time in microseconds as TIME does.
pub fn write_time(now_us: i64, reply: &mut Reply<'_>) {
    reply.array(2);
    reply.bulk_integer(now_us.div_euclid(1_000_000));
    reply.bulk_integer(now_us.rem_euclid(1_000_000));
}
