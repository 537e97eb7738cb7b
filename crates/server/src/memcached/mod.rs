//! The memcached protocols: their requests on the same data, through the same gates, locks and
//! journal as those of Redis.
//!
//! Three codecs in `proto::memcached` make one kind of request, which is executed here. Invariants:
//! what needs a password on one port needs it on all; what a request changed leaves by `commit`
//! while its locks are held.

mod admin;
mod auth;
pub(crate) mod command_line;
mod command_map;
mod counters;
mod crawler;
mod details;
pub(crate) mod events;
mod flush;
mod front;
mod items;
mod many;
mod number;
mod stats;
mod tuning;
pub(crate) mod users;
pub(crate) mod watch;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use config::settings::MEMCACHED_ITEM_SIZE_MAX;
use keyspace::{Acquisition, Location, PartitionSet, Refusal, Tx, TxOptions};
use proto::memcached::{
    Dialect, Failure, Form, ItemLimits, KEY_LENGTH_MAX, Key, Operation, Request, Response, answer,
};
use proto::{Args, Output, OwnedArgs};

pub(crate) use front::Front;

use engine::admission::gates::{self, Verdict};
use engine::admission::guard;
use engine::commit::accounting::{account, feed_monitors};
use engine::commit::publish::commit;
use engine::lane::Lane;
use engine::limits::loading::LOADING;
use engine::reclaim::evict;
use engine::session::Dialogue;
use engine::session::{Grant, Round, Step};
use engine::session::{Parked, Session, Stage};
use engine::table::command_table::Entry;

pub(crate) use auth::{is_known, needs_login};

use command_map::{Deed, Deeds};
use counters::{Figure, Figures, Tally};
use details::{Details, Noted};
use events::Events;
use users::Users;
use watch::Lookout;

/// The version of memcached that we say we are, whose commands are complete here.
pub(crate) const MEMCACHED_VERSION: &str = "1.6.18";

/// What a client may send as a value before it has said who it is: a name and a password.
const CREDENTIALS_MAX: usize = 1024;

/// What all memcached sessions share.
#[derive(Default)]
pub(crate) struct Memcached {
    pub(crate) figures: Figures,
    pub(crate) lookout: Lookout,
    pub(crate) users: Users,
    pub(crate) details: Details,
    /// Clients that said nothing for too long.
    pub(crate) idle_kicks: AtomicU64,
    /// Where clients come in: the sockets' descriptors, and what they are.
    pub(crate) doors: OnceLock<Vec<(i32, String)>>,
    deeds: OnceLock<Deeds>,
    /// For how many seconds the key that was evicted last was not used.
    evicted_idle_s: AtomicU32,
    /// When all items are to be forgotten, in Unix milliseconds; 0 for not at all.
    flush_at: AtomicI64,
}

impl Memcached {
    /// Counts something that happened to a worker's client.
    fn count(&self, lane: &Lane, figure: Figure) {
        self.figures.count(lane.number, figure);
    }

    /// Does what has become due, unless all data stand still or it could not be told of; the slow
    /// clock calls it.
    pub(crate) fn tend(&self, server: &'static Front) {
        let at = self.flush_at.load(Ordering::Relaxed);
        let now = server.keyspace.clock().now_ms();
        let is_due = at != 0 && at <= now && !server.keyspace.settings().holds_expiry(now);
        if is_due && self.flush_at.swap(0, Ordering::Relaxed) == at {
            server.background.spawn_visit(move |lane| flush::flush_when_due(server, lane));
        }
    }
}

/// Writes that something was not done after all; `false` if the client's protocol has no line for
/// it.
pub(crate) fn write_failure(dialogue: &Dialogue, refusal: &Refusal, line: &mut Output) -> bool {
    let has_lines = dialogue.parser.dialect() != Dialect::Binary;
    if has_lines {
        let failure = Response::Failed(failure_of(refusal));
        let form = Form::Text { with_cas: false, quiet: false };
        answer(line, &Request { operation: Operation::Nothing, form }, failure);
    }
    has_lines
}

/// What a refusal is called here.
fn failure_of(refusal: &Refusal) -> Failure<'_> {
    let line = refusal.line().unwrap_or_default();
    if line.starts_with(b"OOM ") {
        return Failure::OutOfMemory;
    }
    if let Some(why) = line.strip_prefix(b"NOPERM ") {
        return Failure::Client(str::from_utf8(why).unwrap_or("No permissions"));
    }
    Failure::Server(str::from_utf8(line).unwrap_or("refused"))
}

/// What a client may send.
#[inline]
pub(crate) fn limits(server: &Front, session: &Session) -> ItemLimits {
    let value = server.config.get(MEMCACHED_ITEM_SIZE_MAX);
    match auth::is_known(server, session) {
        true => ItemLimits { value, is_strict: false },
        false => ItemLimits { value: CREDENTIALS_MAX, is_strict: true },
    }
}

/// Where the key of a request belongs, if it has just one, which stands there as it is.
#[inline]
pub(crate) fn locate(server: &Front, request: &Request<'_>) -> Option<Location> {
    let key = plain_key(&request.operation)?;
    Some(server.keyspace.locate(key.text()))
}

fn plain_key<'a>(operation: &Operation<'a>) -> Option<Key<'a>> {
    let key = match operation {
        Operation::Retrieve(retrieve) => {
            let mut keys = retrieve.keys;
            keys.next().filter(|_| keys.next().is_none())?
        }
        Operation::Store(store) => store.key,
        Operation::Delete(delete) => delete.key,
        Operation::Arithmetic(change) => change.key,
        Operation::Touch { key, .. } | Operation::Inspect(key) => *key,
        _ => return None,
    };
    key.is_plain().then_some(key)
}

/// Whether the answer shows the CAS value of an item.
fn shows_cas(request: &Request<'_>) -> bool {
    match &request.form {
        Form::Text { with_cas, .. } => *with_cas,
        Form::Meta(flags) => flags.has(b'c'),
        Form::Binary { .. } => true,
    }
}

/// A request on its way through.
struct Turn<'a> {
    server: &'static Front,
    lane: &'a Lane,
    session: &'a mut Session,
    request: &'a Request<'a>,
    location: Option<Location>,
    out: &'a mut Output,
}

/// Runs one request. `grant` is what came of its wait, if it had to wait.
pub(crate) fn execute(
    server: &'static Front,
    lane: &Lane,
    session: &mut Session,
    request: &Request<'_>,
    location: Option<Location>,
    out: &mut Output,
    grant: Option<Grant>,
) -> Step {
    let is_known = auth::is_known(server, session);
    let mut turn = Turn { server, lane, session, request, location, out };
    if !is_known {
        return turn.serve_stranger();
    }
    match &request.operation {
        Operation::Retrieve(_)
        | Operation::Store(_)
        | Operation::Delete(_)
        | Operation::Arithmetic(_)
        | Operation::Touch { .. }
        | Operation::Inspect(_) => turn.run_items(grant),
        Operation::Refuse(refusal) if refusal.removes.is_some() => turn.run_items(grant),
        Operation::Refuse(refusal) => {
            let (closes, failure) = (refusal.closes, refusal.failure);
            turn.fail(failure);
            if closes { Step::Close } else { Step::Done }
        }
        Operation::Flush(expiry) => turn.flush(*expiry),
        Operation::Nothing | Operation::Verbosity => turn.say(Response::Ok),
        Operation::Version => turn.say(Response::Version(MEMCACHED_VERSION.as_bytes())),
        Operation::Quit => {
            turn.say(Response::Ok);
            Step::Close
        }
        Operation::Statistics(_) | Operation::Administer(..) => turn.steer(),
        Operation::ListMechanisms | Operation::Authenticate { .. } => turn.authenticate(),
    }
}

impl Turn<'_> {
    fn say(&mut self, response: Response<'_>) -> Step {
        answer(self.out, self.request, response);
        Step::Done
    }

    fn fail(&mut self, failure: Failure<'_>) -> Step {
        match failure {
            Failure::TooLarge => self.count(Figure::StoreTooLarge),
            Failure::OutOfMemory => self.count(Figure::StoreNoMemory),
            _ => {}
        }
        self.say(Response::Failed(failure))
    }

    fn refuse(&mut self, refusal: &Refusal) -> Step {
        self.server.stats.error(refusal.line().unwrap_or_default());
        self.fail(failure_of(refusal))
    }

    fn count(&self, figure: Figure) {
        self.server.memcached.count(self.lane, figure);
    }

    /// Tells a report, or does what a command of administration says.
    fn steer(&mut self) -> Step {
        let operation = &self.request.operation;
        match self.admit(Deed::of(operation)) {
            Err(step) => step,
            Ok(_) => match operation {
                Operation::Statistics(words) => self.report(*words),
                Operation::Administer(what, words) => self.administer(*what, *words),
                _ => unreachable!("nothing else steers"),
            },
        }
    }

    /// The command of Redis that stands for what is asked, by whose flags the gates and the books
    /// go; if it is there, and the client's user may run it.
    fn admit(&mut self, deed: Deed) -> Result<&'static Entry, Step> {
        let server = self.server;
        let Some(entry) = self.deeds().entry(deed) else {
            return Err(self.fail(Failure::Server("the command is disabled")));
        };
        self.session.client.live.last_command.store(entry.id as u32, Ordering::Relaxed);
        if !self.session.may_do_everything()
            && let Some(refusal) = self.ask_rules(entry)
        {
            server.stats.rejected(self.lane.number, entry.id);
            return Err(self.refuse(&refusal));
        }
        Ok(entry)
    }

    fn deeds(&self) -> &'static Deeds {
        let server = self.server;
        server.memcached.deeds.get_or_init(|| Deeds::find(&server.table))
    }

    /// What the rules of the client's user deny: each key is looked at as if it had come alone.
    #[cold]
    fn ask_rules(&self, entry: &'static Entry) -> Option<Refusal> {
        // What would be made is told if it is there.
        let tells =
            matches!(&self.request.operation, Operation::Retrieve(it) if it.vivify.is_some());
        let told = self.deeds().entry(Deed::Get).filter(|_| tells);
        let mut entries = told.into_iter().chain([entry]);
        entries.find_map(|entry| self.ask_rules_of(entry))
    }

    fn ask_rules_of(&self, entry: &'static Entry) -> Option<Refusal> {
        let (server, name) = (self.server, entry.spec.name.as_bytes());
        let mut buffer = [0; KEY_LENGTH_MAX];
        let mut is_alone = true;
        for key in command_map::keys_of(&self.request.operation) {
            is_alone = false;
            let args: OwnedArgs = [name, key.bytes(&mut buffer)].into_iter().collect();
            let refusal = guard::refuse(server, self.session, entry, args.as_args());
            if refusal.is_some() {
                return refusal;
            }
        }
        let args: OwnedArgs = [name].into_iter().collect();
        is_alone.then(|| guard::refuse(server, self.session, entry, args.as_args())).flatten()
    }

    /// Asks the gates; `Some` is what comes instead of the command.
    fn ask_gates(&mut self, entry: &'static Entry, room: usize) -> Option<Step> {
        let (server, lane, flags) = (self.server, self.lane, entry.spec.flags);
        if server.loading.is_on() {
            return Some(self.refuse(&LOADING));
        }
        match gates::admit_deed(server, flags, entry.spec.role, || room, || flags) {
            Verdict::Admitted => {}
            Verdict::Refused(refusal) => {
                server.stats.rejected(lane.number, entry.id);
                return Some(self.refuse(&refusal));
            }
            Verdict::Postponed(stage) => return Some(Step::Postpone(stage)),
        }
        match gates::admit_in_pause(lane, || flags) {
            Verdict::Postponed(stage) => Some(Step::Postpone(stage)),
            Verdict::Admitted | Verdict::Refused(_) => None,
        }
    }

    /// Runs a request on items.
    fn run_items(&mut self, grant: Option<Grant>) -> Step {
        let entry = match self.admit(Deed::of(&self.request.operation)) {
            Ok(entry) => entry,
            Err(step) => return step,
        };
        let room = command_map::room_for(&self.request.operation);
        let (acquisition, round) = match grant {
            // A pause or a load may have come while it waited: then the locks go back.
            Some(Grant::Locks(acquisition, round)) => match self.ask_gates(entry, room) {
                Some(step) => return step,
                None => (acquisition, round),
            },
            Some(Grant::Busy) => return self.refuse(&keyspace::BUSY),
            None => {
                evict::prepare(self.lane, || room);
                if let Some(step) = self.ask_gates(entry, room) {
                    return step;
                }
                if self.location.is_none()
                    && let Some(steps) = many::in_steps(self.server, self.request, entry)
                {
                    return Step::Wait(Stage::Steps(steps));
                }
                let keyspace = self.server.keyspace;
                let mut acquisition = Acquisition::of_partitions(keyspace, self.partitions());
                if !self.lane.come_in_past_gates(|| entry.spec.flags) || !acquisition.attempt() {
                    return self.park(acquisition, Round::default());
                }
                (acquisition, Round::default())
            }
        };
        let length = self.out.len();
        match self.run_on(acquisition, &round, entry, false) {
            Ok(_) => {}
            Err(wider) => {
                let round = Round { number: round.number + 1, ..Round::default() };
                return self.park(wider, round);
            }
        }
        self.book(entry, (self.out.len() - length) as u64);
        match self.request.operation {
            Operation::Refuse(refusal) if refusal.closes => Step::Close,
            _ => Step::Done,
        }
    }

    /// Runs it with its locks; whether it was not refused. The error is what to lock instead.
    fn run_on(
        &mut self,
        acquisition: Acquisition,
        round: &Round,
        entry: &'static Entry,
        is_part: bool,
    ) -> Result<bool, Acquisition> {
        let (lane, server) = (self.lane, self.server);
        let now_us = lane.now_us();
        let mut tx = Tx::begin(
            acquisition,
            TxOptions {
                database: self.session.database,
                now_us,
                touches: true,
                origin: self.session.client.id,
                ..TxOptions::internal(lane.number, now_us / 1000)
            },
        );
        if let (Some(location), Some(key)) = (self.location, plain_key(&self.request.operation)) {
            tx.hint(key.text(), location);
        }
        let mark = self.out.mark();
        let (tally, size_max) = (Tally::default(), server.config.get(MEMCACHED_ITEM_SIZE_MAX));
        let lookout = &server.memcached.lookout;
        let events = Events::of(lookout.watched(), self.session.client.descriptor);
        let (tx_of, request) = (&mut tx, self.request);
        // As in memcached, meta commands are not counted by their prefixes.
        let details = match request.form {
            Form::Meta(_) => Noted::default(),
            _ => server.memcached.details.begin(),
        };
        let out = &mut *self.out;
        let mut work =
            items::Work { tx: tx_of, request, out, tally, events, details, size_max, is_part };
        let result = work.run();
        let (tally, events, details) = (work.tally, work.events, work.details);
        match commit(server, &lane.rounds, &mut tx, Args::default()) {
            Ok(seen) => self.session.see_by(entry, seen),
            Err(_) => {
                self.out.truncate(mark);
                return Err(tx.widen(round.number));
            }
        }
        drop(tx);
        server.memcached.figures.book(lane.number, &tally);
        server.memcached.details.book(details);
        for (class, what) in events.into_lines() {
            lookout.tell(
                server.outbox(&lane.rounds),
                server.keyspace.clock().now_us(),
                class,
                what,
            );
        }
        if let Err(refusal) = &result {
            self.out.truncate(mark);
            self.refuse(refusal);
        }
        Ok(result.is_ok())
    }

    /// Leaves the request until its locks are there.
    #[cold]
    fn park(&self, acquisition: Acquisition, round: Round) -> Step {
        Step::Postpone(Stage::Parked(Parked::new(acquisition, round, self.lane.ticked_us())))
    }

    fn partitions(&self) -> PartitionSet {
        let mut partitions = PartitionSet::new();
        if let Some(location) = self.location {
            partitions.push(location.partition());
            return partitions;
        }
        let mut buffer = [0; KEY_LENGTH_MAX];
        for key in command_map::keys_of(&self.request.operation) {
            let location = self.server.keyspace.locate(key.bytes(&mut buffer));
            partitions.push(location.partition());
        }
        partitions
    }

    /// Books a request that ran.
    fn book(&mut self, entry: &'static Entry, reply_bytes: u64) {
        let (lane, server) = (self.lane, self.server);
        if matches!(self.request.form, Form::Meta(_)) {
            self.count(Figure::CmdMeta);
        }
        let micros = u64::try_from(lane.tick()).unwrap_or(0);
        engine::runtime::counters::add(&lane.counters.busy_us, micros);
        // Few are ever shown, so few are put in words.
        let is_shown =
            server.monitors.any() || server.command_log.is_remarkable(0, micros, reply_bytes);
        let words =
            if is_shown { command_map::words(self.request, entry) } else { OwnedArgs::default() };
        let (database, args) = (self.session.database, words.as_args());
        account(lane, self.session, entry, args, micros, reply_bytes);
        feed_monitors(lane, self.session, database, entry, args);
    }
}
