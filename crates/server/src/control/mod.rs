//! Control commands: those that steer sessions, the server and its administration.
//!
//! They are declared like data commands and live here because they know sessions and the server.
//!
//! Invariant: a control handler touches no key; what concerns data goes through a `Tx` like
//! everything else.

pub(crate) mod acl;
pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod fieldsets;
pub(crate) mod help;
pub(crate) mod module;
pub(crate) mod replication;
pub(crate) mod server;

use commands::Command;
use keyspace::Refusal;
use proto::{Args, OwnedArgs, Reply};

use crate::heavy::Call;
use crate::server::Server;
use crate::session::{Session, Stage};
use crate::table::Entry;
use crate::worker::Worker;

/// What a control command works on.
pub(crate) struct Context<'a> {
    pub(crate) server: &'static Server,
    pub(crate) worker: &'a Worker,
    pub(crate) session: &'a mut Session,
    /// The command itself, as it was found.
    pub(crate) entry: &'static Entry,
}

impl Context<'_> {
    /// Leaves the work to a heavy-work thread, where it may wait; the reply comes from there.
    pub(crate) fn run_elsewhere(
        &self,
        args: Args<'_>,
        work: impl FnOnce(usize, Args<'_>, &mut Reply<'_>) -> Result<(), Refusal> + Send + 'static,
    ) -> Next {
        let (server, entry, resp) = (self.server, self.entry, self.session.resp);
        let call = Call { server, entry, args: OwnedArgs::from(args), resp };
        Next::Wait(Stage::Elsewhere(server.heavy.run(call, work)))
    }
}

/// What comes after a control command.
pub(crate) enum Next {
    /// The next request.
    Done,
    /// The end of the connection, once the reply has left.
    Close,
    /// The reply comes later: the session waits.
    Wait(Stage),
}

/// What runs a control command.
pub(crate) type ControlHandler =
    fn(&mut Context<'_>, Args<'_>, &mut Reply<'_>) -> Result<Next, Refusal>;

/// A control command.
pub(crate) type ControlCommand = Command<ControlHandler>;

/// All families of control commands.
pub(crate) const FAMILIES: &[&[&ControlCommand]] = &[
    acl::COMMANDS,
    cluster::COMMANDS,
    connection::COMMANDS,
    fieldsets::COMMANDS,
    module::COMMANDS,
    replication::COMMANDS,
    server::COMMANDS,
];
