//! What a control command is given, and what comes after it.
//!
//! Invariant: nothing here knows a command; the commands know this.

use commands::Command;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::execute::looks_heavy;
use crate::server::Server;
use crate::session::{Session, Stage, Steps, Stepwise};
use crate::table::Entry;
use crate::unit::Unit;
use crate::worker::Worker;

/// What a control command works on.
pub(crate) struct Context<'a> {
    pub(crate) server: &'static Server,
    /// Who asks, and where; nobody does if a script does.
    pub(crate) asker: Option<Asker<'a>>,
    /// The command itself, as it was found.
    pub(crate) entry: &'static Entry,
    /// The unit that it is part of, if it is of one.
    pub(crate) unit: Option<&'a mut Unit>,
}

/// A session at its worker.
pub(crate) struct Asker<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) session: &'a mut Session,
}

/// What a script is told of a command that only a session can have run.
pub(crate) const NOT_FROM_SCRIPT: Refusal =
    Refusal::error("ERR This Redis command is not allowed from script");

impl<'a> Context<'a> {
    /// The session that asks.
    pub(crate) fn session(&mut self) -> Result<&mut Session, Refusal> {
        self.asker.as_mut().map(|asker| &mut *asker.session).ok_or(NOT_FROM_SCRIPT)
    }

    /// The worker of the session that asks.
    pub(crate) fn worker(&self) -> Result<&'a Worker, Refusal> {
        self.asker.as_ref().map(|asker| asker.worker).ok_or(NOT_FROM_SCRIPT)
    }
}

/// What a control command leaves to a heavy-work thread, where it may wait. It is given the lane
/// that it may come in at. `Widen` says that a gate holds it and that it did nothing: its session
/// begins it anew.
pub(crate) type ControlWork =
    Box<dyn FnOnce(usize, Args<'_>, &mut Reply<'_>) -> Result<(), Refusal> + Send>;

/// What comes after a control command.
pub(crate) enum Next {
    /// The next request.
    Done,
    /// The end of the connection, once the reply has left.
    Close,
    /// The reply comes later: the session waits.
    Wait(Stage),
    /// The reply comes from a heavy-work thread.
    Elsewhere(ControlWork),
    /// As `Elsewhere`, with locks of its own, or waiting for others: not for where some are held.
    Visit(ControlWork),
}

const WAITS: Refusal = Refusal::error("ERR this command is not allowed inside a transaction");

impl Next {
    /// Leaves work to a heavy-work thread.
    pub(crate) fn elsewhere(
        work: impl FnOnce(usize, Args<'_>, &mut Reply<'_>) -> Result<(), Refusal> + Send + 'static,
    ) -> Self {
        Self::Elsewhere(Box::new(work))
    }

    /// Does what needs nothing of its session here, or on a heavy-work thread where it is for very
    /// many names.
    pub(crate) fn by_size(
        server: &'static Server,
        args: Args<'_>,
        reply: &mut Reply<'_>,
        work: fn(&'static Server, Args<'_>, &mut Reply<'_>),
    ) -> Self {
        if !looks_heavy(args) {
            work(server, args, reply);
            return Self::Done;
        }
        Self::elsewhere(move |_, args, reply| {
            work(server, args, reply);
            Ok(())
        })
    }

    /// Does it in steps, between which others of the worker come.
    pub(crate) fn in_steps(
        entry: &'static Entry,
        args: Args<'_>,
        work: impl Stepwise + 'static,
    ) -> Self {
        Self::Wait(Stage::Steps(Steps::begin(entry, args, Box::new(work))))
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
            Self::Elsewhere(work) => work(lane, args, reply).map(|()| false),
            Self::Wait(_) | Self::Visit(_) => Err(WAITS),
        }
    }

    /// Leaves work to a heavy-work thread that takes locks there.
    pub(crate) fn visit(
        work: impl FnOnce(usize, Args<'_>, &mut Reply<'_>) -> Result<(), Refusal> + Send + 'static,
    ) -> Self {
        Self::Visit(Box::new(work))
    }
}

/// What runs a control command.
pub(crate) type ControlHandler =
    fn(&mut Context<'_>, Args<'_>, &mut Reply<'_>) -> Result<Next, Refusal>;

/// A control command.
pub(crate) type ControlCommand = Command<ControlHandler>;
