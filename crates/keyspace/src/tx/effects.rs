//! What a command changed, as data: handlers say it, `commit` carries it out.
//!
//! Invariant: with no reader of the journal no record is kept, with no listener no event; so a
//! server without log, replicas and subscribers pays two loads per transaction.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use structs::object::Kind;

use crate::keyspace::EventMask;
use crate::settings::Settings;

/// The effects of a transaction so far.
pub struct Effects {
    /// Changes to the data set, as `rdb_changes_since_last_save` counts them.
    changes: u64,
    recorded: bool,
    listened: EventMask,
    propagation: Propagation,
    /// Keys that expired or were evicted under this transaction: logical database and key.
    expired: SmallVec<[(usize, Box<[u8]>); 1]>,
    expired_members: Vec<(usize, Vec<Box<[u8]>>)>,
    events: Vec<Event>,
}

/// What the journal gets for a command that changed something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// The command as the client sent it.
    #[default]
    AsSent,
    /// These commands in its place, each a list of arguments; none for nothing at all.
    Instead(Vec<Vec<Box<[u8]>>>),
}

/// A keyspace event for subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its class, which listeners choose by.
    pub class: EventClass,
    /// Its name, such as `set` or `expired`.
    pub name: &'static str,
    /// The logical database.
    pub database: usize,
    /// The key.
    pub key: Box<[u8]>,
    /// The members that it is about, if it is about some and anyone listens to that.
    pub members: Box<[Box<[u8]>]>,
}

/// Set in a mask if anyone listens to which members of a value an event is about.
pub const MEMBER_EVENTS: EventMask = 1;

/// Classes of keyspace events; the letters are those of `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EventClass {
    /// `g`: DEL, EXPIRE, RENAME and their like.
    Generic = 1 << 2,
    /// `$`: strings.
    String = 1 << 3,
    /// `l`: lists.
    List = 1 << 4,
    /// `s`: sets.
    Set = 1 << 5,
    /// `h`: hashes.
    Hash = 1 << 6,
    /// `z`: sorted sets.
    SortedSet = 1 << 7,
    /// `x`: a key's time was over.
    Expired = 1 << 8,
    /// `e`: a key was evicted.
    Evicted = 1 << 9,
    /// `t`: streams.
    Stream = 1 << 10,
    /// `m`: a key was asked for and absent.
    Missed = 1 << 11,
    /// `n`: a key was created.
    New = 1 << 14,
    /// `o`: a value was overwritten.
    Overwritten = 1 << 15,
    /// `c`: a value changed its type.
    TypeChanged = 1 << 16,
    /// `a`: arrays.
    Array = 1 << 17,
}

impl EventClass {
    /// The class of what happens to values of a type alone.
    pub(super) fn of_kind(kind: Kind) -> Self {
        match kind {
            Kind::String => Self::String,
            Kind::List => Self::List,
            Kind::Set => Self::Set,
            Kind::SortedSet => Self::SortedSet,
            Kind::Hash => Self::Hash,
            Kind::Stream => Self::Stream,
            Kind::Array => Self::Array,
        }
    }
}

impl Effects {
    pub(super) fn new(settings: &Settings, unrecorded: bool) -> Self {
        Self {
            changes: 0,
            recorded: !unrecorded && settings.journal_attached.load(Ordering::Relaxed),
            listened: settings.events.load(Ordering::Relaxed),
            propagation: Propagation::AsSent,
            expired: SmallVec::new(),
            expired_members: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Looks again at which observers the data have.
    pub(super) fn renew_followers(&mut self, settings: &Settings, unrecorded: bool) {
        self.recorded = !unrecorded && settings.journal_attached.load(Ordering::Relaxed);
        self.listened = settings.events.load(Ordering::Relaxed);
    }

    /// Forgets all effects; how many changes there were.
    #[inline]
    pub(super) fn reset(&mut self) -> u64 {
        // Without anybody to tell it nothing else is kept.
        if self.recorded || self.listened != 0 {
            self.propagation = Propagation::AsSent;
            self.expired.clear();
            self.expired_members.clear();
            self.events.clear();
        }
        std::mem::take(&mut self.changes)
    }

    /// Whether the transaction changed anything itself (an expired key it met does not count).
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether anyone reads the journal, so that `instead` is worth encoding.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.recorded
    }

    /// Whether there is anything to tell observers of the data.
    #[must_use]
    pub fn has_followers(&self) -> bool {
        let expired = !self.expired.is_empty() || !self.expired_members.is_empty();
        !self.events.is_empty() || self.recorded && (self.changes > 0 || expired)
    }

    /// What the journal gets.
    #[must_use]
    pub fn propagation(&self) -> &Propagation {
        &self.propagation
    }

    /// The keys that expired or were evicted under the transaction; each is a `DEL` of its own in
    /// the journal.
    #[must_use]
    pub fn expired(&self) -> &[(usize, Box<[u8]>)] {
        &self.expired
    }

    /// The commands that take out members which expired under the transaction, by logical database;
    /// they come after the keys that expired.
    #[must_use]
    pub fn expired_members(&self) -> &[(usize, Vec<Box<[u8]>>)] {
        &self.expired_members
    }

    /// The events, in order.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Counts changes that no `Mutation` saw (FLUSHALL).
    pub fn add_changes(&mut self, changes: u64) {
        self.changes += changes;
    }

    /// Says how many changes the transaction makes so far, where the steps were more than what
    /// clients are told: to rename a key is one change.
    pub fn set_changes(&mut self, changes: u64) {
        self.changes = changes;
    }

    /// Journals `command` in the place of what the client sent; several calls journal several.
    pub fn instead(&mut self, command: &[&[u8]]) {
        if !self.recorded {
            return;
        }
        let command = command.iter().map(|&argument| argument.into()).collect();
        match &mut self.propagation {
            Propagation::Instead(commands) => commands.push(command),
            Propagation::AsSent => self.propagation = Propagation::Instead(vec![command]),
        }
    }

    /// Whether anyone listens to a class of events.
    #[inline]
    pub(super) fn listens(&self, class: EventClass) -> bool {
        self.listened & class as EventMask != 0
    }

    pub(super) fn event(
        &mut self,
        class: EventClass,
        name: &'static str,
        database: usize,
        key: &[u8],
    ) {
        self.member_event(class, name, (database, key), std::iter::empty());
    }

    pub(super) fn member_event<'a>(
        &mut self,
        class: EventClass,
        name: &'static str,
        (database, key): (usize, &[u8]),
        members: impl IntoIterator<Item = &'a [u8]>,
    ) {
        if self.listens(class) {
            let are_told = self.listened & MEMBER_EVENTS != 0;
            let members = members.into_iter().filter(|_| are_told).map(Box::from).collect();
            self.events.push(Event { class, name, database, key: key.into(), members });
        }
    }

    pub(super) fn note_expired(&mut self, database: usize, key: &[u8]) {
        if self.recorded {
            self.expired.push((database, key.into()));
        }
        self.event(EventClass::Expired, "expired", database, key);
    }

    pub(super) fn note_evicted(&mut self, database: usize, key: &[u8]) {
        if self.recorded {
            self.expired.push((database, key.into()));
        }
        self.event(EventClass::Evicted, "evicted", database, key);
    }

    pub(super) fn note_expired_members(
        &mut self,
        database: usize,
        command: &'static str,
        key: &[u8],
        members: &[Vec<u8>],
    ) {
        if self.recorded {
            let members = members.iter().map(Vec::as_slice);
            let words = [command.as_bytes(), key].into_iter().chain(members);
            self.expired_members.push((database, words.map(Box::from).collect()));
        }
    }
}
