//! One request that is a unit: its locks, its runs, and where they go on.
//!
//! Invariant: a program that cannot go on has either done nothing that shows, or keeps its locks.

use std::mem::take;

use commands::Role;
use keyspace::{Acquisition, HeavyPass, Refusal};
use proto::{Args, Mark, Reply};

use super::CommandExecution;
use super::locks::Granted;
use crate::admission::readmission::Passage;
use crate::admission::redirection::slot_access;
use crate::execute::offload::OffloadedProgram;
use crate::journal::ReplyLsn;
use crate::lane::Lane;
use crate::runtime::failpoint;
use crate::session::LockSet;
use crate::session::{RequestAttempt, Step};
use crate::session::{Session, Steps, Suspension};
use crate::table::command_table::CommandEntry;
use crate::transaction::unit::{Program, ProgramRequest, RunsOn, Unit};

impl CommandExecution<'_> {
    /// What the request asks of whatever makes its program.
    fn program_request(&mut self) -> ProgramRequest<'_> {
        let (server, entry, resp) = (self.engine, self.entry, self.session.resp);
        let (subject, access) = (self.session.acl_subject(server), slot_access(self.session));
        let (initial_refusals, wants_debugger) = (None, self.session.wants_debugger);
        let session = Some(&mut *self.session);
        ProgramRequest {
            server,
            entry,
            resp,
            subject,
            access,
            initial_refusals,
            wants_debugger,
            session,
        }
    }

    /// Runs a program, or leaves it until its locks are there.
    pub(super) fn run_unit(&mut self, grant: Granted) -> Step {
        let (server, entry, resp) = (self.engine, self.entry, self.session.resp);
        if entry.spec.role == Role::Exec && self.session.is_watch_broken() {
            // Nothing runs, so nothing is waited for.
            self.session.end_transaction(server);
            if self.session.replies() {
                Reply::new(self.out, resp).null_array();
            }
            return Step::Done;
        }
        let open_keys = self.open_keys();
        let (args, asked) = (self.args, self.program_request());
        let mut program = match server.prepare(entry, asked, args) {
            Ok(program) => program,
            Err(refusal) => return self.refuse_unbegun(&refusal),
        };
        // Which keys of an open slot are here is asked under the locks of all.
        if open_keys.is_none()
            && let Some(work) = program.in_steps(self.args)
        {
            return Step::Wait(Suspension::Steps(Steps::begin(entry, self.args, work)));
        }
        let mut needs = program.needs(self.args, self.locations());
        let (located, undoable) =
            (take(&mut needs.located), needs.undoable || failpoint::wants_undo());
        let is_granted = grant.is_some();
        let (mut acquisition, mut attempt) =
            grant.unwrap_or_else(|| (self.acquisition(needs), RequestAttempt::default()));
        if !attempt.killed.is_empty() {
            program.kill(self.args, take(&mut attempt.killed));
        }
        if !is_granted && !self.acquire(&mut acquisition) {
            return self.park(acquisition, attempt);
        }
        let mut tx = self.begin(acquisition, undoable);
        if let Some(keys) = open_keys
            && let Some(refusal) = keys.refuse(&self.lane.routes(), &tx)
        {
            drop(tx);
            return self.redirect(&keys, &refusal);
        }
        if let (Some(key), Some(location)) = (self.entry.only_key(self.args), self.location) {
            tx.hint(key, location);
        }
        tx.set_located(located);
        let mark = self.out.mark();
        let mut unit = Unit::begin(server, tx, self.session.reader());
        if attempt.moves {
            match self.move_away(unit, program, mark, &mut attempt) {
                Ok(step) => return step,
                Err((stays, its_program)) => (unit, program) = (*stays, its_program),
            }
        }
        loop {
            let mut place = RunsOn::Worker(self.lane, &mut *self.session);
            match unit.run_and_commit(&mut *program, self.args, &mut place, self.out) {
                Ok(seen) => {
                    conclude(self.lane, self.session, self.entry, self.args, &mut *program, seen);
                    return Step::Done;
                }
                Err(Refusal::Widen) => return self.widen(unit, &mut *program, mark, &attempt),
                Err(_) if !unit.refuses_long_work() => unreachable!("it may take its time"),
                Err(_) => match self.move_away(unit, program, mark, &mut attempt) {
                    Ok(step) => return step,
                    Err((stays, its_program)) => (unit, program) = (*stays, its_program),
                },
            }
        }
    }

    /// Refuses a program that cannot even begin; others are shown it all the same.
    #[cold]
    fn refuse_unbegun(&mut self, refusal: &Refusal) -> Step {
        let mark = self.out.mark();
        self.refuse(refusal);
        if !self.session.replies() {
            self.out.truncate(mark);
        }
        let (session, database) = (&*self.session, self.session.database);
        let (wakes, client) = (&self.lane.wakes, &session.client);
        self.engine.feed_monitors_unbegun(wakes, client, database, self.entry, self.args);
        Step::Done
    }

    fn acquisition(&self, needs: LockSet) -> Acquisition {
        let keyspace = self.lane.shared.keyspace;
        if needs.world {
            return Acquisition::of_world(keyspace);
        }
        Acquisition::of_partitions(keyspace, needs.partitions)
    }

    /// Undoes the unit, and waits for the locks that it turned out to need, or for those it had
    /// where it is to begin elsewhere.
    #[cold]
    fn widen(
        &mut self,
        unit: Unit,
        program: &mut dyn Program,
        mark: Mark,
        attempt: &RequestAttempt,
    ) -> Step {
        debug_assert!(!unit.is_final(), "what is final is never begun again");
        self.out.truncate(mark);
        program.restart();
        let (moves, killed) = (unit.begins_offloaded(), program.killed());
        let acquisition = unit.into_tx().widen(attempt.widenings);
        let widenings = attempt.widenings + u32::from(!moves);
        self.park(
            acquisition,
            RequestAttempt { widenings, moves, killed, ..RequestAttempt::default() },
        )
    }

    /// Moves a program to a heavy-work thread, locks and all. While the world is asked for, the
    /// unit waits, unless it cannot be undone any more; if it cannot move, it comes back to go on
    /// here.
    #[cold]
    fn move_away(
        &mut self,
        mut unit: Unit,
        mut program: Box<dyn Program>,
        mark: Mark,
        attempt: &mut RequestAttempt,
    ) -> Result<Step, (Box<Unit>, Box<dyn Program>)> {
        let server = unit.server;
        let mut pass = None;
        // A unit that has the world needs no leave, and would wait for itself.
        if !unit.tx.has_world() {
            let mut asked =
                attempt.pass.take().unwrap_or_else(|| HeavyPass::for_offload(server.keyspace));
            let may_be_undone = unit.tx.is_undoable() && !unit.is_final();
            if !asked.is_admitted() && (unit.is_fresh() || may_be_undone) {
                self.out.truncate(mark);
                program.restart();
                let acquisition = if unit.is_fresh() {
                    drop(unit);
                    self.acquisition(program.needs(self.args, self.locations()))
                } else {
                    unit.into_tx().widen(attempt.widenings)
                };
                let killed = program.killed();
                let attempt = RequestAttempt { pass: Some(asked), killed, ..take(attempt) };
                return Ok(self.park(acquisition, attempt));
            }
            if !asked.is_admitted() {
                // A request for the world waits for the unit in any case.
                asked = HeavyPass::for_handover(server.keyspace);
            }
            if !asked.is_admitted() {
                // No thread is free. There is no script in it, so it comes to its end.
                unit.take_time();
                return Err((Box::new(unit), program));
            }
            // A unit that has done something goes on, whatever was kept from its locks.
            if !unit.tx.prolong() && unit.is_fresh() {
                self.out.truncate(mark);
                program.restart();
                let killed = program.killed();
                let attempt = RequestAttempt { pass: Some(asked), killed, ..take(attempt) };
                return Ok(self.park(unit.into_tx().defer(), attempt));
            }
            pass = Some(asked);
        }
        program.leave_worker(self.session);
        let running = server.begin_long_running(self.lane.ticked_us(), unit.tx.partitions().into());
        let (output, wants_reply) = (self.out.split_off(mark), self.session.replies());
        let (entry, resp, widens, micros) = (self.entry, self.session.resp, false, 0);
        let subject = self.session.acl_subject_from_now(server);
        let offloaded = OffloadedProgram {
            unit,
            running,
            pass,
            program,
            subject,
            passage: Passage::of(self.lane, self.session),
            open_keys: self.open_keys(),
            output,
            entry,
            resp,
            wants_reply,
            widens,
            widenings: attempt.widenings,
            micros,
            count: server.threads.background.count_program(),
        };
        Ok(Step::Wait(server.threads.background.run_program(offloaded, self.args.into())))
    }
}

/// A program is over: what it leaves with its session and in the books.
#[inline]
pub(super) fn conclude(
    lane: &Lane,
    session: &mut Session,
    entry: &'static CommandEntry,
    args: Args<'_>,
    program: &mut dyn Program,
    seen: ReplyLsn,
) {
    program.detach(session);
    session.note_reply(entry, seen);
    program.charge(args, lane, session);
    if program.has_failed() {
        lane.shared.observed.stats.failed(lane.number, entry.id);
    }
}
