//! Which keys a transaction modifies, for its observers: watches, and caches of clients.
//!
//! Invariant: no observer is told of a key that a command opened and left as it was, unless it says
//! so; without an observer nothing is gathered.

use std::sync::Arc;

use base::step_count;

use super::{NamedKey, Tx};
use crate::critical_section::CriticalSection;
use crate::entry::EntryRef;
use crate::keyspace::{Keyspace, PARTITIONS};
use crate::lock::partition::{PartitionContent, PartitionIndex};
use crate::watch::Watch;

/// A client, and keys that were modified for it.
type AlteredKeys<'a> = (u64, &'a [NamedKey]);

/// The keys that a transaction modified so far.
#[derive(Default)]
pub(super) struct ModifiedKeys {
    /// Whether anybody observes changes.
    is_observed: bool,
    keys: Vec<NamedKey>,
    /// Whether whole databases were flushed or swapped.
    databases: bool,
    /// The watched keys in those.
    swept: Vec<NamedKey>,
    /// Those that changed without counting as modified.
    quiet: Vec<NamedKey>,
    /// How many of them are those of commands that are over.
    settled: usize,
    /// Keys and members that had expired or been evicted when the last command was over.
    gone: u64,
    /// How many of them somebody has read past: a key that is modified again is another one.
    fence: usize,
    /// Where the changes of a request begin that another client had sent, and that client's number.
    /// What is before the first of them the transaction's own client did.
    turns: Vec<(usize, u64)>,
}

/// How far it was at some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ModifiedMark {
    keys: usize,
    databases: bool,
    swept: usize,
    quiet: usize,
    settled: usize,
    gone: u64,
    fence: usize,
    turns: usize,
}

impl ModifiedKeys {
    #[inline]
    pub(super) fn begin(keyspace: &Keyspace) -> Self {
        Self { is_observed: keyspace.changes_are_observed(), ..Self::default() }
    }

    /// Where a mutation notes keys, if it is to.
    #[inline]
    pub(super) fn notes(&mut self) -> Option<&mut Self> {
        self.is_observed.then_some(self)
    }

    /// Notes a key, once for steps that follow each other.
    #[cold]
    pub(super) fn note(&mut self, database: usize, key: &[u8]) {
        let last = self.keys[self.fence..].last();
        if !last.is_some_and(|(of, name)| *of == database && **name == *key) {
            self.keys.push((database, key.into()));
        }
    }

    pub(super) fn mark(&self) -> ModifiedMark {
        let Self { databases, settled, gone, fence, .. } = *self;
        let (keys, swept, quiet) = (self.keys.len(), self.swept.len(), self.quiet.len());
        let turns = self.turns.len();
        ModifiedMark { keys, databases, swept, quiet, settled, gone, fence, turns }
    }

    pub(super) fn return_to(&mut self, mark: ModifiedMark) {
        self.keys.truncate(mark.keys);
        self.swept.truncate(mark.swept);
        self.quiet.truncate(mark.quiet);
        self.turns.truncate(mark.turns);
        (self.databases, self.settled) = (mark.databases, mark.settled);
        (self.gone, self.fence) = (mark.gone, mark.fence);
    }

    fn has_any(&self) -> bool {
        !self.keys.is_empty() || self.databases || !self.quiet.is_empty()
    }

    /// Looks whether anybody observes changes by now.
    #[inline]
    pub(super) fn refresh_observed(&mut self, keyspace: &Keyspace) {
        self.is_observed |= keyspace.changes_are_observed();
    }

    #[inline]
    pub(super) fn forget(&mut self) {
        if self.is_observed {
            *self = Self { is_observed: true, ..Self::default() };
        }
    }
}

impl Tx {
    /// Whether anything was modified that somebody may observe.
    #[inline]
    #[must_use]
    pub fn has_modified(&self) -> bool {
        // While nobody observes, nothing is noted: one look.
        self.modified.is_observed && self.modified.has_any()
    }

    /// Whether whole databases were flushed or swapped, where anybody observes changes. Their keys
    /// are not among the modified ones.
    #[must_use]
    pub fn has_modified_databases(&self) -> bool {
        self.modified.databases
    }

    /// How many keys were modified so far and have been read by their observers since.
    pub fn fence_modified(&mut self) -> usize {
        self.modified.fence = self.modified.keys.len();
        self.modified.fence
    }

    /// What is modified from here on is a change of another client, whose request waited for this
    /// transaction and is served within.
    pub fn modify_for(&mut self, origin: u64) {
        if self.modified.is_observed {
            self.fence_modified();
            self.modified.turns.push((self.modified.keys.len(), origin));
        }
    }

    /// The keys that were modified for other clients, with those clients' numbers, behind those
    /// that the transaction's own client modified.
    pub fn modified_for_others(&self) -> impl Iterator<Item = AlteredKeys<'_>> {
        let ends = self.modified.turns.iter().skip(1).map(|(from, _)| *from);
        let ends = ends.chain([self.modified.keys.len()]);
        self.modified.turns.iter().zip(ends).map(|((from, origin), to)| {
            (*origin, self.modified.keys.get(*from..to).unwrap_or_default())
        })
    }

    /// How many of the modified keys the transaction's own client modified: those come first.
    #[must_use]
    pub fn modified_by_itself(&self) -> usize {
        self.modified.turns.first().map_or(self.modified.keys.len(), |(from, _)| *from)
    }

    /// The keys that the transaction's commands modified, with their logical databases.
    #[must_use]
    pub fn modified(&self) -> &[(usize, Box<[u8]>)] {
        &self.modified.keys
    }

    /// Enters a watch at a key of the present database, whose lock is held.
    pub fn watch(&mut self, key: &[u8], watch: &Arc<Watch>) {
        let (database, partition) = (self.options.database, self.locate(key).partition());
        let was_over = self.is_there_and_over(database, key);
        let content =
            self.grant.content_mut(partition).expect("the locks of watched keys are held");
        step_count::step();
        let change = CriticalSection::begin();
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
        step_count::step();
        let change = CriticalSection::begin();
        if content.watched().is_some() && content.watched_mut().remove(database, key, watch) {
            self.keyspace.count_watched(false);
            content.release_rare();
        }
        change.end();
    }

    /// Whether a watched key of a database is still there though its time is over, and was not over
    /// when it was watched.
    #[must_use]
    pub fn has_expired_since_watched(
        &self,
        database: usize,
        key: &[u8],
        watch: &Arc<Watch>,
    ) -> bool {
        let partition = self.keyspace.locate(key).partition();
        let watched = self.grant.content(partition).and_then(PartitionContent::watched);
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

    /// Does something that does not count as modifying the keys: to a stream, where its readers
    /// are. Only watches heed it that heed all.
    pub fn without_modified_keys<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.modified.keys.len();
        let result = work(self);
        let ModifiedKeys { keys, quiet, .. } = &mut self.modified;
        quiet.extend(keys.drain(before.min(keys.len())..));
        result
    }

    /// Breaks the watches of all keys that were modified.
    pub fn break_watches(&mut self) {
        for (database, key) in self.modified.keys.iter().chain(&self.modified.swept) {
            let partition = self.keyspace.locate(key).partition();
            if let Some(watched) = self.grant.content(partition).and_then(PartitionContent::watched)
            {
                watched.break_up(*database, key, || self.is_absent(*database, key));
            }
        }
        for (database, key) in &self.modified.quiet {
            let partition = self.keyspace.locate(key).partition();
            if let Some(watched) = self.grant.content(partition).and_then(PartitionContent::watched)
            {
                watched.break_up_heeding_all(*database, key);
            }
        }
    }

    /// The keys that the command opened so far count as modified, even if it changes nothing.
    pub fn keep_modified(&mut self) {
        self.modified.settled = self.modified.keys.len();
    }

    /// A command is over: if it changed nothing, the keys it opened are not modified.
    #[cold]
    pub(super) fn drop_unmodified(&mut self) {
        let gone = self.counted.expired_count();
        let modified = &mut self.modified;
        if self.effects.changes() == 0 && gone == modified.gone {
            modified.keys.truncate(modified.settled);
        }
        (modified.settled, modified.gone) = (modified.keys.len(), gone);
    }

    /// Notes that a whole database is flushed or swapped.
    pub(super) fn note_modified_databases(&mut self) {
        self.modified.databases |= self.modified.is_observed;
    }

    /// Notes a database before it is flushed or swapped, and its watched keys that are in any of
    /// these physical ones.
    pub(super) fn note_modified_database(&mut self, database: usize, physical: &[usize]) {
        self.note_modified_databases();
        if !self.modified.is_observed {
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
            let modified = watched.keys(database).filter(is_there);
            let named = modified.map(|key| -> NamedKey { (database, key.into()) });
            self.modified.swept.extend(named);
        }
    }
}
