//! What memcached's requests say of themselves to the executor, and have done there.
//!
//! Invariant: what a request counts and tells is booked once, when it is final and its locks are
//! given back; an attempt that is begun again begins with nothing.

use config::settings::MEMCACHED_ITEM_SIZE_MAX;
use engine::admission::acl_check;
use engine::commit::handler::CommandBody;
use engine::execute::ForeignBody;
use engine::lane::Lane;
use engine::session::{Session, SteppedWork};
use engine::table::command_table::CommandEntry;
use keyspace::{Location, Refusal, Tx};
use proto::memcached::{Form, KEY_LENGTH_MAX, Operation, Request, Response, answer};
use proto::{Output, OwnedArgs};

use super::command_map::{self, CommandKind, keys_of};
use super::counters::{Counter, RequestCounters};
use super::details::PendingDetails;
use super::events::Events;
use super::items::Work;
use super::{MemcachedServer, failure_of, multiget, plain_key};

/// What a request counts and tells, before it is final.
pub(super) struct PendingStats {
    pub(super) counters: RequestCounters,
    pub(super) events: Events,
    pub(super) details: PendingDetails,
}

/// A request, for the executor.
pub(super) struct RequestBody<'a> {
    server: &'static MemcachedServer,
    /// The number of its worker's lane.
    lane: usize,
    request: &'a Request<'a>,
    /// Its key and where that belongs, if it has just one, which stands there as it is.
    only_key: Option<(&'a [u8], Location)>,
    /// Whether more keys of its request come behind it.
    is_part: bool,
    /// What the last attempt came to.
    told: PendingStats,
    has_run: bool,
}

impl<'a> RequestBody<'a> {
    /// `location` is where its key belongs, if it has just one, which stands there as it is.
    #[inline]
    pub(super) fn new(
        server: &'static MemcachedServer,
        lane: &Lane,
        session: &Session,
        request: &'a Request<'a>,
        location: Option<Location>,
    ) -> Self {
        let (lane, is_part, has_run) = (lane.number, false, false);
        let only_key = location.and_then(|it| Some((plain_key(&request.operation)?.text(), it)));
        // As in memcached, meta commands are not counted by their prefixes.
        let details = match request.form {
            Form::Meta(_) => PendingDetails::default(),
            _ => server.memcached.details.begin(),
        };
        let (watched, descriptor) =
            (server.memcached.watchers.watched(), session.client.descriptor);
        let events = Events::of(watched, descriptor);
        let told = PendingStats { counters: RequestCounters::default(), events, details };
        Self { server, lane, request, only_key, is_part, told, has_run }
    }

    /// As one key of several, which come behind it.
    pub(super) fn into_part(self) -> Self {
        Self { is_part: true, ..self }
    }

    /// Whether the request was run and is final.
    pub(super) fn has_run(&self) -> bool {
        self.has_run
    }

    fn deny_one(&self, session: &Session, entry: &'static CommandEntry) -> Option<Refusal> {
        let (server, name) = (self.server, entry.spec.name.as_bytes());
        let mut buffer = [0; KEY_LENGTH_MAX];
        let mut is_alone = true;
        for key in keys_of(&self.request.operation) {
            is_alone = false;
            let args: OwnedArgs = [name, key.bytes(&mut buffer)].into_iter().collect();
            let refusal = acl_check::refuse(server, session, entry, args.as_args());
            if refusal.is_some() {
                return refusal;
            }
        }
        let args: OwnedArgs = [name].into_iter().collect();
        is_alone.then(|| acl_check::refuse(server, session, entry, args.as_args())).flatten()
    }
}

impl CommandBody for RequestBody<'_> {
    #[inline]
    fn run(&mut self, tx: &mut Tx, out: &mut Output) -> Result<(), Refusal> {
        // One that is begun again has a body of its own.
        debug_assert!(self.told.counters.is_empty(), "a request is run once");
        let (request, is_part, told) = (self.request, self.is_part, &mut self.told);
        let size_max = self.server.config.get(MEMCACHED_ITEM_SIZE_MAX);
        Work { tx, request, out, told, size_max, is_part }.run()
    }

    #[cold]
    fn refuse(&mut self, refusal: &Refusal, out: &mut Output) {
        let failure = failure_of(refusal);
        self.server.memcached.count_failure(self.lane, failure);
        answer(out, self.request, Response::Failed(failure));
    }
}

impl ForeignBody for RequestBody<'_> {
    /// Each key is looked at as if it had come alone.
    #[cold]
    fn deny(&self, session: &Session, entry: &'static CommandEntry) -> Option<Refusal> {
        // What would be made is told if it is there.
        let tells =
            matches!(&self.request.operation, Operation::Retrieve(it) if it.vivify.is_some());
        let told =
            self.server.memcached.commands(self.server).entry(CommandKind::Get).filter(|_| tells);
        let mut entries = told.into_iter().chain([entry]);
        entries.find_map(|entry| self.deny_one(session, entry))
    }

    #[inline]
    fn room(&self) -> usize {
        command_map::room_for(&self.request.operation)
    }

    #[inline]
    fn only_key(&self) -> Option<(&[u8], Location)> {
        self.only_key
    }

    fn visit_keys(&self, mut visit: impl FnMut(&[u8], bool)) {
        let mut buffer = [0; KEY_LENGTH_MAX];
        keys_of(&self.request.operation)
            .for_each(|key| visit(key.bytes(&mut buffer), key.is_plain()));
    }

    #[inline]
    fn in_steps(&self, entry: &'static CommandEntry) -> Option<Box<dyn SteppedWork>> {
        if self.only_key.is_some() {
            return None;
        }
        multiget::in_steps(self.server, self.request, entry)
    }

    #[inline]
    fn extent(&self) -> usize {
        command_map::extent(&self.request.operation)
    }

    #[cold]
    fn words(&self) -> OwnedArgs {
        command_map::words(self.request)
    }

    #[inline]
    fn finish(&mut self, lane: &Lane) {
        let (server, memcached) = (self.server, &self.server.memcached);
        let told = &mut self.told;
        self.has_run = true;
        memcached.counters.add(lane.number, &told.counters);
        memcached.details.add(std::mem::take(&mut told.details));
        if matches!(self.request.form, Form::Meta(_)) {
            memcached.count(lane, Counter::CmdMeta);
        }
        for (class, what) in told.events.lines() {
            let now_us = server.keyspace.clock().now_us();
            memcached.watchers.notify(server.outbox(&lane.wakes), now_us, class, what);
        }
    }
}
