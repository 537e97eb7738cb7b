//! Putting loaded entries in their places, a few at a time.
//!
//! Invariant: nothing that happens here is a change that anybody is told of.

use std::time::Duration;

use base::time::UnixMillis;
use keyspace::{AccessClock, EntryBox, Keyspace, Location, Tx, TxOptions};
use persist::rdb::file::{Access, Batch, Damage, FileError, RawEntry};
use persist::rdb::value::Limits;

use crate::server::Server;

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
pub(crate) enum Twice {
    /// The file is refused.
    Refused,
    /// It is replaced.
    Replaced,
}

/// Where one thread puts entries, of a data set that others only load into.
pub(super) struct Ground {
    server: &'static Server,
    twice: Twice,
    lane: usize,
    limits: Limits,
    counts: Counts,
    group: Vec<Loaded>,
}

/// An entry and where it belongs.
struct Loaded {
    entry: EntryBox,
    location: Location,
    database: usize,
    /// Where in the file it came from.
    offset: u64,
}

impl Ground {
    /// For the thread that a lane was given to.
    pub(super) fn new(server: &'static Server, lane: usize, twice: Twice) -> Self {
        let limits = Limits::from(&server.keyspace.settings().containers);
        let group = Vec::with_capacity(GROUP);
        Self { server, twice, lane, limits, counts: Counts::default(), group }
    }

    /// What was done so far.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Places the entries of a batch.
    pub(super) fn place(&mut self, batch: &Batch) -> Result<(), FileError> {
        let keyspace = self.server.keyspace;
        let now = keyspace.clock().now_ms();
        let clock = AccessClock::new(keyspace.settings(), now);
        for raw in batch.entries() {
            let raw = raw?;
            let is_over = |deadline: UnixMillis| deadline < now;
            if raw.deadline.is_some_and(is_over) && !keyspace.settings().suspends_expiry() {
                self.counts.expired += 1;
                continue;
            }
            let loaded = self.make(&raw, &clock)?;
            self.group.push(loaded);
            if self.group.len() == GROUP {
                self.settle(now)?;
            }
        }
        self.settle(now)
    }

    /// Makes the entry that is written.
    fn make(&self, raw: &RawEntry<'_>, clock: &AccessClock) -> Result<Loaded, FileError> {
        let keyspace = self.server.keyspace;
        let database = usize::try_from(raw.database).ok();
        let database = database.filter(|database| *database < keyspace.database_count());
        let unknown = || FileError::at(raw.offset, Damage::Database(raw.database));
        let database = database.ok_or_else(unknown)?;
        let mut entry = raw.decode(&self.limits)?;
        entry.set_access_clock(match raw.access {
            Access::Frequency(frequency) if clock.by_frequency() => clock.with_frequency(frequency),
            Access::Idle(seconds) if !clock.by_frequency() => clock.with_idle_seconds(seconds),
            _ => clock.fresh(),
        });
        let location = keyspace.locate(entry.borrow().key());
        Ok(Loaded { entry, location, database, offset: raw.offset })
    }

    /// Puts the entries at hand in their places.
    fn settle(&mut self, now: UnixMillis) -> Result<(), FileError> {
        let keyspace = self.server.keyspace;
        let Some(first) = self.group.first() else { return Ok(()) };
        while !keyspace.enter(self.lane) {
            std::thread::sleep(PAUSE);
        }
        let _inside = Inside { keyspace, lane: self.lane };
        let locations: Vec<Location> = self.group.iter().map(|loaded| loaded.location).collect();
        // Where the database changes within a group, some of this is in vain.
        keyspace.prefetch(self.lane, &locations, first.database);
        for loaded in self.group.drain(..) {
            let Loaded { entry, location, database, offset } = loaded;
            let grant = loop {
                match keyspace.try_acquire(location.partition) {
                    Some(grant) => break grant,
                    None => std::thread::yield_now(),
                }
            };
            let internal = TxOptions::internal(self.lane, now);
            let mut tx = Tx::begin(grant, TxOptions { database, heavy: true, ..internal });
            tx.hint(entry.borrow().key(), location);
            const HELD: &str = "the partition of the key is held";
            match self.twice {
                Twice::Replaced => tx.load_over(entry).expect(HELD),
                Twice::Refused if tx.load(entry).expect(HELD) => {}
                Twice::Refused => return Err(FileError::at(offset, Damage::Twice)),
            }
            self.counts.keys += 1;
        }
        Ok(())
    }
}

/// A stay inside a turnstile.
struct Inside {
    keyspace: &'static Keyspace,
    lane: usize,
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.keyspace.leave(self.lane);
    }
}
