//! A chain: requests that one client sent together, executed under locks that are taken once.
//!
//! To take a lock, begin a transaction, end it and give the lock back costs as much as to look up a
//! key. So the locks of up to eight requests are taken together, and one transaction goes from one
//! request to the next; so it is with scripts of one key each, which the same goes for. Why not
//! more of them: docs/decisions/chains.md.
//!
//! Invariants: each request is a command of its own, admitted, run, committed and booked as if it
//! had come alone, in its turn; what is not plain about a request or its session keeps it out of a
//! chain; locks that are not all free at once are not waited for; a script that turns out to need
//! more than it is given here has done nothing, and goes alone.

use std::sync::atomic::Ordering;

use commands::Flags;
use keyspace::{Acquisition, Location, Lsn, PartitionSet, Tx, TxOptions};
use proto::{Args, Output};
use smallvec::SmallVec;

use super::departure::is_long;
use super::unit::conclude;
use super::{Outcome, Work, book, looks_heavy, options};
use crate::budget;
use crate::evict;
use crate::gates;
use crate::session::Session;
use crate::table::{Entry, Run};
use crate::unit::{Asked, Place, Program, Unit};
use crate::worker::Worker;

/// How many requests a chain has at most: as many as a partition set has room for in place.
pub(crate) const CHAIN_MAX: usize = 8;

/// After so many microseconds others may have the locks, whatever of the chain is left. A busy lock
/// is looked at for a few before anybody goes away.
const HOLD_US: i64 = 20;

/// A request that may be part of a chain.
#[derive(Clone, Copy)]
pub(crate) struct Link<'a> {
    pub(crate) args: Args<'a>,
    pub(crate) entry: &'static Entry,
    /// Where its only key belongs.
    pub(crate) location: Location,
}

/// The requests of a client that come next, as many of them as may be of one chain.
pub(crate) type Links<'a> = SmallVec<[Link<'a>; CHAIN_MAX]>;

/// The locks of a chain, and what its requests run on.
pub(crate) struct Chain<'a> {
    worker: &'a Worker,
    unit: Unit,
    /// One for each request that is left, or none if they are commands.
    programs: std::vec::IntoIter<Box<dyn Program>>,
    begun_us: i64,
}

impl<'a> Chain<'a> {
    /// Whether the requests of a session may be of chains.
    #[inline]
    pub(crate) fn suits(worker: &Worker, session: &Session) -> bool {
        // While replies are held back, each is to wait for no more than what it saw itself.
        session.is_plain() && worker.server.journal.is_durable(Lsn::MAX)
    }

    /// Takes the locks of requests of a session that suits, those that are not admitted, or are
    /// scripts behind commands or the other way round, and all behind them taken away first. `None`
    /// if fewer than two are left, or if they have to go one by one.
    pub(crate) fn begin(
        worker: &'a Worker,
        session: &Session,
        links: &mut Links<'_>,
    ) -> Option<Self> {
        let server = worker.server;
        if links.len() < 2 {
            return None;
        }
        evict::prepare(worker, || {
            let rooms = links.iter().map(|link| budget::room_for(link.entry.spec.flags, link.args));
            rooms.sum()
        });
        let are_programs = links[0].entry.counts_keys;
        let (mut before, mut programs, mut admitted) = (None, Vec::new(), 0);
        for link in links.iter() {
            let is_alike = link.entry.counts_keys == are_programs;
            let Link { args, entry, .. } = *link;
            let before = before.replace(entry);
            let is_admitted = gates::admits_behind(worker, session, before, entry, args);
            if !is_alike || !is_admitted || looks_heavy(args) || is_long(args) {
                break;
            }
            if are_programs {
                let Some(program) = prepare_brief(worker, session, link) else { break };
                programs.push(program);
            }
            admitted += 1;
        }
        links.truncate(admitted);
        let flags = || links.iter().fold(Flags::NONE, |all, it| all.and(it.entry.spec.flags));
        if links.len() < 2 || !worker.come_in_past_gates(flags) {
            return None;
        }
        let mut locations: SmallVec<[Location; CHAIN_MAX]> =
            links.iter().map(|link| link.location).collect();
        // Many chains are about one key.
        locations.dedup();
        let partitions: PartitionSet = locations.iter().map(|it| it.partition()).collect();
        let mut acquisition = Acquisition::of_partitions(server.keyspace, partitions);
        if !acquisition.attempt() {
            return None;
        }
        // What was done before them holds nobody up.
        worker.tick();
        let options = TxOptions { undoable: are_programs, ..options(worker, session) };
        let tx = Tx::begin(acquisition, options);
        // Somebody waits for one of the keys: to serve it may take more locks.
        if tx.any_waiters() {
            return None;
        }
        tx.prefetch(&locations);
        prefetch_members(&tx, links);
        let (unit, programs) = (Unit::begin(server, tx, None), programs.into_iter());
        Some(Self { worker, unit, programs, begun_us: worker.ticked_us() })
    }

    /// Executes the next request; `false`, and nothing is done, if it has to go alone.
    #[inline]
    pub(crate) fn execute(
        &mut self,
        session: &mut Session,
        link: &Link<'_>,
        out: &mut Output,
    ) -> bool {
        let handler = match link.entry.run {
            Run::Data(handler) => handler,
            Run::Unit(_) => return self.execute_program(session, link, out),
            Run::Control(_) => return false,
        };
        let Self { worker, unit, .. } = self;
        let tx = &mut unit.tx;
        let (Link { args, entry, location }, length) = (*link, out.len());
        tx.renew();
        tx.hint(&args[1], location);
        let work = Work { server: worker.server, entry, handler, resp: session.resp, reader: None };
        match work.run(tx, args, out, &worker.rounds) {
            Outcome::Replied(seen) => session.see_by(entry, seen),
            Outcome::Failed(seen) => {
                session.see(seen);
                worker.server.stats.failed(worker.lane, entry.id);
            }
            Outcome::Heavy | Outcome::Widen | Outcome::Wait(_) => return false,
        }
        session.client.live.last_command.store(entry.id as u32, Ordering::Relaxed);
        book(worker, session, entry, args, out, length);
        true
    }

    /// As `execute`, for a script.
    fn execute_program(
        &mut self,
        session: &mut Session,
        link: &Link<'_>,
        out: &mut Output,
    ) -> bool {
        let Self { worker, unit, programs, .. } = self;
        let Some(mut program) = programs.next() else { return false };
        let (Link { args, entry, location }, length, mark) = (*link, out.len(), out.mark());
        let begun_us = worker.ticked_us();
        unit.renew();
        unit.tx.begin_program(worker.now_us());
        if let Some(key) = entry.only_key(args) {
            unit.tx.hint(key, location);
        }
        let mut place = Place::Worker(worker, session);
        let Ok(seen) = unit.carry_out(&mut *program, args, &mut place, out) else {
            out.truncate(mark);
            unit.start_over();
            program.note_undone();
            return false;
        };
        conclude(worker, session, entry, args, &mut *program, seen);
        session.client.live.last_command.store(entry.id as u32, Ordering::Relaxed);
        book(worker, session, entry, args, out, length);
        program.note_run(worker.ticked_us() - begun_us >= HOLD_US);
        true
    }

    /// Whether others should have the locks now.
    #[inline]
    pub(crate) fn is_long(&self) -> bool {
        self.worker.ticked_us() - self.begun_us >= HOLD_US
    }
}

/// The program of a request, if it is brief. What is wrong with it is said where it goes alone.
fn prepare_brief(worker: &Worker, session: &Session, link: &Link<'_>) -> Option<Box<dyn Program>> {
    let Run::Unit(prepare) = link.entry.run else { return None };
    let (server, entry, resp) = (worker.server, link.entry, session.resp);
    let limited = session.limited(server);
    let asked = Asked { server, entry, resp, limited, shortage: None, session: None };
    let program = prepare(asked, link.args).ok()?;
    program.is_brief().then_some(program)
}

/// Has the members on their way from memory that requests for one key, one behind the other, look
/// up. For a key that is named once, looking it up here costs more than it brings.
fn prefetch_members(tx: &Tx, links: &Links<'_>) {
    let are_about_one = |one: &Link<'_>, next: &Link<'_>| one.args[1] == next.args[1];
    for of_one in links.chunk_by(are_about_one).filter(|of_one| of_one.len() > 1) {
        let Link { args, entry, location } = of_one[0];
        if let Some(index) = entry.spec.member_index() {
            let members = of_one.iter().filter_map(|link| link.args.get(index));
            tx.prefetch_members(location, &args[1], members);
        }
    }
}
