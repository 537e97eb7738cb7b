//! The end of a unit: what it did becomes final, and the journal and all observers are told.
//!
//! Invariant: what was put off is done once the changes are final, with the locks still held.

use keyspace::{Lsn, Refusal, Tx};
use proto::{Args, Output};

use super::finished_command::announce;
use super::{Program, RunsOn, Unit, failpoint};
use crate::clients::mailbox::PendingWakes;
use crate::commit::publish;
use crate::journal::{CommandEffects, ReplyLsn};

impl Unit {
    /// Runs a program to its end and commits it; what its reply must wait for.
    pub(crate) fn run_and_commit(
        &mut self,
        program: &mut dyn Program,
        args: Args<'_>,
        place: &mut RunsOn<'_>,
        out: &mut Output,
    ) -> Result<ReplyLsn, Refusal> {
        program.run(args, self, place, out)?;
        failpoint::trigger_at_commit(self)?;
        let own_wakes = PendingWakes::default();
        let seen = self.commit_within_budget(place.wakes().unwrap_or(&own_wakes))?;
        program.committed(args, self);
        self.close();
        self.server.mailboxes.wake(&own_wakes);
        Ok(seen)
    }

    /// Commits what is a whole unit of a primary's stream, of which the journal has or gets the
    /// bytes up to `lsn`; the transaction is ready for the next one. Returns the record of what
    /// waiters took, if a reader keeps that: the record is no part of the stream. `Widen` says that
    /// serving a waiter needs more locks: the transaction is to be undone.
    pub fn commit_applied(&mut self, wakes: &PendingWakes, lsn: Lsn) -> Result<Vec<u8>, Refusal> {
        self.tx.note_lsn(lsn);
        if self.tx.has_ready() {
            self.tx.record_from_now();
        }
        let mut taken = Vec::new();
        self.commit_by(wakes, false, |_, record| {
            taken.extend_from_slice(record);
            None
        })?;
        self.tx.stamp_lsn(lsn);
        self.close();
        self.reset();
        Ok(taken)
    }

    /// As `commit`. Where a worker would be kept too long by the waiters that it makes ready, all
    /// of it begins again on a background thread, with its locks; not where it had to come back
    /// from one.
    fn commit_within_budget(&mut self, wakes: &PendingWakes) -> Result<ReplyLsn, Refusal> {
        let may_leave = self.refuses_long_work && !self.has_come_back;
        if may_leave && self.tx.is_undoable() && !self.is_final() {
            self.tx.serve_within_budget();
        }
        self.commit(wakes).map_err(|refusal| match refusal {
            Refusal::Heavy => {
                self.begin_offloaded();
                Refusal::Widen
            }
            refusal => refusal,
        })
    }

    /// Commits what its commands did so far, in a record of its own, before a step that decides
    /// whether anything is recorded. Behind `become_final`, with the world: nobody sees the half.
    pub fn commit_so_far(&mut self) -> Result<(), Refusal> {
        let wakes = PendingWakes::default();
        self.committed = self.commit(&wakes)?;
        self.server.mailboxes.wake(&wakes);
        self.tx.renew();
        self.forget();
        Ok(())
    }

    /// Commits what its commands did; what its reply must wait for.
    pub(crate) fn commit(&mut self, wakes: &PendingWakes) -> Result<ReplyLsn, Refusal> {
        let server = self.server;
        let append = |tx: &mut Tx, record: &[u8]| publish::append_own(server, wakes, tx, record);
        let mut seen = self.commit_by(wakes, true, append)?;
        if !self.publications.is_empty() && server.journal.is_for_replicas() {
            // Its messages are for replicas, too, and stand behind its record.
            seen = ReplyLsn::own(server.journal.end());
        }
        Ok(seen.and(self.committed))
    }

    /// Commits the unit; `append` takes the record, in which the program's own commands stand if it
    /// is of them.
    fn commit_by(
        &mut self,
        wakes: &PendingWakes,
        is_of_own: bool,
        append: impl FnOnce(&mut Tx, &[u8]) -> Option<ReplyLsn>,
    ) -> Result<ReplyLsn, Refusal> {
        if self.is_private() {
            publish::count_changes(self.server, &mut self.tx, self.changes);
            // A stream that is passed on has it all the same.
            self.server.journal.note_feature_level(self.tx.take_feature_level());
            self.tx.seal();
            return Ok(ReplyLsn::default());
        }
        let own = self.done.iter().filter(|_| is_of_own);
        let commands = own.map(|done| CommandEffects {
            effects: &done.effects,
            database: done.database,
            args: done.args.as_args(),
        });
        let server = self.server;
        let announce = || announce(server, wakes, &self.done, &self.publications);
        let (tx, readings, commands) =
            (&mut self.tx, &self.readings, (commands.collect(), self.changes));
        publish::commit_unit(server, tx, commands, readings, announce, append)
    }

    /// The unit is committed: does what was put off.
    fn close(&mut self) {
        self.count_errors();
        self.write_deferred_logs();
        if let Some(finality) = self.finality.take() {
            // Both halves are done.
            std::mem::forget(finality);
        }
    }

    /// Counts the errors that its commands ended in.
    pub(super) fn count_errors(&mut self) {
        let stats = &self.server.observed.stats;
        let errors = std::mem::take(&mut self.errors);
        errors.iter().for_each(|(code, times)| stats.errors_of(code, *times));
    }

    /// Whether nobody waits for what it did, heeds it or follows it.
    fn is_private(&self) -> bool {
        let heeded = self.tx.has_ready() || self.tx.has_modified() || !self.readings.is_empty();
        let followed = self.tx.effects().is_recorded() || !self.done.is_empty();
        !heeded && !followed && self.publications.is_empty()
    }
}
