//! What needs everything at once: flushing and swapping databases.
//!
//! Invariant: these run with the world granted, so no transaction sees half of them; what is
//! flushed is detached here, and left to walks or freed elsewhere once that is final.

use base::step_count;

use super::Tx;
use crate::counters::bump;
use crate::critical_section::CriticalSection;
use crate::entry::EntryTable;
use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lazy_free::Garbage;
use crate::lock::acquisition::{Acquisition, PartitionSet};
use crate::lock::partition::{Lsn, PartitionContent, PartitionIndex};
use crate::prefix_index::{Places, PrefixNumber};
use crate::refusal::Refusal;
use crate::sizes::Sizes;

/// The tables of a database that was flushed, and what they counted for.
pub(super) struct FlushedDatabase {
    database: usize,
    tables: Vec<Detached>,
    keys: i64,
    volatile: i64,
    members_volatile: i64,
    memory: usize,
    sizes: Sizes,
}

/// A table of a partition.
struct Detached {
    index: PartitionIndex,
    /// The partition's marks.
    marks: u8,
    /// The keys with a deadline in the partition, as far as it knew.
    volatile: usize,
    table: EntryTable,
    /// The index of declared prefixes, as far as it is of the table.
    prefixes: Vec<(PrefixNumber, Places)>,
}

impl FlushedDatabase {
    /// The tables are put back no more: walks that go on see them first, and free them.
    pub(super) fn release(self, keyspace: &Keyspace) {
        let (mut tables, mut prefixes) = (Vec::new(), Vec::new());
        for detached in self.tables {
            tables.push((detached.marks, detached.table));
            prefixes.extend(detached.prefixes);
        }
        if !prefixes.is_empty() {
            keyspace.discard(Garbage::held(Box::new(prefixes)));
        }
        if let Some(tables) = keyspace.walks().keep_flushed(self.database, tables) {
            keyspace.discard(Garbage::tables(tables, self.memory));
        }
    }
}

impl Tx {
    /// Lends the world to others, which change the data on transactions of their own. What this one
    /// has changed so far is never undone after that; a panic meanwhile ends the process.
    pub fn lend_world<T>(&mut self, work: impl FnOnce(Acquisition) -> (Acquisition, T)) -> T {
        let lent = CriticalSection::begin();
        assert!(self.has_world(), "it has the world");
        let (world, result) = work(self.take_grant());
        debug_assert!(world.wants_world() && world.is_complete(), "it comes back as it was");
        self.grant = world;
        lent.end();
        self.refresh_views();
        result
    }

    /// The lane whose counters the transaction writes.
    #[must_use]
    pub fn lane(&self) -> usize {
        self.options.lane
    }

    /// Ends a transaction that nobody follows and keeps what it was granted.
    #[must_use]
    pub fn into_grant(mut self) -> Acquisition {
        self.seal();
        self.take_grant()
    }

    fn take_grant(&mut self) -> Acquisition {
        let none = Acquisition::of_partitions(self.keyspace, PartitionSet::default());
        std::mem::replace(&mut self.grant, none)
    }

    /// Empties the present database. Returns how many keys it had.
    pub fn flush_database(&mut self) -> Result<usize, Refusal> {
        self.require_world()?;
        self.signal_flushed(Some(self.options.database));
        Ok(self.empty_database())
    }

    fn empty_database(&mut self) -> usize {
        let database = self.physical;
        let removed = self.keyspace.len(self.options.database);
        if removed == 0 {
            self.note_modified_databases();
            return 0;
        }
        self.note_modified_database(self.options.database, &[database]);
        self.made.touched = true;
        let change = CriticalSection::begin();
        let flushed = self.detach(database);
        match &mut self.undo {
            Some(undo) => undo.remember_flush(flushed),
            None => flushed.release(self.keyspace),
        }
        change.end();
        self.effects.add_changes(removed as u64);
        removed
    }

    /// Takes all tables of a physical database out.
    fn detach(&mut self, database: usize) -> FlushedDatabase {
        let mut tables = Vec::new();
        for index in 0..PARTITIONS as PartitionIndex {
            let content = self.grant.content_mut(index).expect("the world is granted");
            let Some(table) = content.tables.take(database) else { continue };
            let prefixes = detach_prefixes(self.keyspace, content, (index, database));
            step_count::step();
            let len = table.len();
            let partition = self.keyspace.partition(index);
            let volatile = partition.volatile();
            tables.push(Detached { index, marks: content.marks, volatile, table, prefixes });
            self.keyspace.add_population(index, -(len as i32));
        }
        let totals = self.keyspace.counters();
        let flushed = FlushedDatabase {
            database,
            tables,
            keys: totals.keys(database) as i64,
            volatile: totals.volatile(database) as i64,
            members_volatile: totals.members_volatile(database) as i64,
            memory: totals.memory(database),
            sizes: totals.sizes(database),
        };
        self.count_flushed(&flushed, -1);
        flushed
    }

    /// Puts the tables of a flushed database back, from which all that came since was taken.
    pub(super) fn reattach(&mut self, flushed: FlushedDatabase) {
        let change = CriticalSection::begin();
        self.count_flushed(&flushed, 1);
        let FlushedDatabase { database, tables, .. } = flushed;
        for Detached { index, marks, volatile, table, prefixes } in tables {
            let content = self.grant.content_mut(index).expect("the world is granted");
            debug_assert_eq!(content.marks, marks, "no walk begins while the world is held");
            debug_assert_eq!(content.table(database).map_or(0, EntryTable::len), 0);
            let partition = self.keyspace.partition(index);
            self.keyspace.add_population(index, table.len() as i32);
            partition.add_volatile(volatile as i32 - partition.volatile() as i32);
            *content.tables.get_or_add(database) = table;
            for (number, places) in prefixes {
                self.keyspace.declared_prefixes.note(number, index, true);
                content.prefixes_mut().put(number, database, places);
            }
        }
        change.end();
    }

    fn count_flushed(&self, flushed: &FlushedDatabase, sign: i64) {
        let counters = self.keyspace.counters().database(self.counters(), flushed.database);
        bump(&counters.keys, sign * flushed.keys);
        bump(&counters.volatile, sign * flushed.volatile);
        bump(&counters.members_volatile, sign * flushed.members_volatile);
        bump(&counters.memory, sign * flushed.memory as i64);
        counters.sizes.add(&flushed.sizes, sign);
    }

    /// A client has everything removed, which others hear of when it is final.
    pub fn note_flush(&mut self) {
        (self.made.touched, self.has_flushed_all) = (true, true);
    }

    /// Empties all databases. Returns how many keys they had.
    pub fn flush_all(&mut self) -> Result<usize, Refusal> {
        self.require_world()?;
        self.signal_flushed(None);
        let home = self.options.database;
        let mut removed = 0;
        for database in 0..self.keyspace.database_count() {
            self.switch_database(database);
            removed += self.empty_database();
        }
        self.switch_database(home);
        Ok(removed)
    }

    /// Exchanges two logical databases.
    pub fn swap_databases(&mut self, one: usize, other: usize) -> Result<(), Refusal> {
        self.require_world()?;
        self.effects.add_changes(1);
        if one == other {
            return Ok(());
        }
        let physical = [self.keyspace.physical(one), self.keyspace.physical(other)];
        self.note_modified_database(one, &physical);
        self.note_modified_database(other, &physical);
        self.made.touched = true;
        let change = CriticalSection::begin();
        self.keyspace.databases().swap(one, other);
        if let Some(undo) = &mut self.undo {
            undo.remember_swap(one, other);
        }
        change.end();
        step_count::step();
        self.physical = self.keyspace.physical(self.options.database);
        self.signal_swapped(one);
        self.signal_swapped(other);
        Ok(())
    }

    /// Puts the data set that was put together beside this one in its place, and forgets this one.
    /// The exchange is never undone.
    pub fn exchange_all(&mut self) -> Result<(), Refusal> {
        self.require_world()?;
        let home = self.options.database;
        for database in 0..self.keyspace.database_count() {
            let beside = self.keyspace.shadow(database);
            if self.keyspace.len(database) + self.keyspace.len(beside) > 0 {
                self.swap_databases(database, beside)?;
            }
        }
        self.forget_beside()?;
        self.switch_database(home);
        Ok(())
    }

    /// Forgets what was put together beside the data that are served.
    pub fn forget_beside(&mut self) -> Result<(), Refusal> {
        self.require_world()?;
        let home = self.options.database;
        for database in 0..self.keyspace.database_count() {
            self.switch_database(self.keyspace.shadow(database));
            self.empty_database();
        }
        self.switch_database(home);
        Ok(())
    }

    pub(super) fn stamp_world(&mut self, lsn: Lsn) {
        for index in 0..PARTITIONS as PartitionIndex {
            self.grant.content_mut(index).expect("the world is granted").last_write = lsn;
        }
    }

    pub(super) fn seen_by_world(&self) -> Lsn {
        let last_write = |index| self.grant.content(index).map_or(0, |content| content.last_write);
        (0..PARTITIONS as PartitionIndex).map(last_write).max().unwrap_or(0)
    }

    /// Refuses to go on, to widen, unless the world is granted.
    pub fn require_world(&self) -> Result<(), Refusal> {
        if self.has_world() {
            return Ok(());
        }
        self.beyond.borrow_mut().world = true;
        Err(Refusal::Widen)
    }
}

/// Takes the index of declared prefixes of a database's table out.
fn detach_prefixes(
    keyspace: &Keyspace,
    content: &mut PartitionContent,
    (partition, database): (PartitionIndex, usize),
) -> Vec<(PrefixNumber, Places)> {
    if content.prefixes().is_none() {
        return Vec::new();
    }
    let taken = content.prefixes_mut().take(database);
    for (number, _) in &taken {
        if !content.prefixes_mut().has(*number) {
            keyspace.declared_prefixes.note(*number, partition, false);
        }
    }
    content.release_rare();
    taken
}
