//! Where a program runs, which may change on the way, and what it locks.
//!
//! Invariant: a session is used at its own worker only.

use base::time::Moment;
use commands::{Flags, Plan, Role};
use keyspace::PartitionSet;
use proto::{Args, Output};

use super::Unit;
use crate::control::server::debug_touches_keys;
use crate::lane::Lane;
use crate::mailbox::Rounds;
use crate::session::Session;
use crate::shared::Shared;
use crate::table::{Entry, Run};

/// Where a program runs.
pub(crate) enum Place<'a> {
    /// At its session's worker.
    Worker(&'a Lane, &'a mut Session),
    /// On a heavy-work thread.
    Heavy,
}

impl Place<'_> {
    /// A moment of the present, for telling times from.
    #[inline]
    pub(crate) fn moment(&self, server: &Shared) -> Moment {
        match self {
            Self::Worker(lane, _) => lane.batch_began(),
            Self::Heavy => server.keyspace.clock().moment(),
        }
    }

    /// Where letters are noted that somebody announces later.
    pub(super) fn rounds(&self) -> Option<&Rounds> {
        match self {
            Self::Worker(lane, _) => Some(&lane.rounds),
            Self::Heavy => None,
        }
    }
}

/// What a worker makes of one reply within a unit: that takes it about 150 us.
const WORKER_REPLY_BYTES: u64 = 64 * 1024;

impl Unit {
    /// Whether the rest of a reply, which is made here, keeps a worker for too long. What a command
    /// changed has no way back.
    pub(super) fn is_too_much(&self, entry: &Entry, out: &Output) -> bool {
        self.hurries
            && entry.spec.flags.has(Flags::READONLY)
            && out.bytes_to_come() > WORKER_REPLY_BYTES
    }
}

/// What a program locks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    pub(crate) partitions: PartitionSet,
    pub(crate) world: bool,
    /// Whether it may meet keys that nobody declared.
    pub(crate) undoable: bool,
}

impl Needs {
    /// Adds what one of its commands needs. Key counts that lie add nothing: the command will be
    /// refused in its own words.
    pub(crate) fn add(&mut self, server: &Shared, entry: &Entry, args: Args<'_>) {
        if matches!(entry.run, Run::Control) {
            let is_debug = entry.spec.role == Role::Debug && debug_touches_keys(args);
            self.world |= is_debug || entry.spec.plan == Plan::World;
            return;
        }
        self.undoable |=
            matches!(entry.run, Run::Unit) || entry.spec.flags.has(Flags::TOUCHES_ARBITRARY_KEYS);
        match entry.spec.plan {
            Plan::World | Plan::Visits => self.world = true,
            Plan::Keys => {
                let before = self.partitions.len();
                let visited = entry.spec.keys.iter().try_for_each(|keys| {
                    keys.visit(args, |index| {
                        self.partitions.push(server.keyspace.locate(&args[index]).partition());
                    })
                });
                if visited.is_err() {
                    self.partitions.truncate(before);
                }
            }
        }
    }
}
