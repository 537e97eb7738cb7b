//! What needs everything at once: flushing and swapping databases.
//!
//! Invariant: these run with the world granted, so no transaction sees half of them; what is
//! flushed is detached here and freed elsewhere.

use super::Tx;
use crate::counters::bump;
use crate::entry::EntryTable;
use crate::garbage::Garbage;
use crate::keyspace::PARTITIONS;
use crate::lock::partition::{Lsn, PartitionIndex};
use crate::refusal::Refusal;

impl Tx {
    /// Empties the present database. Returns how many keys it had.
    pub fn flush_database(&mut self) -> Result<usize, Refusal> {
        self.require_world()?;
        self.rouse_database(self.options.database, true);
        let database = self.physical;
        self.alter_database(self.options.database, &[database]);
        let removed = self.keyspace.len(self.options.database);
        if removed == 0 {
            return Ok(0);
        }
        let mut detached = Vec::new();
        for index in 0..PARTITIONS as PartitionIndex {
            let content = self.grant.content_mut(index).expect("the world is granted");
            let len = content.table(database).map_or(0, EntryTable::len);
            if len == 0 {
                continue;
            }
            let table = std::mem::replace(content.table_mut(database), EntryTable::new());
            detached.push((content.marks, table));
            self.keyspace.partition(index).add_population(-(len as i32));
        }
        let counters = self.counters().database(database);
        bump(&counters.keys, -(removed as i64));
        bump(&counters.volatile, -(self.keyspace.counters().volatile(database) as i64));
        let with_members = self.keyspace.counters().members_volatile(database);
        bump(&counters.members_volatile, -(with_members as i64));
        let memory = self.keyspace.counters().memory(database);
        bump(&counters.memory, -(memory as i64));
        // Walks that go on see them first, and free them.
        if let Some(tables) = self.keyspace.walks().leave(database, detached) {
            self.keyspace.discard(Garbage::tables(tables, memory));
        }
        self.effects.add_changes(removed as u64);
        Ok(removed)
    }

    /// Empties all databases. Returns how many keys they had.
    pub fn flush_all(&mut self) -> Result<usize, Refusal> {
        let home = self.options.database;
        let mut removed = 0;
        for database in 0..self.keyspace.database_count() {
            self.switch_database(database);
            removed += self.flush_database()?;
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
        self.alter_database(one, &physical);
        self.alter_database(other, &physical);
        self.keyspace.swap(one, other);
        self.physical = self.keyspace.physical(self.options.database);
        self.rouse_database(one, false);
        self.rouse_database(other, false);
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
