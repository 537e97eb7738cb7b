//! Which keys a transaction alters, for those who heed it: watches, and caches of clients.
//!
//! Invariant: nobody is told of a key that a command opened and left as it was, unless it says so;
//! with nobody who heeds, nothing is gathered.

use std::sync::Arc;

use base::steps;

use super::{NamedKey, Tx};
use crate::entry::EntryRef;
use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lock::partition::{Content, PartitionIndex};
use crate::ruin::Halfway;
use crate::watch::Watch;

/// The keys that a transaction altered so far.
#[derive(Default)]
pub(super) struct Altered {
    /// Whether anybody heeds.
    is_heeded: bool,
    keys: Vec<NamedKey>,
    /// Whether whole databases were flushed or swapped.
    databases: bool,
    /// The watched keys in those.
    swept: Vec<NamedKey>,
    /// How many of them are those of commands that are over.
    settled: usize,
    /// Keys and members that had expired or been evicted when the last command was over.
    gone: u64,
    /// How many of them somebody has read past: a key that is altered again is another one.
    fence: usize,
}

/// How far it was at some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AlteredMark {
    keys: usize,
    databases: bool,
    swept: usize,
    settled: usize,
    gone: u64,
    fence: usize,
}

impl Altered {
    #[inline]
    pub(super) fn begin(keyspace: &Keyspace) -> Self {
        Self { is_heeded: keyspace.changes_are_heeded(), ..Self::default() }
    }

    /// Where a door notes keys, if it is to.
    #[inline]
    pub(super) fn notes(&mut self) -> Option<&mut Self> {
        self.is_heeded.then_some(self)
    }

    /// Notes a key, once for steps that follow each other.
    #[cold]
    pub(super) fn note(&mut self, database: usize, key: &[u8]) {
        let last = self.keys[self.fence..].last();
        if !last.is_some_and(|(of, name)| *of == database && **name == *key) {
            self.keys.push((database, key.into()));
        }
    }

    pub(super) fn mark(&self) -> AlteredMark {
        let Self { databases, settled, gone, fence, .. } = *self;
        let (keys, swept) = (self.keys.len(), self.swept.len());
        AlteredMark { keys, databases, swept, settled, gone, fence }
    }

    pub(super) fn return_to(&mut self, mark: AlteredMark) {
        self.keys.truncate(mark.keys);
        self.swept.truncate(mark.swept);
        (self.databases, self.settled) = (mark.databases, mark.settled);
        (self.gone, self.fence) = (mark.gone, mark.fence);
    }

    /// Looks whether anybody heeds by now.
    #[inline]
    pub(super) fn look_again(&mut self, keyspace: &Keyspace) {
        self.is_heeded |= keyspace.changes_are_heeded();
    }

    #[inline]
    pub(super) fn forget(&mut self) {
        if self.is_heeded {
            *self = Self { is_heeded: true, ..Self::default() };
        }
    }
}

impl Tx {
    /// Whether anything was altered that somebody may heed.
    #[inline]
    #[must_use]
    pub fn has_altered(&self) -> bool {
        // Without anybody to heed it nothing is noted: one look.
        self.altered.is_heeded && (!self.altered.keys.is_empty() || self.altered.databases)
    }

    /// Whether whole databases were flushed or swapped, where anybody heeds changes. Their keys are
    /// not among the altered ones.
    #[must_use]
    pub fn has_altered_databases(&self) -> bool {
        self.altered.databases
    }

    /// The keys that were altered so far and have been read since by who heeds them: how many.
    pub fn fence_altered(&mut self) -> usize {
        self.altered.fence = self.altered.keys.len();
        self.altered.fence
    }

    /// The keys that the transaction's commands altered, with their logical databases.
    #[must_use]
    pub fn altered(&self) -> &[(usize, Box<[u8]>)] {
        &self.altered.keys
    }

    /// Enters a watch at a key of the present database, whose lock is held.
    pub fn watch(&mut self, key: &[u8], watch: &Arc<Watch>) {
        let (database, partition) = (self.options.database, self.locate(key).partition());
        let was_over = self.is_there_and_over(database, key);
        let content =
            self.grant.content_mut(partition).expect("the locks of watched keys are held");
        steps::step();
        let change = Halfway::begin();
        if content.watched_mut().add(database, key, watch, was_over) {
            self.keyspace.count_watched(true);
        }
        change.end();
    }

    /// Takes a watch off a key of a database.
    pub fn unwatch(&mut self, database: usize, key: &[u8], watch: &Arc<Watch>) {
        let partition = self.locate(key).partition();
        let content =
            self.grant.content_mut(partition).expect("the locks of watched keys are held");
        steps::step();
        let change = Halfway::begin();
        if content.watched().is_some() && content.watched_mut().remove(database, key, watch) {
            self.keyspace.count_watched(false);
            content.release_rare();
        }
        change.end();
    }

    /// Whether a watched key of a database is still there though its time is over, and was not over
    /// when it was watched.
    #[must_use]
    pub fn has_lapsed(&self, database: usize, key: &[u8], watch: &Arc<Watch>) -> bool {
        let partition = self.keyspace.locate(key).partition();
        let watched = self.grant.content(partition).and_then(Content::watched);
        self.is_there_and_over(database, key)
            && !watched.is_some_and(|watched| watched.was_over(database, key, watch))
    }

    fn is_there_and_over(&self, database: usize, key: &[u8]) -> bool {
        self.entry_of(database, key).is_some_and(|entry| self.is_over(entry))
    }

    fn is_absent(&self, database: usize, key: &[u8]) -> bool {
        self.entry_of(database, key).is_none_or(|entry| self.is_over(entry))
    }

    fn entry_of(&self, database: usize, key: &[u8]) -> Option<EntryRef<'_>> {
        let location = self.keyspace.locate(key);
        let content = self.grant.content(location.partition())?;
        let table = content.table(self.keyspace.physical(database))?;
        Some(table.find(location.position(), key)?.entry)
    }

    /// Does something that is no change to those who heed the keys: to a stream, where its readers
    /// are.
    pub fn unheeded<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.altered.keys.len();
        let result = work(self);
        self.altered.keys.truncate(before);
        result
    }

    /// Breaks the watches of all keys that were altered.
    pub fn break_watches(&mut self) {
        for (database, key) in self.altered.keys.iter().chain(&self.altered.swept) {
            let partition = self.keyspace.locate(key).partition();
            if let Some(watched) = self.grant.content(partition).and_then(Content::watched) {
                watched.break_up(*database, key, || self.is_absent(*database, key));
            }
        }
    }

    /// What the command opened so far is altered to those who heed it, even if it changes nothing.
    pub fn alter_unchanged(&mut self) {
        self.altered.settled = self.altered.keys.len();
    }

    /// A command is over: if it changed nothing, the keys it opened are not altered.
    #[cold]
    pub(super) fn settle_altered(&mut self) {
        let gone = self.counted.gone();
        let altered = &mut self.altered;
        if self.effects.changes() == 0 && gone == altered.gone {
            altered.keys.truncate(altered.settled);
        }
        (altered.settled, altered.gone) = (altered.keys.len(), gone);
    }

    /// Notes that a whole database is flushed or swapped.
    pub(super) fn alter_databases(&mut self) {
        self.altered.databases |= self.altered.is_heeded;
    }

    /// Notes a database before it is flushed or swapped, and its watched keys that are in any of
    /// these physical ones.
    pub(super) fn alter_database(&mut self, database: usize, physical: &[usize]) {
        self.alter_databases();
        if !self.altered.is_heeded {
            return;
        }
        for index in 0..PARTITIONS as PartitionIndex {
            let Some(content) = self.grant.content(index) else { continue };
            let Some(watched) = content.watched() else { continue };
            let is_there = |key: &&[u8]| {
                let position = self.keyspace.locate(key).position();
                let tables = physical.iter().filter_map(|&it| content.table(it));
                tables.into_iter().any(|table| table.find(position, key).is_some())
            };
            let altered = watched.keys(database).filter(is_there);
            let named = altered.map(|key| -> NamedKey { (database, key.into()) });
            self.altered.swept.extend(named);
        }
    }
}
