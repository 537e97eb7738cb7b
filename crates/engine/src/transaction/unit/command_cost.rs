//! What a command of a transaction's queue cost, until it is accounted.
//!
//! Invariant: a command that its user may not run any more was never called: no account and no
//! monitor knows of it, as in Redis.

use crate::commit::accounting;
use crate::lane::Lane;
use crate::observe::execution::Execution;
use crate::session::Session;
use crate::session::multi::Queued;
use crate::transaction::unit::Program;

/// What a command of the queue cost.
pub(super) struct CommandCost {
    /// The logical database that it left the transaction in.
    pub(super) database: usize,
    /// How long it took, in microseconds.
    pub(super) micros: u64,
    pub(super) reply_bytes: u64,
    pub(super) failed: bool,
    /// Whether its user may not run it any more.
    pub(super) is_denied: bool,
    /// What ran if it was a unit of its own.
    pub(super) nested: Option<Box<dyn Program>>,
}

impl CommandCost {
    /// Accounts for the command, and shows it to monitors.
    pub(super) fn charge(&self, queued: Queued<'_>, lane: &Lane, session: &mut Session) {
        let Queued { entry, args, .. } = queued;
        let Self { database, micros, reply_bytes, failed, is_denied, ref nested } = *self;
        if is_denied {
            return;
        }
        match nested {
            Some(nested) => nested.charge(args, lane, session),
            None => {
                let (server, client) = (lane.shared, &session.client);
                server.feed_monitors_unbegun(&lane.wakes, client, database, entry, args);
            }
        }
        accounting::account(lane, session, Execution { entry, args, micros, reply_bytes });
        accounting::feed_monitors(lane, session, database, entry, args);
        if failed {
            lane.shared.observed.stats.failed(lane.number, entry.id);
            session.check_import_answer(|| &b"-ERR A command of a transaction failed"[..]);
        }
    }
}
