//! The memcached protocols: their requests on the same data, through the same gates, locks and
//! journal as those of Redis.
//!
//! Three codecs in `proto::memcached` make one kind of request, which stands for a command and is
//! executed by the engine. Invariants: what needs a password on one port needs it on all; nothing
//! here asks a gate, takes a lock or books.

mod admin;
mod auth;
mod body;
pub(crate) mod command_line;
mod command_map;
mod counters;
mod crawler;
mod delayed_login;
mod details;
pub(crate) mod events;
mod flush;
mod items;
mod multiget;
mod number;
mod server;
mod stats;
mod tls_options;
mod tuning;
pub(crate) mod users;
pub(crate) mod watch;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use commands::errors::NOT_AN_INTEGER;
use config::settings::{MEMCACHED_FLUSH, MEMCACHED_ITEM_SIZE_MAX};
use keyspace::{Location, Refusal};
use proto::Output;
use proto::memcached::{
    Dialect, Failure, Form, ItemLimits, Key, Operation, Request, Response, answer,
};

pub(crate) use server::MemcachedServer;

use engine::execute::ForeignRequest;
use engine::lane::Lane;
use engine::runtime::background::SoleVisit;
use engine::session::{LockWaitEnd, MemcachedState, Session, Step};
use engine::table::command_table::CommandEntry;

pub(crate) use auth::{is_authenticated, needs_login};
pub(crate) use delayed_login::delay_login;

use body::RequestBody;
use command_map::{CommandKind, CommandMap};
use counters::{Counter, Counters};
use details::Details;
use users::Users;
use watch::Watchers;

/// The version of memcached that we say we are, whose commands are complete here.
pub(crate) const MEMCACHED_VERSION: &str = "1.6.18";

/// What a client may send as a value before it has logged in: a name and a password.
const CREDENTIALS_MAX: usize = 1024;

/// What all memcached sessions share.
#[derive(Default)]
pub(crate) struct Memcached {
    pub(crate) counters: Counters,
    pub(crate) watchers: Watchers,
    pub(crate) users: Users,
    pub(crate) details: Details,
    pub(crate) encryption: EncryptionFigures,
    /// Clients that said nothing for too long.
    pub(crate) idle_kicks: AtomicU64,
    /// Where clients come in: the sockets' descriptors, and what they are.
    pub(crate) listeners: OnceLock<Vec<(i32, String)>>,
    commands: OnceLock<CommandMap>,
    /// For how many seconds the key that was evicted last was not used.
    evicted_idle_s: AtomicU32,
    /// When all items are to be forgotten, in Unix milliseconds; 0 for not at all.
    flush_at: AtomicI64,
    due_flush: SoleVisit,
}

/// What its clients are told of TLS, as of the slow clock's last look.
#[derive(Default)]
pub(crate) struct EncryptionFigures {
    pub(crate) handshake_errors: AtomicU64,
    /// Since when new connections begin with the certificates that they begin with, on the
    /// monotonic clock.
    pub(crate) changed_us: AtomicI64,
}

impl Memcached {
    /// Counts something that happened to a worker's client.
    fn count(&self, lane: &Lane, counter: Counter) {
        self.counters.count(lane.number, counter);
    }

    /// Counts what a request of a worker failed by.
    fn count_failure(&self, lane: usize, failure: Failure<'_>) {
        match failure {
            Failure::TooLarge => self.counters.count(lane, Counter::StoreTooLarge),
            Failure::OutOfMemory => self.counters.count(lane, Counter::StoreNoMemory),
            _ => {}
        }
    }

    /// The commands that stand for requests.
    #[inline]
    fn commands(&self, server: &'static MemcachedServer) -> &CommandMap {
        self.commands.get_or_init(|| CommandMap::find(&server.table))
    }

    /// Does what has become due, unless all data stand still or it could not be told of; the slow
    /// clock calls it.
    pub(crate) fn tick(&self, server: &'static MemcachedServer) {
        let at = self.flush_at.load(Ordering::Relaxed);
        let now = server.keyspace.clock().now_ms();
        let is_due = at != 0 && at <= now && !server.keyspace.settings().holds_expiry(now);
        if is_due {
            // What is due beside one that still waits is so at the next look, too.
            _ = self.due_flush.begin(&server.threads.background, move |lane| {
                let flush_at = &server.memcached.flush_at;
                let taken = flush_at.compare_exchange(at, 0, Ordering::Relaxed, Ordering::Relaxed);
                if taken.is_ok() {
                    flush::flush_when_due(server, lane);
                }
            });
        }
    }
}

/// Writes that something was not done after all; `false` if the client's protocol has no line for
/// it.
pub(crate) fn write_failure(state: &MemcachedState, refusal: &Refusal, line: &mut Output) -> bool {
    let has_lines = state.parser.dialect() != Dialect::Binary;
    if has_lines {
        let failure = Response::Failed(failure_of(refusal));
        let form = Form::Text { with_cas: false, quiet: false };
        answer(line, &Request { operation: Operation::Nothing, form }, failure);
    }
    has_lines
}

/// What a refusal is called here.
fn failure_of(refusal: &Refusal) -> Failure<'_> {
    if *refusal == Refusal::WrongType {
        return Failure::Server("the key holds a value of another type than string");
    }
    if *refusal == NOT_AN_INTEGER {
        return Failure::NotANumber;
    }
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
pub(crate) fn limits(server: &MemcachedServer, session: &Session) -> ItemLimits {
    let value = server.config.get(MEMCACHED_ITEM_SIZE_MAX);
    match auth::is_authenticated(server, session) {
        true => ItemLimits { value, is_strict: false },
        false => ItemLimits { value: CREDENTIALS_MAX, is_strict: true },
    }
}

/// Where the key of a request belongs, if it has just one, which stands there as it is.
#[inline]
pub(crate) fn locate(server: &MemcachedServer, request: &Request<'_>) -> Option<Location> {
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
struct RequestContext<'a> {
    server: &'static MemcachedServer,
    lane: &'a Lane,
    session: &'a mut Session,
    request: &'a Request<'a>,
    location: Option<Location>,
    out: &'a mut Output,
}

/// Runs one request. `grant` is what came of its wait, if it had to wait.
pub(crate) fn execute(
    server: &'static MemcachedServer,
    lane: &Lane,
    session: &mut Session,
    request: &Request<'_>,
    location: Option<Location>,
    out: &mut Output,
    grant: Option<LockWaitEnd>,
) -> Step {
    let is_authenticated = auth::is_authenticated(server, session);
    let mut context = RequestContext { server, lane, session, request, location, out };
    if !is_authenticated {
        return context.serve_unauthenticated();
    }
    match &request.operation {
        Operation::Retrieve(_)
        | Operation::Store(_)
        | Operation::Delete(_)
        | Operation::Arithmetic(_)
        | Operation::Touch { .. }
        | Operation::Inspect(_) => context.run_items(grant),
        Operation::Refuse(refusal) if refusal.removes.is_some() => context.run_items(grant),
        Operation::Refuse(refusal) => {
            let (closes, failure) = (refusal.closes, refusal.failure);
            context.fail(failure);
            if closes { Step::Close } else { Step::Done }
        }
        Operation::Flush(_) if !server.config.get(MEMCACHED_FLUSH) => {
            context.fail(flush::NOT_ALLOWED)
        }
        Operation::Nothing | Operation::Verbosity => context.respond(Response::Ok),
        Operation::Version => context.respond(Response::Version(MEMCACHED_VERSION.as_bytes())),
        Operation::Quit => {
            context.respond(Response::Ok);
            Step::Close
        }
        Operation::Flush(_) | Operation::Statistics(_) | Operation::Administer(..) => {
            context.steer()
        }
        Operation::ListMechanisms | Operation::Authenticate { .. } => context.authenticate(),
    }
}

impl RequestContext<'_> {
    fn respond(&mut self, response: Response<'_>) -> Step {
        answer(self.out, self.request, response);
        Step::Done
    }

    fn fail(&mut self, failure: Failure<'_>) -> Step {
        self.server.memcached.count_failure(self.lane.number, failure);
        self.respond(Response::Failed(failure))
    }

    fn count(&self, counter: Counter) {
        self.server.memcached.count(self.lane, counter);
    }

    /// The command that stands for the request, if it is there.
    #[inline]
    fn entry(&mut self) -> Result<&'static CommandEntry, Step> {
        let (server, kind) = (self.server, CommandKind::of(&self.request.operation));
        let entry = server.memcached.commands(server).entry(kind);
        entry.ok_or_else(|| self.fail(Failure::Server("the command is disabled")))
    }

    /// Runs a request on items.
    fn run_items(&mut self, grant: Option<LockWaitEnd>) -> Step {
        let entry = match self.entry() {
            Ok(entry) => entry,
            Err(step) => return step,
        };
        let Self { server, lane, request, location, .. } = *self;
        let (session, out) = (&mut *self.session, &mut *self.out);
        let mut body = RequestBody::new(server, lane, session, request, location);
        let step = ForeignRequest { lane, session, entry, body: &mut body, out }.run(grant);
        let closes = matches!(request.operation, Operation::Refuse(it) if it.closes);
        if closes && body.has_run() { Step::Close } else { step }
    }

    /// Forgets all items, tells a report, or does what a command of administration says.
    fn steer(&mut self) -> Step {
        let entry = match self.entry() {
            Ok(entry) => entry,
            Err(step) => return step,
        };
        let Self { server, lane, request, location, .. } = *self;
        let (session, out) = (&mut *self.session, &mut *self.out);
        let body = &mut RequestBody::new(server, lane, session, request, location);
        let mut foreign = ForeignRequest { lane, session, entry, body, out };
        foreign.control(|session, out| {
            let mut context = RequestContext { server, lane, session, request, location, out };
            match &request.operation {
                Operation::Flush(expiry) => context.flush(*expiry),
                Operation::Statistics(words) => context.report(*words),
                Operation::Administer(what, words) => context.administer(*what, *words),
                _ => unreachable!("nothing else steers"),
            }
        })
    }
}
