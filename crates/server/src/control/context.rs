//! What a control command is given.
//!
//! Invariant: nothing here knows a command; the commands know this.

use commands::Command;
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::server::Server;
use engine::execute::is_heavy_request;
use engine::lane::Lane;
use engine::session::Session;
use engine::table::command_table::CommandEntry;
pub(crate) use engine::transaction::control_plane::{Asker, NOT_FROM_SCRIPT, Next};
use engine::transaction::unit::Unit;

/// What a control command works on.
pub(crate) struct Context<'a> {
    pub(crate) server: &'static Server,
    /// The session that asks, at its lane; none if a script asks.
    pub(crate) asker: Option<Asker<'a>>,
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
}

/// Does what needs nothing of its session here, or on a heavy-work thread where it is for very
/// many names.
pub(crate) fn by_size(
    server: &'static Server,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    work: fn(&'static Server, Args<'_>, &mut Reply<'_>),
) -> Next {
    if !is_heavy_request(args) {
        work(server, args, reply);
        return Next::Done;
    }
    Next::offload(move |_, args, reply| {
        work(server, args, reply);
        Ok(())
    })
}

/// What runs a control command.
pub(crate) type ControlHandler =
    fn(&mut Context<'_>, Args<'_>, &mut Reply<'_>) -> Result<Next, Refusal>;

/// A control command.
pub(crate) type ControlCommand = Command<ControlHandler>;
