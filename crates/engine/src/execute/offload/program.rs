//! A program on its way: to a heavy-work thread, back to its session's worker, and out again.
//!
//! Invariants: its locks, its leave and what it has replied go along, and are given back where it
//! ends, in that order; whatever becomes of its session, nobody sees the first half of it.

use std::sync::Arc;

use keyspace::{HeavyPass, Refusal};
use proto::{Args, Output, OwnedArgs, Resp};

use super::{NotReadmitted, WorkTimer, again, with_open_keys};
use crate::admission::gates::FlagsOf;
use crate::admission::readmission::{Passage, Readmission};
use crate::admission::redirection::OpenSlotKeys;
use crate::commit::served_request::ServedRequest;
use crate::execute;
use crate::journal::ReplyLsn;
use crate::lane::Lane;
use crate::limits::long_running::RunningGuard;
use crate::runtime::background::CountedProgram;
use crate::session::{AclSubject, Request};
use crate::session::{AfterOffload, ExecutedCommand, OffloadResult, Session};
use crate::session::{ProgramAccounts, Resumable, Resumed};
use crate::table::command_table::CommandEntry;
use crate::transaction::unit::{Program, RunsOn, Unit};

/// A program that moves here, with what it holds beside its locks.
///
/// The locks go first where it is dropped, as the world may be granted right after the pass.
pub(crate) struct OffloadedProgram {
    pub(crate) unit: Unit,
    pub(crate) running: RunningGuard,
    /// None if it has the world.
    pub(crate) pass: Option<HeavyPass>,
    pub(crate) program: Box<dyn Program>,
    /// The user whose rights the program has.
    pub(crate) subject: Option<Arc<AclSubject>>,
    /// By what it was let pass.
    pub(crate) passage: Passage,
    /// Its keys of a slot on the move, as it left its worker.
    pub(crate) open_keys: Option<OpenSlotKeys>,
    /// What the program has replied so far.
    pub(crate) output: Output,
    pub(crate) entry: &'static CommandEntry,
    pub(crate) resp: Resp,
    /// Whether its client wants to know if it is given up.
    pub(crate) wants_reply: bool,
    /// Whether the program turned out at its session's worker to need more locks.
    pub(crate) widens: bool,
    /// How often it began again, here and at its worker: at last it has the world.
    pub(crate) widenings: u32,
    /// How long it has run.
    pub(crate) micros: u64,
    pub(crate) count: CountedProgram,
}

/// A program on its way, which nobody runs: the thread that it waits for may have ended when it
/// comes, and its session may be gone.
pub(crate) struct GuardedProgram(Option<Box<OffloadedProgram>>);

impl GuardedProgram {
    pub(super) fn new(offloaded: OffloadedProgram) -> Self {
        Self(Some(Box::new(offloaded)))
    }

    /// The program, which has come to where it runs on.
    pub(crate) fn take(mut self) -> Box<OffloadedProgram> {
        self.0.take().expect("it is taken once")
    }
}

impl Resumable for GuardedProgram {
    fn resume(self: Box<Self>, lane: &Lane, session: &mut Session, args: OwnedArgs) -> Resumed {
        match self.take().resume(lane, session, args) {
            Ok(over) => Resumed::Over(Box::new(over)),
            Err(leaves) => {
                let (offloaded, args) = *leaves;
                Resumed::Away(lane.shared.threads.background.run_program(offloaded, args))
            }
        }
    }
}

impl Drop for GuardedProgram {
    fn drop(&mut self) {
        let Some(offloaded) = self.0.take() else { return };
        let unit = &offloaded.unit;
        // What is not undone as its transaction is dropped is shown to nobody.
        if !unit.tx.is_touched() || unit.tx.is_undoable() && !unit.is_final() {
            return;
        }
        let server = unit.server;
        if !server.gates.shutdown_request.is_asked() {
            server.keyspace.abort("a transaction was given up half way and cannot be undone");
        }
        // Its locks end with the process.
        std::mem::forget(offloaded);
    }
}

impl OffloadedProgram {
    /// Runs the program to its end, as often as it needs more locks, or until it needs its session.
    pub(super) fn run(mut self, lane: usize, args: OwnedArgs) -> OffloadResult {
        let server = self.unit.server;
        let watch = WorkTimer::start(server.keyspace.clock());
        self.unit.move_to_heavy(lane);
        loop {
            let result = if std::mem::take(&mut self.widens) {
                Err(Refusal::Widen)
            } else {
                self.run_on(&args, &mut RunsOn::Heavy)
            };
            match result {
                Ok(seen) => {
                    self.micros += watch.micros();
                    return self.end(seen, args);
                }
                Err(Refusal::Widen) => {
                    self.output.clear();
                    self.program.restart();
                    let (subject, database) = (self.subject.as_ref(), self.unit.home());
                    let request = Request { entry: self.entry, args: args.as_args(), database };
                    let passed = (self.passage, self.program.may_be_deferred());
                    let queued = |of: FlagsOf<'_>| self.program.flags(of);
                    let readmission =
                        Readmission::of_program(server, subject, request, passed, queued);
                    let (reader, tx) = (self.unit.reader(), self.unit.into_tx());
                    let is_wanted = || !self.program.needs_no_locks();
                    let (pass, running) = (&mut self.pass, &mut self.running);
                    let open_keys = self.open_keys.as_ref().filter(|_| is_wanted());
                    let widenings = self.widenings;
                    let widen = || again(tx, widenings, pass, running, &readmission, is_wanted);
                    match watch.without(widen).and_then(|tx| with_open_keys(open_keys, server, tx))
                    {
                        Ok(tx) => {
                            self.unit = Unit::begin(server, tx, reader);
                            if let Some(subject) = subject.filter(|subject| subject.is_limited()) {
                                self.program.keep_rules(subject);
                            }
                        }
                        Err(NotReadmitted::PutOff) if self.program.killed().is_empty() => {
                            self.program.forget();
                            drop((self.running, self.pass));
                            let program: Option<Box<dyn ProgramAccounts>> = Some(self.program);
                            return OffloadResult::put_off_program(self.entry, args, program);
                        }
                        Err(refused) => {
                            self.program.abandon();
                            if self.wants_reply {
                                let (why, output) = (refused.reason(), &mut self.output);
                                execute::refuse(server, self.entry, &why, self.resp, output);
                            }
                            drop((self.running, self.pass));
                            let (entry, micros) = (self.entry, self.micros + watch.micros());
                            let program: Option<Box<dyn ProgramAccounts>> = Some(self.program);
                            let ran =
                                ExecutedCommand { entry, args, micros, failed: true, program };
                            return over(self.output, ReplyLsn::default(), ran);
                        }
                    }
                    self.widenings += 1;
                }
                Err(_) => {
                    self.micros += watch.micros();
                    return self.return_to_worker(args);
                }
            }
        }
    }

    fn run_on(&mut self, args: &OwnedArgs, place: &mut RunsOn<'_>) -> Result<ReplyLsn, Refusal> {
        let Self { unit, program, output, entry, .. } = self;
        let (server, args) = (unit.server, args.as_args());
        let served = ServedRequest { server, client: None, entry, args };
        served.serve(|| unit.run_and_commit(&mut **program, args, place, output))
    }

    /// The program is over: what it held is given back.
    fn end(self, seen: ReplyLsn, args: OwnedArgs) -> OffloadResult {
        let Self { unit, running, pass, program, output, entry, micros, count, .. } = self;
        drop(unit);
        drop(running);
        drop(pass);
        drop(count);
        let failed = program.has_failed();
        over(output, seen, ExecutedCommand { entry, args, micros, failed, program: Some(program) })
    }

    fn return_to_worker(self, args: OwnedArgs) -> OffloadResult {
        let ran = ExecutedCommand { args, ..ExecutedCommand::begun(self.entry, Args::default()) };
        let then = AfterOffload::GoesOn(Box::new(GuardedProgram::new(self)));
        OffloadResult { output: Output::new(), seen: ReplyLsn::default(), ran, then }
    }

    /// Runs on at its session's worker. An error says that it has to leave again.
    fn resume(
        mut self,
        lane: &Lane,
        session: &mut Session,
        args: OwnedArgs,
    ) -> Result<OffloadResult, Box<(Self, OwnedArgs)>> {
        self.unit.return_to_worker(lane.number);
        let result = self.run_on(&args, &mut RunsOn::Worker(lane, session));
        self.micros += u64::try_from(lane.tick()).unwrap_or(0);
        match result {
            Ok(seen) => Ok(self.end(seen, args)),
            Err(refusal) => {
                self.widens = matches!(refusal, Refusal::Widen);
                if self.running.extend(self.unit.tx.partitions()) {
                    // What the program did stays, even where others were kept from the locks that
                    // came.
                    let _ = self.unit.tx.prolong();
                }
                // What the session has may have changed while the program was there.
                self.program.leave_worker(session);
                self.subject = session.acl_subject_from_now(lane.shared);
                Err(Box::new((self, args)))
            }
        }
    }
}

/// What is passed on of a program that is over.
fn over(output: Output, seen: ReplyLsn, ran: ExecutedCommand) -> OffloadResult {
    OffloadResult { output, seen, ran, then: AfterOffload::Nothing }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use keyspace::{
        Acquisition, HeavyPass, Lifetime, Location, NewText, PartitionSet, Refusal, Tx, TxOptions,
    };
    use proto::{Args, Output, OwnedArgs, Resp};

    use super::OffloadedProgram;
    use crate::admission::readmission::Passage;
    use crate::session::LockSet;
    use crate::session::ProgramAccounts;
    use crate::testing;
    use crate::transaction::engine::Engine;
    use crate::transaction::unit::{Program, RunsOn, Unit};

    /// A program that is never run.
    struct Idle;

    impl ProgramAccounts for Idle {}

    impl Program for Idle {
        fn needs(&self, _: Args<'_>, _: &[Location]) -> LockSet {
            LockSet::default()
        }

        fn run(
            &mut self,
            _: Args<'_>,
            _: &mut Unit,
            _: &mut RunsOn<'_>,
            _: &mut Output,
        ) -> Result<(), Refusal> {
            unreachable!("no thread takes it")
        }

        fn restart(&mut self) {}
    }

    /// A program that has stored `x` and is to leave its worker.
    fn half_done(server: &'static Engine, undoable: bool) -> OffloadedProgram {
        let keyspace = server.keyspace;
        let partitions = PartitionSet::from_elem(keyspace.locate(b"x").partition(), 1);
        let mut acquisition = Acquisition::of_partitions(keyspace, partitions.clone());
        assert!(acquisition.attempt());
        let options = TxOptions { undoable, ..TxOptions::internal(0, 1) };
        let mut tx = Tx::begin(acquisition, options);
        tx.put_text(b"x", NewText::Integer(100), Lifetime::Forever).unwrap();
        OffloadedProgram {
            unit: Unit::begin(server, tx, None),
            running: server.begin_long_running(0, partitions),
            pass: Some(HeavyPass::for_offload(keyspace)),
            program: Box::new(Idle),
            subject: None,
            passage: Passage::default(),
            open_keys: None,
            output: Output::new(),
            entry: server.table.find(b"EXEC").unwrap(),
            resp: Resp::Two,
            wants_reply: true,
            widens: false,
            widenings: 0,
            micros: 0,
            count: server.threads.background.count_program(),
        }
    }

    /// Whether others see `x`, if they get its lock.
    fn sight(server: &'static Engine) -> Option<bool> {
        let partition = server.keyspace.locate(b"x").partition();
        let acquisition = server.keyspace.try_acquire(partition)?;
        let tx = Tx::begin(acquisition, TxOptions::internal(1, 1));
        Some(tx.exists(b"x").unwrap())
    }

    /// No thread is there for a program, or they end before it comes: at the end of the process.
    #[test]
    fn the_first_half_of_a_program_that_no_thread_takes_is_never_seen() {
        for (undoable, seen) in [(true, Some(false)), (false, None)] {
            for comes_late in [false, true] {
                let server = testing::engine();
                server.gates.shutdown_request.ask();
                let offloaded = half_done(server, undoable);
                assert_eq!(sight(server), None, "it has its lock");
                if comes_late {
                    server.threads.background.shut_down(Duration::ZERO);
                    let _ = server.threads.background.run_program(offloaded, OwnedArgs::default());
                } else {
                    // No thread is there, and none can be made.
                    server.threads.background.refuse_threads(true);
                    let _ = server.threads.background.run_program(offloaded, OwnedArgs::default());
                }
                assert_eq!(sight(server), seen, "undoable: {undoable}, late: {comes_late}");
            }
        }
    }
}
