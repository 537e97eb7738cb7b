//! The transaction: the only way to data.
//!
//! A `Tx` is begun with the partitions it was granted, runs one command (or one whole EXEC or
//! script) at one fixed time, and gathers what the command changed as data: effects for the
//! journal, events for listeners, statistics. `finish` removes what reading left behind; then the
//! server commits the effects while the locks are still held, and dropping the `Tx` gives them
//! back.
//!
//! Invariants:
//! - nothing outside the grant is reached: `Refusal::Widen` comes back, and `widen` undoes what was
//!   done and names the union to lock;
//! - an expired key is absent for every method here, and removed as an effect of its own;
//! - every change passes `Mutation::before_change`.

mod budget;
mod container;
mod effects;
mod evict;
mod item;
mod modified;
mod mutation;
mod read;
mod read_phase;
mod sweep;
mod text;
mod undo;
mod waiting;
mod widening;
mod world;
mod write;

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;

use base::time::UnixMillis;
use smallvec::SmallVec;

pub use container::ContainerOutcome;
pub use effects::{Effects, Event, EventClass, MEMBER_EVENTS, Propagation};
pub use evict::{Evicted, EvictionNeed, EvictionOrder, EvictionPolicy, EvictionSample};
pub use read_phase::ReadPhaseResult;
pub use sweep::Swept;
pub use undo::UndoPoint;
pub(crate) use waiting::in_grant;
pub use widening::CommandStart;
use widening::Widening;
pub use write::Lifetime;

use crate::clock::AccessClock;
use crate::counters::{Count, LaneCounters};
use crate::entry::EntryRef;
use crate::keyspace::{Keyspace, Location};
use crate::located::LocatedKeys;
use crate::lock::acquisition::{Acquisition, PartitionSet};
use crate::lock::partition::{Lsn, PartitionIndex};
use crate::refusal::Refusal;
use crate::waiting::{NamedKey, ReadyKeys};
use modified::ModifiedKeys;
use mutation::{Mutation, MutationSummary};
use read_phase::TxPhase;
use undo::UndoLog;

/// How a transaction is begun.
#[derive(Clone, Copy, Debug)]
pub struct TxOptions {
    /// Which lane's counters it writes: the one of the thread that runs it.
    pub lane: usize,
    /// The logical database of its client.
    pub database: usize,
    /// The time for the whole transaction.
    pub now: UnixMillis,
    /// The same in microseconds, for TIME; this time may be a little later, where several programs
    /// share a transaction.
    pub now_us: i64,
    /// Whether keys whose time is over are there as any other: for the server that says when they
    /// go.
    pub sees_expired: bool,
    /// Whether what it reads and changes counts as used (`CLIENT NO-TOUCH` clears it).
    pub touches: bool,
    /// Whether the transaction may meet undeclared keys, so that what it does must be undoable.
    pub undoable: bool,
    /// Whether the transaction runs where nobody waits for the thread.
    pub heavy: bool,
    /// Whether the waiters that it makes ready are served within the budget of its worker: where
    /// that is too little, all of it begins again on a heavy-work thread.
    pub serves_within_budget: bool,
    /// Whether the transaction makes no record: the journal gets what it does from its caller.
    pub unrecorded: bool,
    /// Whom the transaction is for, by a number that means nothing here; 0 if nobody asked for it.
    pub origin: u64,
}

impl TxOptions {
    /// Those of a transaction that no client asked for, in the first database.
    #[must_use]
    pub const fn internal(lane: usize, now: UnixMillis) -> Self {
        Self {
            lane,
            database: 0,
            now,
            now_us: now * 1000,
            sees_expired: false,
            touches: false,
            undoable: false,
            heavy: false,
            serves_within_budget: false,
            unrecorded: false,
            origin: 0,
        }
    }
}

impl TxOptions {
    /// The access clock of an entry that is changed: a use, unless the client's are none.
    #[inline]
    fn renewed(self, access: &AccessClock, clock: u32) -> u32 {
        if self.touches { access.accessed(clock) } else { clock }
    }
}

/// A running transaction.
pub struct Tx {
    grant: Acquisition,
    keyspace: &'static Keyspace,
    options: TxOptions,
    physical: usize,
    access: AccessClock,
    effects: Effects,
    undo: Option<UndoLog>,
    /// Expired keys that reads came across; removed by `finish`.
    stale: RefCell<SmallVec<[NamedKey; 1]>>,
    /// Keys that reads did not find, where somebody listens; they become events before the next.
    missed: RefCell<Vec<Missed>>,
    counted: LookupCounters,
    /// What was needed and not granted.
    beyond: RefCell<Widening>,
    /// The highest LSN in partitions that were visited and left again, and of what was seen beside
    /// the data.
    visited: Lsn,
    /// Keys that somebody waits for and that came, changed or went.
    ready: ReadyKeys,
    /// Keys that were modified, where anybody observes that.
    modified: ModifiedKeys,
    /// A key that was located before: address and length of its bytes, and where it belongs.
    hint: (usize, usize, Location),
    /// All keys of the request, if they were located before.
    located: LocatedKeys,
    /// Whether what runs now was called by a script.
    is_for_script: bool,
    made: MutationSummary,
    /// Whether a client has everything removed by it.
    has_flushed_all: bool,
    /// Where the transaction computes without its locks, or did.
    phase: Option<Box<TxPhase>>,
}

/// A key that a read did not find.
#[derive(Debug)]
struct Missed {
    /// How many expired keys had been met by then, this one included.
    behind: usize,
    key: NamedKey,
}

/// What a transaction looked up so far; booked when it is concluded, so that a round that was
/// undone does not count.
#[derive(Clone, Debug, Default)]
pub(crate) struct LookupCounters {
    hits: Cell<u64>,
    misses: Cell<u64>,
    expired: Cell<u64>,
    expired_unread: Cell<u64>,
    evicted: Cell<u64>,
    expired_members: Cell<u64>,
}

impl LookupCounters {
    /// Keys and members that went though no command said so.
    fn expired_count(&self) -> u64 {
        self.expired.get() + self.expired_members.get() + self.evicted.get()
    }
}

impl Tx {
    /// Begins a transaction; everything the acquisition wants must be held, and the thread be
    /// inside its turnstile unless that is the world.
    #[inline]
    #[must_use]
    pub fn begin(grant: Acquisition, options: TxOptions) -> Self {
        debug_assert!(grant.is_complete(), "a transaction begins with its locks");
        let keyspace = grant.keyspace();
        debug_assert!(
            grant.wants_world() || !keyspace.world().is_granted(),
            "a transaction begins inside a turnstile"
        );
        Self::with_grant(grant, options)
    }

    #[inline]
    fn with_grant(grant: Acquisition, options: TxOptions) -> Self {
        let keyspace = grant.keyspace();
        // Serving a waiter may need partitions that nobody named.
        let has_waiters = in_grant(keyspace, &grant);
        Self {
            grant,
            keyspace,
            options,
            physical: keyspace.physical(options.database),
            access: AccessClock::new(keyspace.settings(), options.now).with_history(keyspace),
            effects: Effects::new(keyspace.settings(), options.unrecorded),
            undo: (options.undoable || has_waiters).then(UndoLog::default),
            stale: RefCell::default(),
            missed: RefCell::default(),
            counted: LookupCounters::default(),
            beyond: RefCell::default(),
            visited: 0,
            ready: ReadyKeys::default(),
            modified: ModifiedKeys::begin(keyspace),
            hint: (0, 0, Location::new(0, 0)),
            located: LocatedKeys::default(),
            is_for_script: false,
            made: MutationSummary::default(),
            has_flushed_all: false,
            phase: None,
        }
    }

    /// Saves hashing a key again: these very bytes, which stay as they are while the command runs,
    /// were located before.
    #[inline]
    pub fn hint(&mut self, key: &[u8], location: Location) {
        debug_assert_eq!(location, self.keyspace.locate(key));
        self.hint = (key.as_ptr().addr(), key.len(), location);
    }

    /// The same for all keys of the request.
    #[inline]
    pub fn set_located(&mut self, located: LocatedKeys) {
        self.located = located;
    }

    /// Where these very bytes belong, if that is what was last hinted at, or was located before.
    #[inline]
    #[must_use]
    pub fn hinted(&self, key: &[u8]) -> Option<Location> {
        let (address, len, location) = self.hint;
        if key.as_ptr().addr() == address && key.len() == len {
            return Some(location);
        }
        self.located.of(key)
    }

    /// Where a key belongs.
    #[inline]
    #[must_use]
    pub fn location_of(&self, key: &[u8]) -> Location {
        let location = self.hinted(key).unwrap_or_else(|| self.keyspace.locate(key));
        debug_assert_eq!(location, self.keyspace.locate(key));
        location
    }

    /// The bytes that were hinted at are others now.
    #[inline]
    pub fn forget_hint(&mut self) {
        self.hint.0 = 0;
    }

    /// The transaction's time, fixed when its locks were granted.
    #[must_use]
    pub fn now(&self) -> UnixMillis {
        self.options.now
    }

    /// The time that TIME tells of, in microseconds: one for each program.
    #[must_use]
    pub fn now_us(&self) -> i64 {
        self.options.now_us
    }

    /// Another program begins, at this time.
    pub fn begin_program(&mut self, now_us: i64) {
        self.options.now_us = now_us;
    }

    /// Whether what runs now was called by a script, which is to see nothing that depends on how
    /// things happen to lie.
    #[must_use]
    pub fn is_for_script(&self) -> bool {
        self.is_for_script
    }

    /// What runs from here on is called by a script, or is not any more.
    pub fn set_for_script(&mut self, is_for_script: bool) {
        self.is_for_script = is_for_script;
    }

    /// Whether a key is absent because its time is over.
    #[inline]
    #[must_use]
    pub fn is_over(&self, entry: EntryRef<'_>) -> bool {
        entry.is_expired(self.options.now) && !self.options.sees_expired
    }

    /// Members with deadlines up to here are absent: the present, or before all time where expired
    /// ones are seen.
    #[inline]
    #[must_use]
    pub fn expired_until(&self) -> UnixMillis {
        if self.options.sees_expired { UnixMillis::MIN } else { self.options.now }
    }

    /// Whether what runs was accepted once: a log is run again, or a primary says it. Such a
    /// transaction sees what is over, as no other one of a replica does.
    #[must_use]
    pub fn replays(&self) -> bool {
        let settings = self.keyspace.settings();
        let is_led = self.options.sees_expired && settings.follows.load(Ordering::Relaxed);
        settings.replays() || is_led
    }

    /// Whether a deadline that is set now removes the key instead: not where another server says
    /// when keys go.
    #[must_use]
    pub fn is_over_at(&self, deadline: UnixMillis) -> bool {
        let is_led = self.options.sees_expired || self.keyspace.settings().suspends_expiry();
        deadline <= self.options.now && !is_led
    }

    /// The logical database that keys are looked up in.
    #[must_use]
    pub fn database(&self) -> usize {
        self.options.database
    }

    /// How the transaction was begun, for beginning it again.
    #[must_use]
    pub fn options(&self) -> TxOptions {
        self.options
    }

    /// Looks keys up in another logical database from now on; returns the one before.
    pub fn switch_database(&mut self, logical: usize) -> usize {
        debug_assert!(logical < self.keyspace.databases().count_all());
        self.physical = self.keyspace.physical(logical);
        std::mem::replace(&mut self.options.database, logical)
    }

    /// The keyspace, for what needs no lock: counts, settings, the clock.
    #[must_use]
    pub fn keyspace(&self) -> &'static Keyspace {
        self.keyspace
    }

    /// What the transaction does from here on is its own, and recorded where anybody reads that.
    pub fn record_from_now(&mut self) {
        self.options.unrecorded = false;
        self.effects.renew_followers(self.keyspace.settings(), false);
    }

    /// Reads again what may be another since the transaction began, where it has given locks back
    /// or its own commands change it: whether walks and watches follow the data, and which
    /// database has which name.
    pub fn refresh_views(&mut self) {
        self.effects.renew_followers(self.keyspace.settings(), self.options.unrecorded);
        self.modified.refresh_observed(self.keyspace);
        self.physical = self.keyspace.physical(self.options.database);
    }

    /// Whether the transaction has changed anything that is not final.
    #[must_use]
    pub fn is_touched(&self) -> bool {
        self.made.touched
    }

    /// The partitions that it was granted; none if it has the world.
    #[must_use]
    pub fn partitions(&self) -> &[PartitionIndex] {
        self.grant.partitions()
    }

    /// Whether the transaction has the whole keyspace for itself.
    #[must_use]
    pub fn has_world(&self) -> bool {
        self.grant.wants_world()
    }

    /// Marks the transaction as running on a heavy-work thread with a lane of its own.
    pub fn move_to_heavy(&mut self, lane: usize) {
        self.move_to(lane, true);
    }

    /// Marks the transaction as running on a worker, which its heavy work is to leave again.
    pub fn move_to_worker(&mut self, lane: usize) {
        self.move_to(lane, false);
    }

    fn move_to(&mut self, lane: usize, is_heavy: bool) {
        self.options.heavy = is_heavy;
        // The arguments moved too: other bytes may lie where the key lay.
        self.forget_hint();
        self.located.clear();
        self.options.lane = lane;
    }

    /// Removes the expired keys that reads met and counts what happened. Called once, after the
    /// command ran.
    #[inline]
    pub fn finish(&mut self) {
        self.finish_command();
        self.count_final_changes(self.effects.changes());
    }

    /// Removes the expired keys that reads met. Called after each command; where there are
    /// several, `take_effects` follows.
    #[inline]
    pub fn finish_command(&mut self) {
        self.report_met();
        if self.has_modified() {
            self.drop_unmodified();
        }
    }

    /// Makes ready for another command, which has nothing to do with those before: they are
    /// concluded, and what they changed is told and cannot be undone any more.
    #[inline]
    pub fn renew(&mut self) {
        self.seal();
        self.effects.reset();
        self.modified.forget();
    }

    /// What a command changed, for a transaction of several, each of which propagates in its own
    /// way. The changes are counted when nothing can undo them any more.
    pub fn take_effects(&mut self) -> Effects {
        let fresh = Effects::new(self.keyspace.settings(), self.options.unrecorded);
        std::mem::replace(&mut self.effects, fresh)
    }

    /// As `take_effects`, where nobody is to be told of them: how many changes there were.
    #[inline]
    pub fn forget_effects(&mut self) -> u64 {
        debug_assert!(!self.effects.has_followers(), "who follows the data is told");
        self.effects.reset()
    }

    /// Counts changes that are final, and with them the lookups that led to them.
    #[inline]
    pub fn count_final_changes(&mut self, changes: u64) {
        let LookupCounters { hits, misses, expired, expired_unread, evicted, expired_members } =
            std::mem::take(&mut self.counted);
        for (count, number) in [
            (Count::Hits, hits.get()),
            (Count::Misses, misses.get()),
            (Count::Expired, expired.get()),
            (Count::ExpiredUnread, expired_unread.get()),
            (Count::Evicted, evicted.get()),
            (Count::ExpiredMembers, expired_members.get()),
            (Count::Changes, changes),
        ] {
            if number > 0 {
                self.counters().count(count, number as i64);
            }
        }
    }

    /// Settles what reads met so far, before anything is said of what came behind them.
    #[inline]
    fn report_met(&mut self) {
        if !self.stale.get_mut().is_empty() || !self.missed.get_mut().is_empty() {
            self.notify_met();
        }
    }

    /// Removes the expired keys that reads met and tells of those that they did not find, in the
    /// order of the reads.
    #[cold]
    fn notify_met(&mut self) {
        let (stale, missed) = (self.stale.take(), self.missed.take());
        let mut stale = stale.into_iter().enumerate().peekable();
        for Missed { behind, key: (database, key) } in missed {
            while let Some((_, key)) = stale.next_if(|(index, _)| *index < behind) {
                self.collect(key);
            }
            self.effects.event(EventClass::Missed, "keymiss", database, &key);
        }
        stale.for_each(|(_, key)| self.collect(key));
    }

    fn collect(&mut self, (logical, key): NamedKey) {
        let home = self.switch_database(logical);
        self.expire_if_due(&key).expect("the key was read, so its partition is granted");
        self.switch_database(home);
    }

    /// What the transaction changed so far.
    #[must_use]
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// What the transaction changed so far, to be added to.
    pub fn effects_mut(&mut self) -> &mut Effects {
        &mut self.effects
    }

    /// The highest LSN that any granted partition, now or before a `visit`, was last written at:
    /// what a reply made here must wait for before it leaves.
    #[must_use]
    pub fn observed_lsn(&self) -> Lsn {
        if self.has_world() {
            return self.seen_by_world().max(self.visited);
        }
        self.grant.each_held().map(|content| content.last_write).fold(self.visited, Lsn::max)
    }

    /// Notes an LSN that the reply has seen beside the data, and waits for as well.
    pub fn note_lsn(&mut self, lsn: Lsn) {
        self.visited = self.visited.max(lsn);
    }

    /// Notes that the reply shows what no lock was held for: the reply waits for all that was
    /// written.
    pub fn note_journal_end(&mut self) {
        self.note_lsn(self.keyspace.journal_end());
    }

    /// Notes the LSN of this transaction's own record in all its partitions.
    pub fn stamp_lsn(&mut self, lsn: Lsn) {
        if self.has_world() {
            return self.stamp_world(lsn);
        }
        self.grant.for_each_held(|content| content.last_write = lsn);
    }

    /// Says that the locks will be held for long. `false` if another transaction was kept from
    /// some of them for long and is to have them first: then this one is to `defer`, unless it has
    /// changed something.
    #[must_use]
    pub fn prolong(&mut self) -> bool {
        self.grant.prolong()
    }

    /// Gives its locks back, having changed nothing, and names what to lock for another attempt:
    /// the same, behind transactions that were kept from it for long.
    #[must_use]
    pub fn defer(mut self) -> Acquisition {
        debug_assert!(!self.made.touched, "others would see half of it");
        let nothing = Acquisition::of_partitions(self.keyspace, PartitionSet::new());
        let mut grant = std::mem::replace(&mut self.grant, nothing);
        grant.defer();
        grant
    }

    /// Where a key belongs, if the transaction may touch it.
    #[inline]
    fn locate(&self, key: &[u8]) -> Location {
        self.location_of(key)
    }

    /// Opens a granted partition's table for a change.
    #[inline]
    fn mutation(&mut self, location: Location) -> Result<Mutation<'_>, Refusal> {
        if self.grant.content(location.partition()).is_none() {
            return Err(self.refuse_beyond(location.partition()));
        }
        let (mutation, _) = self.mutation_and_clock(location).expect("just looked");
        Ok(mutation)
    }

    /// As `mutation`, with the access clock beside it; `None` if the partition is not granted.
    // Built in place: to read it back in larger pieces than it was written in waits for the stores.
    #[inline(always)]
    fn mutation_and_clock(&mut self, location: Location) -> Option<(Mutation<'_>, &AccessClock)> {
        let (partition, position) = (location.partition(), location.position());
        let mutation = Mutation {
            content: self.grant.content_mut(partition)?,
            keyspace: self.keyspace,
            lane: self.keyspace.lane(self.options.lane),
            partition,
            position,
            physical: self.physical,
            undo: self.undo.as_mut(),
            logical: self.options.database,
            ready: &mut self.ready,
            modified: self.modified.notes(),
            made: &mut self.made,
        };
        Some((mutation, &self.access))
    }

    fn counters(&self) -> &LaneCounters {
        self.keyspace.lane(self.options.lane)
    }
}
