//! A lock batch: requests that one client sent together, executed under locks that are taken once.
//!
//! To take a lock, begin a transaction, end it and give the lock back costs as much as to look up a
//! key. So the locks of up to eight requests are taken together, and one transaction goes from one
//! request to the next; so it is with scripts of one key each, which the same goes for. Why not
//! more of them: docs/decisions/lock-batches.md.
//!
//! Invariants: each request is a command of its own, admitted, run, committed and booked as if it
//! had come alone, in its turn; what is not plain about a request or its session keeps it out of a
//! batch; locks that are not all free at once are not waited for; a script that turns out to need
//! more than it is given here has done nothing, and goes alone.

use std::slice;
use std::sync::atomic::Ordering;

use keyspace::{Acquisition, Location, Lsn, PartitionSet, Tx, TxOptions};
use proto::{Args, Output};
use smallvec::SmallVec;

use super::offload_start::is_long;
use super::unit::conclude;
use super::{Executor, is_heavy_request};
use crate::admission::gates;
use crate::admission::redirection::slot_access;
use crate::commit::accounting::charge;
use crate::commit::handler::{HandlerOutcome, HandlerWork};
use crate::commit::served_request::ServedRequest;
use crate::lane::Lane;
use crate::limits::budget;
use crate::reclaim::evict;
use crate::runtime::failpoint;
use crate::session::Session;
use crate::session::tx_options;
use crate::table::command_table::{CommandEntry, Run};
use crate::table::flag_set::FlagSet;
use crate::transaction::engine::Engine;
use crate::transaction::unit::{Program, ProgramRequest, RunsOn, Unit};

/// How many requests a lock batch has at most: as many as a partition set has room for in place.
pub const LOCK_BATCH_MAX: usize = 8;

/// After so many microseconds others may have the locks, whatever of the lock batch is left. A busy
/// lock is looked at for a few before anybody goes away.
const HOLD_US: i64 = 20;

/// A request that may be part of a lock batch.
#[derive(Clone, Copy)]
pub struct BatchedRequest<'a> {
    /// The request, its name first.
    pub args: Args<'a>,
    /// The command that the name leads to.
    pub entry: &'static CommandEntry,
    /// Where its only key belongs.
    pub location: Location,
}

/// The requests of a client that come next, as many of them as may be of one lock batch.
pub type BatchedRequests<'a> = SmallVec<[BatchedRequest<'a>; LOCK_BATCH_MAX]>;

/// The locks of a lock batch, and what its requests run on.
pub struct LockBatch<'a> {
    lane: &'a Lane,
    unit: Unit,
    /// One for each request that is left, or none if they are commands.
    programs: std::vec::IntoIter<Box<dyn Program>>,
    begun_us: i64,
}

impl<'a> LockBatch<'a> {
    /// Whether the requests of a session may be of lock batches.
    #[inline]
    pub fn is_possible(lane: &Lane, session: &Session) -> bool {
        // While replies are held back, each is to wait for no more than what it saw itself.
        session.may_batch()
            && lane.shared.journal.is_durable(Lsn::MAX)
            && (!lane.shared.gates.routing.is_on() || lane.refreshed_routes().open.is_empty())
    }

    /// Takes the locks of requests of a session for which it is possible, those that are not
    /// admitted, or are scripts behind commands or the other way round, and all behind them taken
    /// away first. `None` if fewer than two are left, or if they have to go one by one.
    pub fn begin(
        executor: Executor<'a>,
        session: &Session,
        batched: &mut BatchedRequests<'_>,
    ) -> Option<Self> {
        let Executor { engine, lane, .. } = executor;
        let server = lane.shared;
        if batched.len() < 2 {
            return None;
        }
        let bytes_needed =
            |it: &BatchedRequest<'_>| budget::bytes_needed(it.entry.spec.flags, it.args);
        evict::prepare(lane, || batched.iter().map(bytes_needed).sum());
        let routed = lane.routed();
        let are_programs = batched[0].entry.counts_keys;
        let (mut before, mut programs, mut admitted) = (None, Vec::new(), 0);
        for request in batched.iter() {
            let is_alike = request.entry.counts_keys == are_programs;
            let BatchedRequest { args, entry, ref location } = *request;
            let before = before.replace(entry);
            let is_admitted = gates::admits_batched(
                lane,
                session,
                before,
                entry,
                (args, slice::from_ref(location)),
            );
            if !is_alike || !is_admitted || is_heavy_request(args) || is_long(args) {
                break;
            }
            failpoint::behind_gates();
            if are_programs {
                let Some(program) = prepare_brief(engine, session, request) else { break };
                programs.push(program);
            }
            admitted += 1;
        }
        batched.truncate(admitted);
        let flags = || {
            let each = batched.iter().map(|request| FlagSet::of(request.entry.spec.flags));
            each.fold(FlagSet::EMPTY, FlagSet::and)
        };
        // By another table of the cluster some of them would have gone elsewhere, or go alone.
        let is_routed_anew = lane.routed() != routed || !lane.routes().open.is_empty();
        if batched.len() < 2 || is_routed_anew || !lane.enter_past_gates(flags) {
            return None;
        }
        let mut locations: SmallVec<[Location; LOCK_BATCH_MAX]> =
            batched.iter().map(|request| request.location).collect();
        // Many lock batches are about one key.
        locations.dedup();
        let partitions: PartitionSet = locations.iter().map(|it| it.partition()).collect();
        let mut acquisition = Acquisition::of_partitions(server.keyspace, partitions);
        if !acquisition.attempt() {
            return None;
        }
        // What was done before them holds nobody up.
        lane.tick();
        let options = TxOptions { undoable: are_programs, ..tx_options(lane, session) };
        let tx = Tx::begin(acquisition, options);
        // A client waits for one of the keys: to serve it may take more locks.
        if tx.any_waiters() {
            return None;
        }
        tx.prefetch(&locations);
        prefetch_members(&tx, batched);
        let (unit, programs) = (Unit::begin(server, tx, None), programs.into_iter());
        Some(Self { lane, unit, programs, begun_us: lane.ticked_us() })
    }

    /// Executes the next request; `false`, and nothing is done, if it has to go alone.
    #[inline]
    pub fn execute(
        &mut self,
        session: &mut Session,
        request: &BatchedRequest<'_>,
        out: &mut Output,
    ) -> bool {
        let handler = match request.entry.run {
            Run::Data(handler) => handler,
            Run::Unit => return self.execute_program(session, request, out),
            Run::Control => return false,
        };
        let Self { lane, unit, .. } = self;
        let tx = &mut unit.tx;
        let (BatchedRequest { args, entry, location }, length) = (*request, out.len());
        tx.renew();
        tx.hint(&args[1], location);
        let work =
            HandlerWork { server: lane.shared, entry, handler, resp: session.resp, reader: None };
        let client = Some(session.client.id);
        let served = ServedRequest { server: lane.shared, client, entry, args };
        match served.serve(|| work.run(tx, args, out, &lane.wakes)) {
            HandlerOutcome::Replied(seen) => session.note_reply(entry, seen),
            HandlerOutcome::Failed(seen) => {
                session.note_reply_lsn(seen);
                lane.shared.observed.stats.failed(lane.number, entry.id);
            }
            HandlerOutcome::Heavy | HandlerOutcome::Widen | HandlerOutcome::Wait(_) => {
                return false;
            }
        }
        session.client.live.last_command.store(entry.id as u32, Ordering::Relaxed);
        charge(lane, session, entry, args, out, length);
        true
    }

    /// As `execute`, for a script.
    fn execute_program(
        &mut self,
        session: &mut Session,
        request: &BatchedRequest<'_>,
        out: &mut Output,
    ) -> bool {
        let Self { lane, unit, programs, .. } = self;
        let Some(mut program) = programs.next() else { return false };
        let (BatchedRequest { args, entry, location }, length, mark) =
            (*request, out.len(), out.mark());
        let begun_us = lane.ticked_us();
        unit.reset();
        unit.tx.begin_program(lane.now_us());
        if let Some(key) = entry.only_key(args) {
            unit.tx.hint(key, location);
        }
        let client = Some(session.client.id);
        let served = ServedRequest { server: lane.shared, client, entry, args };
        let mut place = RunsOn::Worker(lane, session);
        let run = || unit.run_and_commit(&mut *program, args, &mut place, out);
        let Ok(seen) = served.serve(run) else {
            out.truncate(mark);
            unit.roll_back();
            program.note_undone();
            return false;
        };
        conclude(lane, session, entry, args, &mut *program, seen);
        session.client.live.last_command.store(entry.id as u32, Ordering::Relaxed);
        charge(lane, session, entry, args, out, length);
        program.note_run(lane.ticked_us() - begun_us >= HOLD_US);
        true
    }

    /// Whether others should have the locks now.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.lane.ticked_us() - self.begun_us >= HOLD_US
    }
}

/// The program of a request, if it is brief. What is wrong with it is said where it goes alone.
fn prepare_brief(
    server: &'static Engine,
    session: &Session,
    request: &BatchedRequest<'_>,
) -> Option<Box<dyn Program>> {
    if !matches!(request.entry.run, Run::Unit) {
        return None;
    }
    let (entry, resp) = (request.entry, session.resp);
    let subject = session.acl_subject(server);
    let (access, initial_refusals, wants_debugger) =
        (slot_access(session), None, session.wants_debugger);
    let session = None;
    let asked = ProgramRequest {
        server,
        entry,
        resp,
        subject,
        access,
        initial_refusals,
        wants_debugger,
        session,
    };
    let program = server.prepare(entry, asked, request.args).ok()?;
    program.is_brief().then_some(program)
}

/// Has the members on their way from memory that requests for one key, one behind the other, look
/// up. For a key that is named once, looking it up here costs more than it brings.
fn prefetch_members(tx: &Tx, batched: &BatchedRequests<'_>) {
    let are_about_one =
        |one: &BatchedRequest<'_>, next: &BatchedRequest<'_>| one.args[1] == next.args[1];
    for of_one in batched.chunk_by(are_about_one).filter(|of_one| of_one.len() > 1) {
        let BatchedRequest { args, entry, location } = of_one[0];
        if let Some(index) = entry.spec.member_index() {
            let members = of_one.iter().filter_map(|request| request.args.get(index));
            tx.prefetch_members(location, &args[1], members);
        }
    }
}
