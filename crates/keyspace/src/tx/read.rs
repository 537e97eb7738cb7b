//! Looking at keys.
//!
//! Invariant: what is returned lives as long as the transaction is borrowed and was not expired at
//! its time; reading changes nothing but access clocks and statistics.

use base::time::UnixMillis;
use smallvec::SmallVec;
use structs::object::Stored;
use structs::prefetch::{Seek, seek_together};

use super::effects::EventClass;
use super::{Missed, NamedKey, Tx};
use crate::entry::{EntryRef, Text};
use crate::keyspace::Location;
use crate::lock::partition::PartitionIndex;
use crate::refusal::Refusal;

/// Keys whose buckets are waited for together.
const TOGETHER: usize = 16;

impl Tx {
    /// From now on keys whose time is over are there, or not, and reads are noted, or not.
    pub fn set_view(&mut self, sees_expired: bool, touches: bool) {
        (self.options.sees_expired, self.options.touches) = (sees_expired, touches);
    }

    /// The entry of a key, as a reading command sees it: counted as a hit or a miss, and its
    /// access noted.
    #[inline]
    pub fn read(&self, key: &[u8]) -> Result<Option<EntryRef<'_>>, Refusal> {
        let entry = self.lookup_no_touch(key)?;
        entry.into_iter().for_each(|entry| self.note_access(entry));
        Ok(entry)
    }

    /// The entry of a key for a writing command, which may change nothing: neither a hit nor a
    /// miss, but an access.
    #[inline]
    pub fn lookup_write(&self, key: &[u8]) -> Result<Option<EntryRef<'_>>, Refusal> {
        let entry = self.peek(key)?;
        entry.into_iter().for_each(|entry| self.note_access(entry));
        Ok(entry)
    }

    #[inline]
    pub(super) fn note_access(&self, entry: EntryRef<'_>) {
        if self.options.touches && self.access.notes_reads() {
            entry.set_access_clock(self.access.accessed(entry.access_clock()));
        }
    }

    /// The entry of a key, counted as a hit or a miss but not as an access: for what asks about
    /// the key and not for its value (`EXISTS`, `TYPE`, `TTL`).
    #[inline]
    pub fn lookup_no_touch(&self, key: &[u8]) -> Result<Option<EntryRef<'_>>, Refusal> {
        let entry = self.peek(key)?;
        match entry {
            Some(_) => self.counted.hits.update(|hits| hits + 1),
            None => self.note_missed(key),
        }
        Ok(entry)
    }

    /// As `lookup_no_touch`, without an event for a miss: for `OBJECT`.
    pub fn lookup_no_notify(&self, key: &[u8]) -> Result<Option<EntryRef<'_>>, Refusal> {
        let entry = self.peek(key)?;
        let counted = if entry.is_some() { &self.counted.hits } else { &self.counted.misses };
        counted.update(|count| count + 1);
        Ok(entry)
    }

    /// The entry of a key, leaving no trace: for writers that look first.
    #[inline]
    pub fn peek(&self, key: &[u8]) -> Result<Option<EntryRef<'_>>, Refusal> {
        let location = self.locate(key);
        let (partition, position) = (location.partition(), location.position());
        let Some(content) = self.grant.content(partition) else {
            return self.peek_copy(key, partition);
        };
        let Some(found) = content.table(self.physical).and_then(|table| table.find(position, key))
        else {
            return Ok(None);
        };
        if self.is_over(found.entry) {
            return Ok(self.expired_entry(partition, found.entry));
        }
        Ok(Some(found.entry))
    }

    /// As [`Keyspace::prefetch`](crate::Keyspace::prefetch), for keys that are granted, with what
    /// says whether they were evicted lately.
    pub fn prefetch(&self, locations: &[Location]) {
        for some in locations.chunks(TOGETHER) {
            let mut tables = [None; TOGETHER];
            for (table, location) in tables.iter_mut().zip(some) {
                let content = self.grant.content(location.partition());
                *table = content.and_then(|content| content.table(self.physical));
                if let Some(table) = table {
                    table.prefetch(location.position());
                }
            }
            let mut entries = [None; TOGETHER];
            for ((entry, table), location) in entries.iter_mut().zip(tables).zip(some) {
                *entry = table.and_then(|table| table.likely(location.position()));
                entry.iter().for_each(|entry: &EntryRef<'_>| entry.prefetch_start());
            }
            // Values that are asked for together are mostly alike, and short ones are all there.
            if entries.iter().flatten().next().is_some_and(|first| first.is_long()) {
                entries.iter().flatten().for_each(|entry| entry.prefetch_rest());
            }
        }
        if self.access.by_worth() {
            locations.iter().for_each(|location| self.keyspace.ghost_list().prefetch(*location));
        }
    }

    /// Has the members that several requests for one key name on their way from memory, where they
    /// are looked up in a large container.
    pub fn prefetch_members<'a>(
        &self,
        location: Location,
        key: &[u8],
        members: impl Iterator<Item = &'a [u8]>,
    ) {
        let table = self
            .grant
            .content(location.partition())
            .and_then(|content| content.table(self.physical));
        let found = table.and_then(|table| table.find(location.position(), key));
        if let Some(Stored::Large(object)) = found.and_then(|found| found.entry.stored()) {
            let mut seeks: SmallVec<[Seek<'_>; 8]> =
                members.filter_map(|member| object.seek(member)).collect();
            seek_together(&mut seeks);
        }
    }

    /// The string at a key, as a reading command sees it.
    #[inline]
    pub fn text(&self, key: &[u8]) -> Result<Option<Text<'_>>, Refusal> {
        self.read(key)?.map(text_of).transpose()
    }

    /// The string at a key, leaving no trace.
    pub fn peek_text(&self, key: &[u8]) -> Result<Option<Text<'_>>, Refusal> {
        self.peek(key)?.map(text_of).transpose()
    }

    /// The string that a writing command asks for: a use.
    pub fn lookup_write_text(&self, key: &[u8]) -> Result<Option<Text<'_>>, Refusal> {
        self.lookup_write(key)?.map(text_of).transpose()
    }

    /// A lookup ahead of the command's own: what has expired is left for that to meet, in its
    /// order.
    pub fn lookup_ahead<'a, T>(&'a self, look: impl FnOnce(&'a Self) -> T) -> T {
        let before = self.stale.borrow().len();
        let seen = look(self);
        self.stale.borrow_mut().truncate(before);
        seen
    }

    /// A look at keys as they are stored: those whose time is over are seen until they are removed.
    pub fn with_expired<T>(&mut self, look: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.options.sees_expired, true);
        let seen = look(self);
        self.options.sees_expired = before;
        seen
    }

    /// Whether the key exists, leaving no trace.
    pub fn exists(&self, key: &[u8]) -> Result<bool, Refusal> {
        Ok(self.peek(key)?.is_some())
    }

    /// When the key expires: `None` if it is absent, `Some(None)` if it never does.
    pub fn deadline(&self, key: &[u8]) -> Result<Option<Option<UnixMillis>>, Refusal> {
        Ok(self.peek(key)?.map(EntryRef::deadline))
    }

    /// Seconds since an entry was last accessed, where the clock tells time.
    #[must_use]
    pub fn idle_seconds(&self, entry: EntryRef<'_>) -> Option<u32> {
        let by_time = !self.access.by_frequency();
        by_time.then(|| self.access.idle_seconds(entry.access_clock()))
    }

    /// How often an entry was accessed lately, on a logarithmic scale, where the clock tells that.
    #[must_use]
    pub fn frequency(&self, entry: EntryRef<'_>) -> Option<u32> {
        let by_frequency = self.access.by_frequency();
        by_frequency.then(|| self.access.frequency(entry.access_clock()))
    }

    fn note_missed(&self, key: &[u8]) {
        self.counted.misses.update(|misses| misses + 1);
        if self.effects.listens(EventClass::Missed) {
            let (behind, key) = (self.stale.borrow().len(), (self.options.database, key.into()));
            self.missed.borrow_mut().push(Missed { behind, key });
        }
    }

    #[cold]
    fn expired_entry<'a>(
        &self,
        partition: PartitionIndex,
        entry: EntryRef<'a>,
    ) -> Option<EntryRef<'a>> {
        let (keyspace, now) = (self.keyspace, self.options.now);
        if keyspace.settings().keeps_expired(now) || keyspace.importing().contain(partition) {
            // Another server decides when the key goes; until then it is absent for clients.
            return None;
        }
        let mut stale = self.stale.borrow_mut();
        let met = |&(database, ref key): &NamedKey| {
            database == self.options.database && **key == *entry.key()
        };
        // A loop over one key notes it once.
        if !stale.last().is_some_and(met) {
            stale.push((self.options.database, entry.key().into()));
        }
        None
    }
}

#[inline]
fn text_of(entry: EntryRef<'_>) -> Result<Text<'_>, Refusal> {
    entry.text().ok_or(Refusal::WrongType)
}
