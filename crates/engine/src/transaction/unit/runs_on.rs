//! Where a program runs, which may change on the way.
//!
//! Invariant: a session is used at its own worker only.

use base::time::Moment;
use commands::Flags;
use proto::Output;

use super::Unit;
use crate::clients::mailbox::PendingWakes;
use crate::lane::Lane;
use crate::session::Session;
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;

/// Where a program runs.
pub enum RunsOn<'a> {
    /// At its session's worker.
    Worker(&'a Lane, &'a mut Session),
    /// On a heavy-work thread.
    Heavy,
}

impl RunsOn<'_> {
    /// A moment of the present, for telling times from.
    #[inline]
    pub(crate) fn moment(&self, server: &Shared) -> Moment {
        match self {
            Self::Worker(lane, _) => lane.batch_began(),
            Self::Heavy => server.keyspace.clock().moment(),
        }
    }

    /// Where letters are noted that somebody announces later.
    pub(super) fn wakes(&self) -> Option<&PendingWakes> {
        match self {
            Self::Worker(lane, _) => Some(&lane.wakes),
            Self::Heavy => None,
        }
    }
}

/// What a worker makes of one reply within a unit: that takes it about 150 us.
const WORKER_REPLY_BYTES: u64 = 64 * 1024;

impl Unit {
    /// Whether the rest of a reply, which is made here, keeps a worker for too long. What a command
    /// changed has no way back.
    pub(super) fn is_too_much(&self, entry: &CommandEntry, out: &Output) -> bool {
        self.refuses_long_work
            && entry.spec.flags.has(Flags::READONLY)
            && out.bytes_to_come() > WORKER_REPLY_BYTES
    }
}
