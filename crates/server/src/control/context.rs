//! What a control command is given.
//!
//! Invariant: nothing here knows a command; the commands know this.

use commands::Command;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::server::Server;
use engine::admission::readmission::Readmission;
use engine::execute::is_heavy_request;
use engine::lane::Lane;
use engine::runtime::background::BackgroundAccess;
use engine::session::{Request, Session};
use engine::table::command_table::CommandEntry;
use engine::table::flag_set::FlagSet;
pub(crate) use engine::transaction::control_plane::{
    CallingSession, ControlOutcome, NOT_FROM_SCRIPT,
};
use engine::transaction::unit::Unit;

/// What a control command works on.
pub(crate) struct Context<'a> {
    pub(crate) server: &'static Server,
    /// The session that asks, at its lane; none if a script asks.
    pub(crate) asker: Option<CallingSession<'a>>,
    /// The command itself, as it was found.
    pub(crate) entry: &'static CommandEntry,
    /// The unit that it is part of, if it is of one.
    pub(crate) unit: Option<&'a mut Unit>,
}

impl<'a> Context<'a> {
    /// The session that asks.
    pub(crate) fn session(&mut self) -> Result<&mut Session, Refusal> {
        self.asker.as_mut().map(|asker| &mut *asker.session).ok_or(NOT_FROM_SCRIPT)
    }

    /// The lane of the session that asks.
    pub(crate) fn lane(&self) -> Result<&'a Lane, Refusal> {
        self.asker.as_ref().map(|asker| asker.lane).ok_or(NOT_FROM_SCRIPT)
    }

    /// Whether what has a record of its own may be done on this thread, where CLIENT PAUSE waits
    /// for it: within a unit, whose beginning was asked for by all gates, or inside a worker's
    /// turnstile.
    pub(crate) fn is_let_in(&self) -> bool {
        let flags = || FlagSet::of(self.entry.spec.flags);
        self.unit.is_some() || self.lane().is_ok_and(|lane| lane.enter_past_gates(flags))
    }
}

/// Leaves what has a record of its own to another thread. There it keeps the world from stopping
/// until that is done, so that CLIENT PAUSE waits for it; where a pause has come before, it goes
/// back to its session.
pub(crate) fn offload_past_gates(
    context: &Context<'_>,
    work: impl FnOnce(usize, Args<'_>, &mut Reply<'_>) -> Result<(), Refusal> + Send + 'static,
) -> ControlOutcome {
    if context.unit.is_some() {
        return ControlOutcome::offload(work);
    }
    let (server, entry) = (context.server, context.entry);
    let session = context.asker.as_ref().map(|asker| &*asker.session);
    let database = session.map_or(0, |session| session.database);
    let subject = session.and_then(|session| session.acl_subject_from_now(server));
    ControlOutcome::offload_with_locks(move |lane, args, reply| {
        let request = Request { entry, args, database };
        let readmission = Readmission::beside_slots(server, subject.as_ref(), request);
        let _access = BackgroundAccess::for_client(server.keyspace)?;
        if readmission.hold(None)? { Err(Refusal::Widen) } else { work(lane, args, reply) }
    })
}

/// Does what needs nothing of its session here, or on a heavy-work thread where it is for very
/// many names.
pub(crate) fn by_size(
    server: &'static Server,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    work: fn(&'static Server, Args<'_>, &mut Reply<'_>),
) -> ControlOutcome {
    if !is_heavy_request(args) {
        work(server, args, reply);
        return ControlOutcome::Done;
    }
    ControlOutcome::offload(move |_, args, reply| {
        work(server, args, reply);
        Ok(())
    })
}

/// What runs a control command.
pub(crate) type ControlHandler =
    fn(&mut Context<'_>, Args<'_>, &mut Reply<'_>) -> Result<ControlOutcome, Refusal>;

/// A control command.
pub(crate) type ControlCommand = Command<ControlHandler>;
