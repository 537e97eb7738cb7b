//! Where a program runs, which may change on the way.
//!
//! Invariant: a session is used at its own worker only.

use base::time::Moment;

use crate::mailbox::Rounds;
use crate::server::Server;
use crate::session::Session;
use crate::worker::Worker;

/// Where a program runs.
pub(crate) enum Place<'a> {
    /// At its session's worker.
    Worker(&'a Worker, &'a mut Session),
    /// On a heavy-work thread.
    Heavy,
}

impl Place<'_> {
    /// A moment of the present, for telling times from.
    #[inline]
    pub(crate) fn moment(&self, server: &Server) -> Moment {
        match self {
            Self::Worker(worker, _) => worker.batch_began(),
            Self::Heavy => server.keyspace.clock().moment(),
        }
    }

    /// Where letters are noted that somebody announces later.
    pub(super) fn rounds(&self) -> Option<&Rounds> {
        match self {
            Self::Worker(worker, _) => Some(&worker.rounds),
            Self::Heavy => None,
        }
    }
}
