//! A program on its way: to a heavy-work thread, back to its session's worker, and out again.
//!
//! Invariant: its locks, its leave and what it has replied go along, and are given back where it
//! ends, in that order.

use keyspace::{HeavyPass, Refusal};
use proto::{Args, Output, OwnedArgs, Resp};

use super::{Watch, again};
use crate::busy::Hold;
use crate::execute;
use crate::session::{Elsewhere, Ran, Session, Then};
use crate::table::Entry;
use crate::unit::{Place, Program, Unit};
use crate::worker::Worker;

/// A program that moves here, with what it holds beside its locks.
///
/// The locks go first where it is dropped, as the world may be granted right after the pass.
pub(crate) struct Errand {
    pub(crate) unit: Unit,
    pub(crate) hold: Hold,
    /// None if it has the world.
    pub(crate) pass: Option<HeavyPass>,
    pub(crate) program: Box<dyn Program>,
    /// What it has replied so far.
    pub(crate) output: Output,
    pub(crate) entry: &'static Entry,
    pub(crate) resp: Resp,
    /// Whether its client wants to know if it is given up.
    pub(crate) wants_reply: bool,
    /// Whether it turned out at its session's worker that it needs more locks.
    pub(crate) widens: bool,
    /// How long it has run.
    pub(crate) micros: u64,
}

impl Errand {
    /// Runs the program to its end, as often as it needs more locks, or until it needs its session.
    pub(super) fn run(self, lane: usize, args: OwnedArgs) -> Elsewhere {
        let Self { mut pass, mut hold, mut unit, mut program, mut output, .. } = self;
        let Self { entry, resp, wants_reply, mut widens, mut micros, .. } = self;
        let server = unit.server;
        let watch = Watch::start(server.keyspace.clock());
        unit.move_to_heavy(lane);
        let (mut round, mut is_abandoned) = (0, false);
        let seen = loop {
            let result = if std::mem::take(&mut widens) {
                Err(Refusal::Widen)
            } else {
                unit.carry_out(&mut *program, args.as_args(), &mut Place::Heavy, &mut output)
            };
            match result {
                Ok(seen) => {
                    drop(unit);
                    break seen;
                }
                Err(Refusal::Widen) => {
                    output.clear();
                    program.restart();
                    let reader = unit.reader();
                    let is_wanted = || !program.needs_no_locks();
                    match again(unit.into_tx(), round, &mut pass, &mut hold, is_wanted) {
                        Ok(tx) => unit = Unit::begin(server, tx, reader),
                        Err(busy) => {
                            program.abandon();
                            if wants_reply {
                                execute::refuse(server, entry, &busy, resp, &mut output);
                            }
                            is_abandoned = true;
                            break 0;
                        }
                    }
                    round += 1;
                }
                Err(_) => {
                    micros += watch.micros();
                    let errand = Self {
                        unit,
                        hold,
                        pass,
                        program,
                        output,
                        entry,
                        resp,
                        wants_reply,
                        widens,
                        micros,
                    };
                    return errand.come_back(args);
                }
            }
        };
        drop(hold);
        drop(pass);
        let failed = is_abandoned || program.has_failed();
        let micros = micros + watch.micros();
        let ran = Ran { entry, args, micros, failed, program: Some(program) };
        Elsewhere { output, seen, ran, then: Then::Nothing }
    }

    fn come_back(self, args: OwnedArgs) -> Elsewhere {
        let ran = Ran { args, ..Ran::begun(self.entry, Args::default()) };
        let then = Then::GoesOn(Box::new(self));
        Elsewhere { output: Output::new(), seen: 0, ran, then }
    }

    /// Runs on at its session's worker. An error says that it has to leave again.
    pub(crate) fn go_on(
        self,
        worker: &Worker,
        session: &mut Session,
        args: OwnedArgs,
    ) -> Result<Elsewhere, Box<(Self, OwnedArgs)>> {
        let Self { pass, hold, mut unit, mut program, mut output, .. } = self;
        let Self { entry, resp, wants_reply, mut micros, .. } = self;
        unit.come_back(worker.lane);
        let mut place = Place::Worker(worker, session);
        let result = unit.carry_out(&mut *program, args.as_args(), &mut place, &mut output);
        micros += u64::try_from(worker.tick()).unwrap_or(0);
        match result {
            Ok(seen) => {
                drop(unit);
                drop(hold);
                drop(pass);
                let failed = program.has_failed();
                let ran = Ran { entry, args, micros, failed, program: Some(program) };
                Ok(Elsewhere { output, seen, ran, then: Then::Nothing })
            }
            Err(refusal) => {
                let widens = matches!(refusal, Refusal::Widen);
                let errand = Self {
                    unit,
                    hold,
                    pass,
                    program,
                    output,
                    entry,
                    resp,
                    wants_reply,
                    widens,
                    micros,
                };
                Err(Box::new((errand, args)))
            }
        }
    }
}
