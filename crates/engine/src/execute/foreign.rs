//! A request of another front than that of Redis' commands: a command stands for it, and its front
//! brings what it does.
//!
//! Invariant: gates, locks, patience, commit and books are those of the command that stands for it;
//! its front only finds that, does what is asked, and words the answers. What it does borrows from
//! the input, so it does not leave its worker and has no budget.

use std::sync::atomic::Ordering;

use commands::Flags;
use config::settings::PREFETCH_BATCH_MAX_SIZE;
use keyspace::{Acquisition, LocatedKeys, Location, PartitionIndex, PartitionSet, Refusal, Tx};
use proto::{Args, Output, OwnedArgs};
use smallvec::SmallVec;

use super::locks::{self, Granted, PREFETCHED_MAX};
use crate::admission::gates::{self, GateVerdict};
use crate::commit::accounting::{charge_foreign, charge_step};
use crate::commit::handler::{self, CommandBody, HandlerOutcome};
use crate::commit::served_request::ServedRequest;
use crate::lane::Lane;
use crate::limits::slot_map::{SlotMap, SlotQuery, TRYAGAIN};
use crate::runtime::failpoint;
use crate::session::{
    LockWaitEnd, RequestAttempt, Session, Step, SteppedWork, Steps, Suspension, tx_options,
};
use crate::table::command_table::CommandEntry;
use crate::table::flag_set::FlagSet;

/// What cannot be asked of the gates for it.
const NOT_SENT_ON: &str = "only requests in Redis' protocol are sent on";

/// What came of a part of a request in steps.
pub enum PartOutcome {
    /// The part is done.
    Done,
    /// The part was refused, and the request ends.
    Refused,
    /// Nothing was done: these locks are needed.
    Widen(Acquisition),
    /// Nothing was done: a gate keeps what writes, until it opens.
    Postponed,
}

/// What a front says of its request, beside what that does.
pub trait ForeignBody: CommandBody {
    /// What is denied by the rules of the session's user, which may not do everything.
    fn deny(&self, session: &Session, entry: &'static CommandEntry) -> Option<Refusal>;

    /// What room it needs before it runs, as far as that is known.
    fn room(&self) -> usize;

    /// Its key and where that belongs, if it has just one; asked more than once.
    fn only_key(&self) -> Option<(&[u8], Location)>;

    /// Shows its keys, if they are several, and whether it has these very bytes looked up.
    fn visit_keys(&self, visit: impl FnMut(&[u8], bool));

    /// The request in steps, if its keys are too many to be locked together.
    fn in_steps(&self, entry: &'static CommandEntry) -> Option<Box<dyn SteppedWork>>;

    /// How many bytes it takes in words, about.
    fn extent(&self) -> usize;

    /// The request in words, for monitors and for the logs.
    fn words(&self) -> OwnedArgs;

    /// The request has run, and its locks are given back.
    fn finish(&mut self, lane: &Lane);
}

/// A request of another front.
pub struct ForeignRequest<'a, B> {
    /// Of the worker that runs it.
    pub lane: &'a Lane,
    /// The session that makes the request.
    pub session: &'a mut Session,
    /// The command that stands for it.
    pub entry: &'static CommandEntry,
    /// What is done to the data, and how that is answered.
    pub body: &'a mut B,
    /// Where its reply goes.
    pub out: &'a mut Output,
}

impl<B: ForeignBody> ForeignRequest<'_, B> {
    /// Runs the request on the data. `grant` is what came of its wait, if there was one.
    #[inline]
    pub fn run(&mut self, grant: Option<LockWaitEnd>) -> Step {
        match grant {
            None => self.run_granted(None),
            Some(grant) => self.run_again(grant),
        }
    }

    #[cold]
    fn run_again(&mut self, grant: LockWaitEnd) -> Step {
        self.run_granted(Some(grant))
    }

    /// Inlined, so that most requests carry no locks along that they have not waited for.
    #[inline(always)]
    fn run_granted(&mut self, grant: Option<LockWaitEnd>) -> Step {
        let length = self.out.len();
        match self.enter(grant) {
            Ok(granted) => {
                failpoint::behind_gates();
                let step = self.run_data(granted);
                self.charge(step, length)
            }
            Err(step) => step,
        }
    }

    /// Has something done for it beside the data.
    pub fn control(&mut self, work: impl FnOnce(&mut Session, &mut Output) -> Step) -> Step {
        let length = self.out.len();
        match self.enter(None) {
            Ok(_) => {
                let (served, role) = (self.served(), self.entry.spec.role);
                let (session, out) = (&mut *self.session, &mut *self.out);
                let run = || failpoint::beside(role, || work(session, out));
                let step = served.serve(run);
                self.charge(step, length)
            }
            Err(step) => step,
        }
    }

    /// Runs a part of a request in steps, with its locks if they came.
    pub fn run_part(&mut self, locks: Result<Acquisition, Refusal>) -> PartOutcome {
        let locks = match self.ask(true) {
            GateVerdict::Refused(refusal) => Err(refusal),
            // Between two parts others have had the world: a pause may be answered.
            GateVerdict::Postponed(_) if self.entry.may_write() => return PartOutcome::Postponed,
            GateVerdict::Admitted | GateVerdict::Postponed(_) => locks,
            GateVerdict::Elsewhere(_) => unreachable!("{NOT_SENT_ON}"),
        };
        match locks {
            Ok(acquisition) => {
                let attempt = RequestAttempt::default();
                match self.transact(acquisition, &attempt, &mut LocatedKeys::default()) {
                    Ok(true) => PartOutcome::Done,
                    Ok(false) => PartOutcome::Refused,
                    Err(wider) => PartOutcome::Widen(wider),
                }
            }
            Err(refusal) => {
                self.refuse(&refusal);
                PartOutcome::Refused
            }
        }
    }

    /// Asks whether it may run; the error is what comes instead. Inlined for the sake of the locks
    /// that pass through it.
    #[inline(always)]
    fn enter(&mut self, grant: Option<LockWaitEnd>) -> Result<Granted, Step> {
        let (lane, entry) = (self.lane, self.entry);
        self.session.client.live.last_command.store(entry.id as u32, Ordering::Relaxed);
        let (verdict, granted) = locks::enter(lane, grant, || self.body.room(), || self.ask(false));
        match verdict {
            GateVerdict::Admitted => Ok(granted),
            GateVerdict::Postponed(suspension) => Err(Step::Postpone(suspension)),
            GateVerdict::Elsewhere(_) => unreachable!("{NOT_SENT_ON}"),
            GateVerdict::Refused(refusal) => {
                lane.shared.observed.stats.rejected(lane.number, entry.id);
                self.refuse(&refusal);
                let _ = lane.tick();
                Err(Step::Done)
            }
        }
    }

    #[inline]
    fn ask(&self, has_partly_run: bool) -> GateVerdict {
        let (session, entry, body) = (&*self.session, self.entry, &*self.body);
        let deny = || body.deny(session, entry);
        let elsewhere = |routes: &SlotMap| self.refuse_route(routes);
        let asked = (entry, has_partly_run);
        gates::admit_foreign(self.lane, session, asked, || body.room(), deny, elsewhere)
    }

    /// Why its keys are not served on this node of a cluster. While a slot moves, its keys are not:
    /// a client of another front cannot be sent on for one of them.
    #[cold]
    fn refuse_route(&self, routes: &SlotMap) -> Option<Refusal> {
        let writes = self.entry.spec.flags.has(Flags::WRITE);
        let refuse = |slot: PartitionIndex| {
            let query = SlotQuery { slot, writes, ..SlotQuery::default() };
            let is_open = || routes.open.contains_key(&slot).then_some(TRYAGAIN);
            routes.refuse(query).or_else(is_open)
        };
        if let Some((_, location)) = self.body.only_key() {
            return refuse(location.partition());
        }
        let mut refusal = None;
        self.body.visit_keys(|key, _| {
            let slot = || self.lane.shared.keyspace.locate(key).partition();
            refusal = refusal.take().or_else(|| refuse(slot()));
        });
        refusal
    }

    #[cold]
    fn refuse(&mut self, refusal: &Refusal) {
        self.body.refuse(refusal, self.out);
        self.lane.shared.count_refusal(refusal);
    }

    #[inline(always)]
    fn run_data(&mut self, granted: Granted) -> Step {
        let (lane, entry) = (self.lane, self.entry);
        let mut located = LocatedKeys::default();
        let (acquisition, attempt) = match granted {
            Some(granted) => granted,
            None => {
                if let Some(work) = self.body.in_steps(entry) {
                    let words = self.body.words();
                    return Step::Wait(Suspension::Steps(Steps::begin(
                        entry,
                        words.as_args(),
                        work,
                    )));
                }
                let (keyspace, attempt) = (lane.shared.keyspace, RequestAttempt::default());
                let partitions = match self.body.only_key() {
                    Some((_, location)) => PartitionSet::from_slice(&[location.partition()]),
                    None => {
                        self.locate(&mut located);
                        located.locations().map(Location::partition).collect()
                    }
                };
                let mut acquisition = Acquisition::of_partitions(keyspace, partitions);
                if !locks::acquire(lane, || FlagSet::of(entry.spec.flags), &mut acquisition) {
                    return locks::park(lane, acquisition, attempt);
                }
                (acquisition, attempt)
            }
        };
        match self.transact(acquisition, &attempt, &mut located) {
            Ok(_) => Step::Done,
            Err(wider) => locks::park_wider(lane, wider, &attempt),
        }
    }

    fn locate(&self, located: &mut LocatedKeys) {
        let keyspace = self.lane.shared.keyspace;
        self.body.visit_keys(|key, is_looked_up| {
            let location = keyspace.locate(key);
            keyspace.prefetch_locks(&[location]);
            if is_looked_up {
                located.push(key, location);
            } else {
                located.push_elsewhere(location);
            }
        });
    }

    /// Runs the request with its locks; whether it was not refused. The error is what to lock
    /// instead.
    #[inline]
    fn transact(
        &mut self,
        acquisition: Acquisition,
        attempt: &RequestAttempt,
        located: &mut LocatedKeys,
    ) -> Result<bool, Acquisition> {
        let (lane, server) = (self.lane, self.lane.shared);
        let mut tx = Tx::begin(acquisition, tx_options(lane, self.session));
        if let Some((key, location)) = self.body.only_key() {
            tx.hint(key, location);
        } else if !located.is_empty() {
            if server.config.get(PREFETCH_BATCH_MAX_SIZE) > 0 {
                let some = located.locations().take(PREFETCHED_MAX);
                tx.prefetch(&some.collect::<SmallVec<[Location; 8]>>());
            }
            tx.set_located(std::mem::take(located));
        }
        let served = self.served();
        let mut body = Unhurried(&mut *self.body);
        let (args, out) = (Args::default(), &mut *self.out);
        let run = || handler::run(server, &lane.wakes, &mut tx, args, out, &mut body);
        let succeeded = match served.serve(run) {
            HandlerOutcome::Replied(seen) => {
                self.session.note_reply(self.entry, seen);
                true
            }
            HandlerOutcome::Failed(seen) => {
                self.session.note_reply_lsn(seen);
                server.observed.stats.failed(lane.number, self.entry.id);
                false
            }
            HandlerOutcome::Widen => return Err(tx.widen(attempt.widenings)),
            HandlerOutcome::Heavy | HandlerOutcome::Wait(_) => {
                unreachable!("no front has such requests")
            }
        };
        drop(tx);
        self.body.finish(lane);
        Ok(succeeded)
    }

    /// The request as a crash report tells of it: its words are the front's.
    #[inline]
    fn served(&self) -> ServedRequest<'static> {
        let (server, client) = (self.lane.shared, Some(self.session.client.id));
        ServedRequest { server, client, entry: self.entry, args: Args::default() }
    }

    #[inline]
    fn charge(&mut self, mut step: Step, length: usize) -> Step {
        let (lane, session, body) = (self.lane, &*self.session, &*self.body);
        let (entry, out, words) = (self.entry, &*self.out, || body.words());
        charge_step(lane, session, &mut step, || {
            charge_foreign(lane, session, entry, body.extent(), words, out, length);
        });
        step
    }
}

/// What is done however long it takes.
struct Unhurried<'a, B>(&'a mut B);

impl<B: CommandBody> CommandBody for Unhurried<'_, B> {
    #[inline]
    fn run(&mut self, tx: &mut Tx, out: &mut Output) -> Result<(), Refusal> {
        tx.without_budget(|tx| self.0.run(tx, out))
    }

    fn refuse(&mut self, refusal: &Refusal, out: &mut Output) {
        self.0.refuse(refusal, out);
    }
}
