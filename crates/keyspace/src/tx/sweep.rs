//! Going over partitions: expiry, scans, samples.
//!
//! Invariant: a sweep holds one partition at a time and a bounded while; what it removes goes out
//! as effects like any other change.

use std::sync::atomic::Ordering;

use base::time::UnixMillis;

use super::Tx;
use crate::entry::{EntryRef, EntryTable};
use crate::keyspace::{Keyspace, NEVER};
use crate::lock::acquisition::{Acquisition, PartitionSet};
use crate::lock::partition::PartitionIndex;
use crate::patience::{Patience, WaitReason};
use crate::prefix_index::{PrefixNumber, resumption};
use crate::refusal::{BUSY, Refusal};

/// How far one turn of the expiry sweep got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Keys and members that were removed.
    pub removed: usize,
    /// Where the partition's sweep goes on, as (physical database, position); `None` when all of
    /// it was seen.
    pub next: Option<(usize, u64)>,
    /// The earliest deadline seen that is still to come.
    pub earliest: Option<UnixMillis>,
}

/// Members that one turn removes at most; those that are left make the partition due again.
const MEMBERS_PER_TURN: usize = 256;

impl Keyspace {
    /// The next time anything can expire, as far as the bounds tell.
    #[must_use]
    pub fn next_deadline(&self) -> Option<UnixMillis> {
        let bounds = self.deadlines.iter().map(|bound| bound.load(Ordering::Relaxed));
        bounds.min().filter(|&bound| bound != NEVER)
    }

    /// Takes one partition's lock if it comes free within a few microseconds.
    #[must_use]
    pub fn try_acquire(&'static self, partition: PartitionIndex) -> Option<Acquisition> {
        let wanted = PartitionSet::from_slice(&[partition]);
        let mut acquisition = Acquisition::of_partitions(self, wanted);
        acquisition.attempt().then_some(acquisition)
    }

    /// Takes the locks of those of some partitions that are free.
    #[must_use]
    pub fn acquire_free(&'static self, partitions: PartitionSet) -> Acquisition {
        let mut acquisition = Acquisition::of_partitions(self, partitions);
        acquisition.take_available();
        acquisition
    }
}

impl Tx {
    /// Moves the transaction from the partition it holds to another one, for commands that go over
    /// many partitions one by one and change nothing. `Heavy` if the lock is busy: then nothing is
    /// held. On a heavy-work thread it is waited for instead, until the keyspace's patience is
    /// over: then the transaction touches nothing any more.
    pub fn visit(&mut self, partition: PartitionIndex) -> Result<(), Refusal> {
        self.visit_all(PartitionSet::from_slice(&[partition]))
    }

    /// Moves the transaction to the partitions of these keys, all at once, as `visit` does: for
    /// what changes keys that it found by visiting.
    pub fn visit_keys<'k>(
        &mut self,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) -> Result<(), Refusal> {
        let partitions = keys.into_iter().map(|key| self.locate(key).partition());
        let partitions = partitions.collect();
        self.visit_all(partitions)
    }

    fn visit_all(&mut self, partitions: PartitionSet) -> Result<(), Refusal> {
        base::step_count::step();
        if self.has_world() {
            return Ok(());
        }
        // A change would have to be journalled before its lock is given back, so expired keys that
        // were met stay for others to remove.
        debug_assert_eq!(self.effects.changes(), 0, "who visits changes nothing");
        debug_assert!(self.undo.is_none(), "who may have to undo something keeps its locks");
        self.stale.get_mut().clear();
        self.visited = self.observed_lsn();
        self.grant.retarget(partitions);
        if !self.options.heavy {
            let is_granted = self.grant.attempt();
            self.refresh_views();
            return if is_granted { Ok(()) } else { Err(Refusal::Heavy) };
        }
        let (keyspace, mut patience) = (self.keyspace, Patience::default());
        loop {
            // At every step, as the world waits for us.
            if keyspace.world().is_wanted()
                && !keyspace.world().safepoint(|| patience.lasts(keyspace, WaitReason::World))
            {
                return Err(BUSY);
            }
            if self.grant.attempt() {
                self.grant.time_hold();
                self.refresh_views();
                return Ok(());
            }
            if !patience.lasts(keyspace, self.grant.obstacle()) {
                return Err(BUSY);
            }
            crate::sync::pause();
        }
    }

    /// Visits entries of a held partition in the present database from a position on, at least
    /// `at_least` of them; expired ones are passed over. Returns where to go on.
    pub fn walk(
        &self,
        partition: PartitionIndex,
        from: u64,
        at_least: usize,
        mut visit: impl FnMut(EntryRef<'_>),
    ) -> Option<u64> {
        self.grant.content(partition)?.table(self.physical)?.walk(from, at_least, |entry| {
            if !self.is_over(entry) {
                visit(entry);
            }
        })
    }

    /// As `walk`, over the entries whose keys begin with a declared prefix: no other is looked at.
    pub fn walk_prefix(
        &self,
        prefix: PrefixNumber,
        (partition, from): (PartitionIndex, u64),
        at_least: usize,
        mut visit: impl FnMut(EntryRef<'_>),
    ) -> Option<u64> {
        let content = self.grant.content(partition)?;
        let places = content.prefixes()?.places(prefix, self.physical)?;
        let table = content.table(self.physical)?;
        let begins = self.keyspace.declared_prefixes.prefix(prefix);
        let mut last = None;
        for (seen, &place) in places.range(from..).enumerate() {
            let resumption = resumption(place);
            if seen >= at_least && last != Some(resumption) {
                return Some(resumption);
            }
            last = Some(resumption);
            table.visit_at(place, |entry| {
                if entry.key().starts_with(begins) && !self.is_over(entry) {
                    visit(entry);
                }
            });
        }
        None
    }

    /// Keys of a held partition in the present database.
    #[must_use]
    pub fn partition_len(&self, partition: PartitionIndex) -> usize {
        let content = self.grant.content(partition);
        content.and_then(|content| content.table(self.physical)).map_or(0, EntryTable::len)
    }

    /// How the table of a held partition is built, for `DEBUG HTSTATS`.
    #[must_use]
    pub fn table_shape(&self, partition: PartitionIndex) -> Option<structs::table::Shape> {
        Some(self.grant.content(partition)?.table(self.physical)?.shape())
    }

    /// A key of a held partition in the present database, each about equally likely; expired ones
    /// may come, marked.
    #[must_use]
    pub fn sample(&self, partition: PartitionIndex, random: u64) -> Option<EntryRef<'_>> {
        self.grant.content(partition)?.table(self.physical)?.sample(random)
    }

    /// One turn of expiry over a held partition: looks at `at_least` entries from `from` on and
    /// removes those whose time is over, and members of theirs.
    pub fn sweep_expired(
        &mut self,
        partition: PartitionIndex,
        from: (usize, u64),
        at_least: usize,
    ) -> Swept {
        let (database, position) = from;
        let now = self.now();
        let keyspace = self.keyspace;
        let suspended =
            keyspace.settings().suspends_expiry() || keyspace.importing().contain(partition);
        let (mut due, mut with_members_due) = (Vec::new(), Vec::new());
        let mut earliest = UnixMillis::MAX;
        let content = self.grant.content(partition).expect("a sweep holds its partition");
        let next = content.table(database).and_then(|table| {
            table.walk_volatile(position, at_least, |entry| {
                if entry.is_expired(now) && !suspended {
                    return due.push(entry.key().to_vec());
                }
                match entry.member_deadline() {
                    Some(at) if at <= now && !suspended => {
                        with_members_due.push(entry.key().to_vec());
                    }
                    at => earliest = earliest.min(at.unwrap_or(UnixMillis::MAX)),
                }
                earliest = earliest.min(entry.deadline().unwrap_or(UnixMillis::MAX));
            })
        });
        // Before anything is removed, as a table goes with its last key.
        let next = content.tables.next_of_walk(database, next);
        let home = self.physical;
        let logical = self.options.database;
        self.enter_physical(database);
        for key in &due {
            self.expire_if_due(key).expect("a sweep holds its partition");
        }
        let mut members_left = MEMBERS_PER_TURN;
        for key in &with_members_due {
            let removed = self.expire_members(key, members_left);
            members_left -= removed.expect("a sweep holds its partition");
            let left = self.peek(key).expect("a sweep holds its partition");
            let next = left.and_then(EntryRef::member_deadline).unwrap_or(UnixMillis::MAX);
            earliest = earliest.min(next);
        }
        self.physical = home;
        self.options.database = logical;
        let removed = due.len() + MEMBERS_PER_TURN - members_left;
        let earliest = (earliest != UnixMillis::MAX).then_some(earliest);
        Swept { removed, next, earliest }
    }

    /// Begins a full sweep of a partition: from here on its bound is what writers lower it to.
    pub fn begin_sweep(&self, partition: PartitionIndex) {
        self.keyspace.set_deadline_bound(partition, None);
    }

    /// Ends a full sweep, or gives it up: the bound becomes at most `earliest`.
    pub fn end_sweep(&self, partition: PartitionIndex, earliest: UnixMillis) {
        self.keyspace.note_deadline(partition, earliest);
    }

    /// Turns to a physical database, under the logical name it has now.
    pub(super) fn enter_physical(&mut self, physical: usize) {
        self.options.database = self.keyspace.databases().logical(physical);
        self.physical = physical;
    }
}
