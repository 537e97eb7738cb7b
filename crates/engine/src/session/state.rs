//! What a session remembers between requests.
//!
//! Invariant: all of it may move to another worker.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use acl::{DEFAULT_USER, User};
use commands::Role;
use keyspace::Lsn;
use proto::{Reply, Resp};
use smallvec::SmallVec;

use super::importing_slots::ImportingSlots;
use super::memcached::MemcachedState;
use super::multi::MultiState;
use super::pending_input::PendingInput;
use super::replica::ReplicaSession;
use crate::clients::client_id::ClientId;
use crate::clients::registry::{Client, Delivery, Signal, client_flags};
use crate::journal::ReplyLsn;
use crate::observe::pubsub::Subscriptions;
use crate::observe::tracking::{self, TrackingRegistration};
use crate::session::accounts::SessionCaches;
use crate::session::fieldsets::Fieldsets;
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;

/// The state of one client's session.
pub struct Session {
    /// What other threads see of the client.
    pub client: Arc<Client>,
    /// The logical database.
    pub database: usize,
    /// The protocol that HELLO chose.
    pub resp: Resp,
    /// The user that the client says it is. A client that has not said so may do what the default
    /// user may without a password.
    user: Option<Arc<User>>,
    /// What was looked up for its user, once anything was.
    pub(crate) looked_up: Cell<Option<Box<SessionCaches>>>,
    /// To be closed once the replies due have left.
    pub closing: bool,
    /// CLIENT REPLY: whether replies are sent.
    pub reply_mode: ReplyMode,
    /// Whether it asked for the debugger of scripts, which is not there: then none of its scripts
    /// may run on live data.
    pub wants_debugger: bool,
    /// What waits for EXEC, and what is watched.
    pub multi: Option<Box<MultiState>>,
    /// `CLIENT NO-TOUCH`.
    pub no_touch: bool,
    /// What few sessions have.
    pub rare_state: Option<Box<SessionExtras>>,
    /// What it has subscribed to, if to anything.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// What came right before the present command.
    preface: OneShotFlags,
    /// The highest LSN that replies not yet held back have seen.
    seen: Lsn,
    /// Whether one of those replies says that something was written.
    tells_of_write: bool,
    /// What is remembered of a client that speaks memcached's protocols; others speak Redis'.
    pub memcached: Option<Box<MemcachedState>>,
    /// Whether the connection came by the Unix socket or the loopback interface.
    pub is_local: bool,
}

/// What few sessions have.
#[derive(Default)]
pub struct SessionExtras {
    /// What HIMPORT PREPARE has named.
    fieldsets: Fieldsets,
    /// What has come behind the input.
    pub pending_input: PendingInput,
    /// The client's place among those whose copies are tracked, if it has one.
    tracked: Option<Box<TrackingRegistration>>,
    /// What REPLCONF and PSYNC have said.
    replica: Option<Box<ReplicaSession>>,
    /// Whether its first request is one of HTTP, which is answered elsewhere.
    pub(crate) asks_for_http: bool,
    /// How often the present request left its worker, and was put off.
    put_offs: u8,
    /// The hash slots that the client brings from another node.
    pub(super) importing_slots: Option<Arc<dyn ImportingSlots>>,
}

/// Which replies a client wants, as CLIENT REPLY says. Each is a bit of its own: within EXEC one
/// may be said behind the other, and ON takes OFF back but not what is to be skipped next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyMode(u8);

impl ReplyMode {
    const OFF: u8 = 1;
    /// The next command's reply is left out.
    const SKIPS_NEXT: u8 = 2;
    /// This command's reply is left out.
    const SKIPS: u8 = 4;

    pub fn switch_on(&mut self) {
        self.0 &= !(Self::OFF | Self::SKIPS);
    }

    pub fn switch_off(&mut self) {
        self.0 |= Self::OFF;
    }

    /// Leaves the next command's reply out, if replies are wanted at all.
    pub fn skip_next(&mut self) {
        if self.0 & Self::OFF == 0 {
            self.0 |= Self::SKIPS_NEXT;
        }
    }

    /// RESET ends OFF only.
    pub fn reset(&mut self) {
        self.0 &= !Self::OFF;
    }

    /// Whether all replies are wanted: the present one and those that come.
    fn is_on(self) -> bool {
        self.0 == 0
    }

    /// Whether the present command's reply is wanted.
    fn replies(self) -> bool {
        self.0 & (Self::OFF | Self::SKIPS) == 0
    }

    /// A command is over.
    fn advance(&mut self) {
        let skips = if self.0 & Self::SKIPS_NEXT == 0 { 0 } else { Self::SKIPS };
        self.0 = self.0 & Self::OFF | skips;
    }
}

/// What a command before may have said of the present one, a bit each: CLIENT CACHING, ASKING.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OneShotFlags(u8);

impl OneShotFlags {
    const CACHING: u8 = 1;
    const ASKING: u8 = 2;

    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    fn set(&mut self, bit: u8, is_set: bool) {
        self.0 = if is_set { self.0 | bit } else { self.0 & !bit };
    }
}

impl Session {
    /// A session of this user, or of nobody yet.
    pub fn new(client: Arc<Client>, user: Option<Arc<User>>, is_local: bool) -> Self {
        let mut session = Self { is_local, ..Self::blank(client) };
        session.authenticate(user);
        session
    }

    fn blank(client: Arc<Client>) -> Self {
        Self {
            client,
            database: 0,
            resp: Resp::Two,
            user: None,
            looked_up: Cell::default(),
            closing: false,
            reply_mode: ReplyMode::default(),
            wants_debugger: false,
            multi: None,
            no_touch: false,
            rare_state: None,
            subscriptions: None,
            preface: OneShotFlags::default(),
            seen: 0,
            tells_of_write: false,
            memcached: None,
            is_local: false,
        }
    }

    /// All of it, to be taken along; what stays is good for nothing but its client's name.
    pub fn take(&mut self) -> Self {
        let blank = Self::blank(Arc::clone(&self.client));
        std::mem::replace(self, blank)
    }

    /// The client's place among those whose copies are tracked, if it has one.
    #[inline]
    pub fn tracked(&self) -> Option<&TrackingRegistration> {
        self.rare_state.as_ref()?.tracked.as_deref()
    }

    /// The same, to be changed.
    pub fn tracked_mut(&mut self) -> Option<&mut TrackingRegistration> {
        self.rare_state.as_mut()?.tracked.as_deref_mut()
    }

    /// Gives the client such a place.
    pub fn track(&mut self, tracked: Box<TrackingRegistration>) {
        self.rare_state.get_or_insert_default().tracked = Some(tracked);
    }

    /// Takes it away.
    pub fn untrack(&mut self) {
        if let Some(rare_state) = &mut self.rare_state {
            rare_state.tracked = None;
        }
    }

    /// What REPLCONF and PSYNC have said.
    pub fn replica_mut(&mut self) -> &mut ReplicaSession {
        &mut *self.rare_state.get_or_insert_default().replica.get_or_insert_default()
    }

    /// The sync that the client has asked for and that is not seen to, if there is one.
    #[inline]
    pub fn asks_for_sync(&self) -> bool {
        let replica = self.rare_state.as_ref().and_then(|rare_state| rare_state.replica.as_ref());
        replica.is_some_and(|replica| replica.asked.is_some())
    }

    /// Whether its first request is one of HTTP, which is answered elsewhere.
    pub fn asks_for_http(&self) -> bool {
        self.rare_state.as_ref().is_some_and(|rare_state| rare_state.asks_for_http)
    }

    /// What HIMPORT PREPARE has named.
    pub(crate) fn fieldsets(&self) -> &Fieldsets {
        static NONE: Fieldsets = Fieldsets::new();
        self.rare_state.as_ref().map_or(&NONE, |rare_state| &rare_state.fieldsets)
    }

    /// Changes that, and notes what the client has taken by then.
    pub fn change_fieldsets<T>(&mut self, change: impl FnOnce(&mut Fieldsets) -> T) -> T {
        let fieldsets = &mut self.rare_state.get_or_insert_default().fieldsets;
        let result = change(fieldsets);
        self.client.names().held_memory.fieldsets = fieldsets.memory();
        result
    }

    /// Forgets all of that; how many there were.
    pub fn forget_fieldsets(&mut self) -> usize {
        match &self.rare_state {
            Some(_) => self.change_fieldsets(Fieldsets::clear),
            None => 0,
        }
    }

    /// Bytes that have come behind the input, if there are any.
    #[inline]
    pub fn pending_input(&self) -> Option<&PendingInput> {
        self.rare_state
            .as_ref()
            .map(|rare_state| &rare_state.pending_input)
            .filter(|later| !later.is_empty())
    }

    /// Notes what a reply has seen: the reply leaves once the journal is safe up to there.
    #[inline]
    pub fn note_lsn(&mut self, lsn: Lsn) {
        self.seen = self.seen.max(lsn);
    }

    /// As `note_lsn`, of what may be the client's own.
    #[inline]
    pub fn note_reply_lsn(&mut self, seen: ReplyLsn) {
        self.note_lsn(seen.lsn);
        if seen.is_own {
            self.note_write(seen.lsn);
        }
    }

    /// As `note_reply_lsn`, for the reply of a command.
    #[inline]
    pub fn note_reply(&mut self, entry: &CommandEntry, seen: ReplyLsn) {
        self.note_reply_lsn(seen);
        self.tells_of_write |= entry.may_write();
    }

    /// Notes that what the client has written is in the journal up to there, and no further.
    #[inline]
    pub fn note_write(&mut self, lsn: Lsn) {
        // No other thread writes it, nor reads it.
        let last_write = &self.client.live.last_write;
        if lsn > last_write.load(Ordering::Relaxed) {
            last_write.store(lsn, Ordering::Relaxed);
        }
    }

    /// Up to where the journal has what the client has written; 0 where it has written nothing.
    pub fn last_write(&self) -> Lsn {
        self.client.live.last_write.load(Ordering::Relaxed)
    }

    /// What the replies not yet held back have seen, and whether one of them tells of a write.
    #[inline]
    pub fn take_seen(&mut self) -> (Lsn, bool) {
        (std::mem::take(&mut self.seen), std::mem::take(&mut self.tells_of_write))
    }

    /// Ends the session once its replies have left.
    pub fn close(&mut self) {
        self.closing = true;
        self.client.set_flag(client_flags::CLOSING, true);
    }

    /// Turns to another database.
    pub fn select(&mut self, database: usize) {
        self.database = database;
        self.client.live.database.store(database as u32, Ordering::Relaxed);
    }

    /// Changes the protocol of the replies.
    pub fn set_protocol(&mut self, resp: Resp) {
        self.resp = resp;
        self.client.live.resp.store(if resp == Resp::Two { 2 } else { 3 }, Ordering::Relaxed);
    }

    /// Lets the client in as a user, or not any more.
    pub fn authenticate(&mut self, user: Option<Arc<User>>) {
        self.user = user;
        self.client.set_flag(client_flags::UNAUTHENTICATED, self.user.is_none());
        self.looked_up = Cell::default();
        let mut names = self.client.names();
        let name = self.user.as_ref().map_or(DEFAULT_USER, |user| user.name());
        if names.user() != name {
            names.user = Some(name).filter(|name| *name != DEFAULT_USER).map(Box::from);
        }
    }

    /// Whether it has logged in.
    #[inline]
    pub fn is_authenticated(&self) -> bool {
        self.user.is_some()
    }

    /// How often the present request was put off.
    pub(crate) fn put_offs(&self) -> u8 {
        self.rare_state.as_ref().map_or(0, |rare_state| rare_state.put_offs)
    }

    /// The present request is put off.
    pub fn note_put_off(&mut self) {
        let put_offs = &mut self.rare_state.get_or_insert_default().put_offs;
        *put_offs = put_offs.saturating_add(1);
    }

    /// Whether its user may do everything.
    #[inline]
    pub fn may_do_everything(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.is_unlimited())
    }

    /// The user whose rules hold for it; `None` if it has to log in first.
    pub fn effective_user(&self, server: &Shared) -> Option<Arc<User>> {
        let default = || Some(server.access.users.default_user()).filter(|user| user.is_open());
        self.user.clone().or_else(default)
    }

    /// Forgets what was queued and what is watched.
    pub fn end_transaction(&mut self, server: &'static Shared) {
        if let Some(multi) = self.multi.take() {
            multi.end(server);
            self.show_multi();
        }
    }

    /// Shows in CLIENT LIST what is queued and watched.
    pub fn show_multi(&self) {
        MultiState::show(self.multi.as_deref(), &self.client);
    }

    /// Whether EXEC does nothing, as what was watched has changed.
    pub(crate) fn is_watch_broken(&self) -> bool {
        self.multi.as_ref().is_some_and(|multi| multi.is_broken())
    }

    /// Whether commands are queued for EXEC.
    #[inline]
    pub fn is_queueing(&self) -> bool {
        self.multi.as_ref().is_some_and(|multi| multi.is_queueing())
    }

    /// Whether it has subscribed to anything.
    #[inline]
    pub fn is_subscriber(&self) -> bool {
        self.subscriptions.is_some()
    }

    /// Whether others may have messages for it that have a place among its replies.
    #[inline]
    pub fn is_listener(&self) -> bool {
        self.is_subscriber() || self.tracked().is_some()
    }

    /// Whether its commands may run in a batch, one like the other: not queued, and undisturbed.
    #[inline]
    pub fn may_batch(&self) -> bool {
        self.is_undisturbed() && !self.is_queueing()
    }

    /// Whether its commands are treated one like the other: their replies neither left out nor
    /// mixed with messages, and nobody remembers what they read.
    #[inline]
    pub(crate) fn is_undisturbed(&self) -> bool {
        self.reply_mode.is_on() && !self.is_listener() && self.preface == OneShotFlags::default()
    }

    /// Whether all but a few commands are refused: messages and replies look alike in RESP2.
    #[inline]
    pub fn is_resp2_subscriber(&self) -> bool {
        self.is_subscriber() && self.resp == Resp::Two
    }

    /// Ends all subscriptions; messages under way are dropped.
    pub fn unsubscribe_all(&mut self) {
        if self.subscriptions.take().is_some() {
            self.client.take_deliveries();
        }
    }

    /// Passes on what others left for the client.
    pub fn pass_on(&mut self, server: &Shared, reply: &mut Reply<'_>) {
        let deliveries = self.take_deliveries();
        self.pass(server, &deliveries, reply);
    }

    /// Takes what others left for the client.
    pub fn take_deliveries(&self) -> SmallVec<[Delivery; 1]> {
        self.client.take(Signal::Deliver);
        self.client.take_deliveries()
    }

    /// Passes on what was taken.
    pub fn pass(&mut self, server: &Shared, deliveries: &[Delivery], reply: &mut Reply<'_>) {
        if deliveries.is_empty() {
            return;
        }
        let begun = reply.output().appended();
        // A line of MONITOR is a reply, which REPLY OFF leaves out; messages are not.
        let replies = self.replies();
        let is_wanted = |it: &&Arc<[u8]>| replies || it.first() != Some(&b'+');
        for delivery in deliveries {
            match delivery {
                Delivery::Messages(bundle) => {
                    bundle.iter().filter(is_wanted).for_each(|it| reply.message(it));
                }
                Delivery::Notices(notices) => {
                    notices.iter().for_each(|notice| notice.write(reply, self.is_subscriber()));
                }
                Delivery::Rerouted(slots) => self.leave_lost_channels(slots, reply),
            }
        }
        if let Some(tracked) = self.tracked_mut() {
            tracked.unsent.record(begun, reply.output());
        }
        // What others tell may come from any write so far.
        self.note_lsn(server.journal.end());
    }

    /// Whether what the present command writes reaches the client.
    pub fn replies(&self) -> bool {
        self.reply_mode.replies()
    }

    /// Whose copies of what it reads are tracked now: its own or nobody's.
    #[inline]
    pub(crate) fn reader(&self) -> Option<ClientId> {
        let tracked = self.tracked()?;
        tracked.tracker.options.remembers(self.has_caching()).then_some(self.client.id)
    }

    /// Whether it is told of changes to what it reads, remembered or not.
    pub(crate) fn is_told_of_changes(&self) -> bool {
        let options = self.tracked().map(|tracked| &tracked.tracker.options);
        options.is_some_and(|options| options.remembers(self.has_caching()) || options.broadcasts())
    }

    /// As `reader`, for one command.
    #[inline]
    pub(crate) fn reader_of(&self, entry: &CommandEntry) -> Option<ClientId> {
        tracking::reader_of(self.reader(), entry)
    }

    /// Called after each command, with it if it ran: moves SKIP on, forgets how often the command
    /// was put off, and CLIENT CACHING unless the command to which it is to apply is still to come.
    pub fn command_done(&mut self, ran: Option<&CommandEntry>) {
        if self.preface != OneShotFlags::default() && !self.is_queueing() {
            match ran.map(|entry| entry.spec.role) {
                Some(Role::Client) => self.set_asking(false),
                Some(Role::Asking) => self.set_caching(false),
                _ => self.preface = OneShotFlags::default(),
            }
        }
        if let Some(rare_state) = &mut self.rare_state {
            rare_state.put_offs = 0;
        }
        self.reply_mode.advance();
    }

    /// Whether CLIENT CACHING came right before the present command.
    pub fn has_caching(&self) -> bool {
        self.preface.has(OneShotFlags::CACHING)
    }

    /// CLIENT CACHING, or its end.
    pub fn set_caching(&mut self, is_set: bool) {
        self.preface.set(OneShotFlags::CACHING, is_set);
    }

    /// Whether ASKING came right before the present command, or before its transaction.
    pub fn is_asking(&self) -> bool {
        self.preface.has(OneShotFlags::ASKING)
    }

    /// ASKING, or its end.
    pub fn set_asking(&mut self, is_set: bool) {
        self.preface.set(OneShotFlags::ASKING, is_set);
    }
}
