//! A consumer group: how far it has read, what is pending, and which consumer owns that.
//!
//! Invariants: every pending entry that has an owner is among those the owner has, and the other
//! way round; the memory kept is that of all records, names and consumers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::counter::Counter;
use super::id::EntryId;
use super::records::{Record, Records};

/// A name that several places share.
pub(super) type Name = Arc<[u8]>;

/// What a name takes in a map beside its bytes: the counters of its `Arc`, its handle, a pointer to
/// the value, and the room that a map's nodes leave unused.
pub(super) const NAMED: usize = 64;

/// The owner of an entry that was given back to its group (`XNACK`).
const NOBODY: u32 = u32::MAX;

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingEntry {
    /// The entry, which may be deleted since.
    pub id: EntryId,
    /// When the entry was delivered last, in Unix milliseconds; 0 once it was given back.
    pub delivered_at: i64,
    /// How many times.
    pub deliveries: Counter,
    owner: u32,
}

/// A consumer group.
#[derive(Clone)]
pub struct ConsumerGroup {
    /// The last entry that was delivered.
    pub last_id: EntryId,
    /// How many entries of all that the stream ever had were read, if that is known.
    pub entries_read: Option<Counter>,
    pending: Records<PendingEntry>,
    consumers: BTreeMap<Name, Arc<Consumer>>,
    names: BTreeMap<u32, Name>,
    given_back: u64,
    memory_below: usize,
}

/// A consumer.
#[derive(Clone)]
pub struct Consumer {
    /// When the consumer last asked for anything, in Unix milliseconds.
    pub seen_at: i64,
    /// When the consumer last got anything; `None` until it did.
    pub active_at: Option<i64>,
    number: u32,
    owned: Records<EntryId>,
}

impl PendingEntry {
    /// Whether the entry was given back to its group, so that nobody owns it.
    #[must_use]
    pub fn is_given_back(&self) -> bool {
        self.owner == NOBODY
    }
}

impl Record for PendingEntry {
    fn id(&self) -> EntryId {
        self.id
    }

    fn time(&self) -> i64 {
        self.delivered_at
    }
}

impl Consumer {
    /// How many pending entries it owns.
    #[must_use]
    pub fn pending_count(&self) -> u64 {
        self.owned.len()
    }

    /// The IDs it owns from one on.
    pub fn owned_from(&self, id: EntryId) -> impl Iterator<Item = EntryId> {
        self.owned.from(id)
    }

    fn memory(&self) -> usize {
        size_of::<Consumer>() + self.owned.memory()
    }
}

impl ConsumerGroup {
    /// A group that goes on behind an ID.
    #[must_use]
    pub fn new(last_id: EntryId, entries_read: Option<Counter>) -> ConsumerGroup {
        ConsumerGroup {
            last_id,
            entries_read,
            pending: Records::default(),
            consumers: BTreeMap::new(),
            names: BTreeMap::new(),
            given_back: 0,
            memory_below: 0,
        }
    }

    /// Heap bytes, in O(1).
    pub(super) fn memory(&self) -> usize {
        size_of::<ConsumerGroup>() + self.pending.memory() + self.memory_below
    }

    /// How many entries are pending.
    #[must_use]
    pub fn pending_count(&self) -> u64 {
        self.pending.len()
    }

    /// How many of them nobody owns.
    #[must_use]
    pub fn given_back_count(&self) -> u64 {
        self.given_back
    }

    /// The first and the last ID that is pending.
    #[must_use]
    pub fn pending_bounds(&self) -> Option<(EntryId, EntryId)> {
        Some((self.pending.first()?.id, self.pending.last()?.id))
    }

    /// What is known of a pending entry.
    #[must_use]
    pub fn pending(&self, id: EntryId) -> Option<PendingEntry> {
        self.pending.get(id)
    }

    /// The pending entries from an ID on.
    pub fn pending_from(&self, id: EntryId) -> impl Iterator<Item = PendingEntry> {
        self.pending.from(id)
    }

    /// The pending entries, those first that were delivered longest ago; of one time by their IDs.
    pub fn pending_by_time(&self) -> impl Iterator<Item = PendingEntry> {
        self.pending.by_time()
    }

    /// The name of an entry's owner; empty if there is none.
    #[must_use]
    pub fn owner_of(&self, pending: &PendingEntry) -> &[u8] {
        self.names.get(&pending.owner).map_or(&[], |name| name)
    }

    /// All consumers by name.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = (&[u8], &Consumer)> {
        self.consumers.iter().map(|(name, consumer)| (&**name, &**consumer))
    }

    /// A consumer.
    #[must_use]
    pub fn consumer(&self, name: &[u8]) -> Option<&Consumer> {
        self.consumers.get(name).map(|consumer| &**consumer)
    }

    /// Makes a consumer; `false` if there is one of this name.
    pub fn create_consumer(&mut self, name: &[u8], now: i64) -> bool {
        if self.consumers.contains_key(name) {
            return false;
        }
        let last = self.names.last_key_value().map_or(0, |(number, _)| number + 1);
        let number = match last < NOBODY {
            true => last,
            // After four billion names, one that is free again.
            false => (0..NOBODY).find(|number| !self.names.contains_key(number)).unwrap_or(0),
        };
        let name = Name::from(name);
        let consumer =
            Consumer { seen_at: now, active_at: None, number, owned: Records::default() };
        self.memory_below += 2 * NAMED + name.len() + consumer.memory();
        self.names.insert(number, Arc::clone(&name));
        self.consumers.insert(name, Arc::new(consumer));
        true
    }

    /// Removes a consumer and all it has pending; tells how much that was.
    pub fn delete_consumer(&mut self, name: &[u8]) -> Option<u64> {
        let consumer = self.consumers.remove(name)?;
        self.names.remove(&consumer.number);
        self.memory_below -= 2 * NAMED + name.len() + consumer.memory();
        consumer.owned.from(EntryId::MIN).for_each(|id| _ = self.pending.remove(id));
        Some(consumer.owned.len())
    }

    /// Notes that a consumer asked for something.
    pub fn note_seen(&mut self, name: &[u8], now: i64) {
        self.edit_consumer(name, |consumer| consumer.seen_at = now);
    }

    /// Notes that a consumer got something.
    pub fn activate(&mut self, name: &[u8], now: i64) {
        self.edit_consumer(name, |consumer| consumer.active_at = Some(now));
    }

    /// Sets both times of a consumer, as they are known from elsewhere.
    pub fn set_times(&mut self, name: &[u8], seen_at: i64, active_at: Option<i64>) {
        self.edit_consumer(name, |consumer| {
            (consumer.seen_at, consumer.active_at) = (seen_at, active_at);
        });
    }

    /// Makes an entry pending, or changes what is known of it; a consumer that exists owns it then.
    pub fn deliver(&mut self, id: EntryId, name: &[u8], delivered_at: i64, deliveries: Counter) {
        let Some(owner) = self.consumers.get(name).map(|consumer| consumer.number) else { return };
        let old = self.pending.get(id);
        if old.is_none_or(|old| old.owner != owner) {
            self.part(old);
            self.edit_consumer(name, |consumer| consumer.owned.put(id));
        }
        self.pending.put(PendingEntry { id, delivered_at, deliveries, owner });
    }

    /// Gives a pending entry back to the group, or makes one pending that nobody owns.
    pub fn give_back(&mut self, id: EntryId, deliveries: Counter) {
        self.part(self.pending.get(id));
        self.given_back += 1;
        self.pending.put(PendingEntry { id, delivered_at: 0, deliveries, owner: NOBODY });
    }

    /// Forgets a pending entry; `false` if there is none.
    pub fn acknowledge(&mut self, id: EntryId) -> bool {
        let old = self.pending.remove(id);
        self.part(old);
        old.is_some()
    }

    /// Takes an entry from its owner.
    fn part(&mut self, pending: Option<PendingEntry>) {
        let Some(pending) = pending else { return };
        if pending.is_given_back() {
            self.given_back -= 1;
        }
        if let Some(name) = self.names.get(&pending.owner).cloned() {
            self.edit_consumer(&name, |consumer| _ = consumer.owned.remove(pending.id));
        }
    }

    fn edit_consumer(&mut self, name: &[u8], edit: impl FnOnce(&mut Consumer)) {
        if let Some(consumer) = self.consumers.get_mut(name) {
            let consumer = Arc::make_mut(consumer);
            self.memory_below -= consumer.memory();
            edit(consumer);
            self.memory_below += consumer.memory();
        }
    }
}
