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
    /// Accounts for the command, and shows it to monitors; `home` is the database that its
    /// transaction began in.
    pub(super) fn charge(
        &self,
        queued: Queued<'_>,
        home: usize,
        lane: &Lane,
        session: &mut Session,
    ) {
        let Queued { entry, args, .. } = queued;
        let Self { database, micros, reply_bytes, failed, is_denied, ref nested } = *self;
        if is_denied {
            return;
        }
        let is_elsewhere = database != home && lane.shared.gates.quotas.is_accounting_on();
        let booked_us = if is_elsewhere { session.booked_elsewhere().micros } else { 0 };
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
        if is_elsewhere {
            self.bill_elsewhere(lane, session, booked_us);
        }
    }

    /// Books the command in the database in which it ran. What it did in others, as a script may,
    /// is booked there: of the request's time so much was booked before the command.
    #[cold]
    fn bill_elsewhere(&self, lane: &Lane, session: &Session, booked_us: u64) {
        let in_others_us = session.booked_elsewhere().micros - booked_us;
        let micros = self.micros.saturating_sub(in_others_us);
        accounting::charge_part(lane, session, self.database, &[0, 0, self.reply_bytes, micros]);
        session.note_booked_elsewhere(self.reply_bytes, micros);
    }
}
