//! Putting loaded entries in their places, a few at a time.
//!
//! Invariant: nothing that happens here is a change that anybody is told of.

use std::time::Duration;

use base::time::UnixMillis;
use keyspace::{AccessClock, EntryBox, Keyspace, Location, Tx, TxOptions};
use persist::rdb::file::{Access, Batch, BuiltEntry, Damage, FileError};
use persist::rdb::value::Limits;

use crate::durability::Durability;

/// Entries whose places are fetched from memory together.
const GROUP: usize = 16;

/// How long a thread waits for a world operation to pass before it looks again.
const PAUSE: Duration = Duration::from_micros(50);

/// What became of entries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Keys that are there now.
    pub(crate) keys: u64,
    /// Keys whose time was over.
    pub(crate) expired: u64,
}

/// What becomes of a key that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDuplicate {
    /// The file is refused.
    Refused,
    /// The key that is there is replaced.
    Replaced,
}

/// What becomes of a key whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnExpired {
    /// The key is left out, and counted.
    Dropped,
    /// The key is there until an expiry meets it: replicas or a log have it, and are told of its
    /// end by that.
    Kept,
}

/// Which data a snapshot becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadPlace {
    /// Those that are served.
    Here,
    /// Those that are put together beside them.
    Shadow,
}

/// Where one thread puts entries.
pub(super) struct Inserter<'t> {
    server: &'static Durability,
    place: LoadPlace,
    on_duplicate: OnDuplicate,
    right: InsertRight<'t>,
    limits: Limits,
    counts: Counts,
    group: Vec<LoadedEntry>,
}

/// By what right.
enum InsertRight<'t> {
    /// As others only load meanwhile, under the lock of each key, on this lane.
    Lane(usize),
    /// The load has the world.
    World(&'t mut Tx),
}

/// An entry and where it belongs.
struct LoadedEntry {
    entry: EntryBox,
    location: Location,
    database: usize,
    /// Where in the file it came from.
    offset: u64,
}

impl<'t> Inserter<'t> {
    /// For the thread that a lane was given to.
    pub(super) fn new(
        server: &'static Durability,
        lane: usize,
        on_duplicate: OnDuplicate,
        place: LoadPlace,
    ) -> Self {
        Self { place, ..Self::on(server, on_duplicate, InsertRight::Lane(lane)) }
    }

    /// For a transaction that has the world.
    pub(super) fn within(
        server: &'static Durability,
        on_duplicate: OnDuplicate,
        tx: &'t mut Tx,
    ) -> Self {
        Self::on(server, on_duplicate, InsertRight::World(tx))
    }

    fn on(server: &'static Durability, on_duplicate: OnDuplicate, right: InsertRight<'t>) -> Self {
        let limits = Limits::from(&server.keyspace.settings().containers);
        let group = Vec::with_capacity(GROUP);
        Self {
            server,
            place: LoadPlace::Here,
            on_duplicate,
            right,
            limits,
            counts: Counts::default(),
            group,
        }
    }

    /// What was done so far.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Places the entries of a batch.
    pub(super) fn place_batch(
        &mut self,
        batch: &Batch,
        on_expired: OnExpired,
    ) -> Result<(), FileError> {
        let keyspace = self.server.keyspace;
        let now = keyspace.clock().now_ms();
        let clock = AccessClock::new(keyspace.settings(), now);
        for raw in batch.entries() {
            let raw = raw?;
            if self.is_left_out(raw.deadline, now, on_expired) {
                continue;
            }
            let entry = raw.decode(&self.limits)?;
            let made = BuiltEntry {
                offset: raw.offset,
                database: raw.database,
                access: raw.access,
                entry,
            };
            let loaded = self.locate(made, &clock)?;
            self.group.push(loaded);
            if self.group.len() == GROUP {
                self.insert_group(now)?;
            }
        }
        self.insert_group(now)
    }

    /// Places an entry.
    pub(super) fn place_made(
        &mut self,
        made: BuiltEntry,
        on_expired: OnExpired,
    ) -> Result<(), FileError> {
        let keyspace = self.server.keyspace;
        let now = keyspace.clock().now_ms();
        if self.is_left_out(made.entry.borrow().deadline(), now, on_expired) {
            return Ok(());
        }
        let loaded = self.locate(made, &AccessClock::new(keyspace.settings(), now))?;
        self.group.push(loaded);
        self.insert_group(now)
    }

    /// Whether an entry is left out as its time is over, which is counted.
    fn is_left_out(
        &mut self,
        deadline: Option<UnixMillis>,
        now: UnixMillis,
        on_expired: OnExpired,
    ) -> bool {
        let is_over = deadline.is_some_and(|deadline| deadline < now);
        let is_left_out = is_over && on_expired == OnExpired::Dropped;
        self.counts.expired += u64::from(is_left_out);
        is_left_out
    }

    /// Finds out where an entry belongs.
    fn locate(&self, made: BuiltEntry, clock: &AccessClock) -> Result<LoadedEntry, FileError> {
        let keyspace = self.server.keyspace;
        let BuiltEntry { offset, database, access, mut entry } = made;
        let unknown = || FileError::at(offset, Damage::Database(database));
        let database = usize::try_from(database).map_err(|_| unknown())?;
        if database >= keyspace.database_count() {
            return Err(unknown());
        }
        let database = match self.place {
            LoadPlace::Here => database,
            LoadPlace::Shadow => keyspace.shadow(database),
        };
        entry.set_access_clock(match access {
            Access::Frequency(frequency) if clock.by_frequency() => clock.with_frequency(frequency),
            Access::Idle(seconds) if !clock.by_frequency() => clock.with_idle_seconds(seconds),
            _ => clock.fresh(),
        });
        let location = keyspace.locate(entry.borrow().key());
        Ok(LoadedEntry { entry, location, database, offset })
    }

    /// Puts the entries at hand in their places.
    fn insert_group(&mut self, now: UnixMillis) -> Result<(), FileError> {
        let keyspace = self.server.keyspace;
        let Some(first) = self.group.first() else { return Ok(()) };
        let lane = match &mut self.right {
            InsertRight::Lane(lane) => *lane,
            InsertRight::World(tx) => {
                for loaded in self.group.drain(..) {
                    loaded.put(tx, self.on_duplicate)?;
                    self.counts.keys += 1;
                }
                return Ok(());
            }
        };
        let _guard = TurnstileGuard::enter(keyspace, lane);
        let locations: Vec<Location> = self.group.iter().map(|loaded| loaded.location).collect();
        // Where the database changes within a group, some of this is in vain.
        keyspace.prefetch(lane, &locations, first.database);
        for loaded in self.group.drain(..) {
            let grant = loop {
                match keyspace.try_acquire(loaded.location.partition()) {
                    Some(grant) => break grant,
                    None => std::thread::yield_now(),
                }
            };
            let options = TxOptions { heavy: true, ..TxOptions::internal(lane, now) };
            let mut tx = Tx::begin(grant, options);
            let placed = loaded.put(&mut tx, self.on_duplicate);
            // The file has it.
            tx.seal();
            placed?;
            self.counts.keys += 1;
        }
        Ok(())
    }
}

impl LoadedEntry {
    /// Puts the entry where it belongs, which is granted.
    fn put(self, tx: &mut Tx, on_duplicate: OnDuplicate) -> Result<(), FileError> {
        let Self { entry, location, database, offset } = self;
        tx.switch_database(database);
        tx.hint(entry.borrow().key(), location);
        const HELD: &str = "the partition of the key is held";
        match on_duplicate {
            OnDuplicate::Replaced => tx.load_over(entry).expect(HELD),
            OnDuplicate::Refused if tx.load(entry).expect(HELD) => {}
            OnDuplicate::Refused => return Err(FileError::at(offset, Damage::Twice)),
        }
        // The bytes of the next one may lie where these lay.
        tx.forget_hint();
        Ok(())
    }
}

/// A stay inside a turnstile.
pub struct TurnstileGuard {
    keyspace: &'static Keyspace,
    lane: usize,
}

impl TurnstileGuard {
    /// Waits until the world is nobody's, and enters.
    pub(crate) fn enter(keyspace: &'static Keyspace, lane: usize) -> Self {
        while !keyspace.enter(lane) {
            std::thread::sleep(PAUSE);
        }
        Self { keyspace, lane }
    }
}

impl Drop for TurnstileGuard {
    fn drop(&mut self) {
        self.keyspace.leave(self.lane);
    }
}
