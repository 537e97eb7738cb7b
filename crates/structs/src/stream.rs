//! The stream: entries by ID, and the groups that read them.
//!
//! ```text
//!  Stream
//!    Log       Tree<Node>, by entry ID
//!      node    [ one listpack, a node in the layout of Redis ]
//!    groups    name -> last ID, Tree<Page> of pending entries, consumers
//!      consumer  name -> times, Tree<Page> of the IDs it owns
//!    idempotence  what producers sent lately
//! ```
//!
//! A stream is always large: even an empty one has a last ID. A node is as large as
//! `stream-node-max-bytes` and `stream-node-max-entries` say, so DUMP and RDB carry it unchanged;
//! long values lie in it, too. A pending entry takes 40 bytes in its group and 16 with its owner.
//!
//! Costs: appending is a descent of two or three levels and a write at the end of a listpack; an
//! entry is found by a descent and a walk within a node; what is trimmed goes by whole nodes. A
//! clone takes O(1) and shares all that is not changed later.

mod counter;
mod group;
mod id;
mod idempotence;
mod log;
mod node;
mod records;
#[cfg(test)]
mod tests;
mod trim;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::counter::Counter;
pub use self::group::{Consumer, ConsumerGroup, PendingEntry};
pub use self::id::EntryId;
pub use self::idempotence::{Idempotence, IdempotenceLimits};
pub use self::log::{Removed, StreamIter};
pub use self::node::{EntryFields, NotANode, Pair, StreamEntry, StreamNode};
pub use self::trim::{References, Threshold, Trim, Trimmed};

use self::group::{NAMED, Name};
use self::log::Log;

/// Bytes of a node at most, whatever the directive says.
const NODE_BYTES_MAX: usize = 1 << 30;

/// Bytes of an entry's fields and values at most.
pub const ENTRY_BYTES_MAX: usize = 1 << 30;

/// How large a node may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// Bytes of the listpack; 0 for any number.
    pub bytes: usize,
    /// Entries, deleted ones among them; 0 for any number.
    pub entries: usize,
}

/// A stream; a clone shares everything with it.
#[derive(Clone, Default)]
pub struct Stream {
    log: Log,
    groups: ConsumerGroups,
    idempotence: Option<Arc<Idempotence>>,
    first_id: EntryId,
    last_id: EntryId,
    max_deleted_id: EntryId,
    entries_added: Counter,
    /// Whether the stream was made on purpose: then it stays, though it may be empty.
    is_kept: bool,
}

/// Groups by name.
#[derive(Clone, Default)]
struct ConsumerGroups {
    by_name: Arc<BTreeMap<Name, Arc<ConsumerGroup>>>,
    memory: usize,
}

/// A stream's own numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The greatest ID that an entry ever had.
    pub last_id: EntryId,
    /// The greatest ID of a single entry that was deleted.
    pub max_deleted_id: EntryId,
    /// How many entries were ever added.
    pub entries_added: Counter,
}

impl NodeLimits {
    fn bytes_max(self) -> usize {
        if self.bytes == 0 { NODE_BYTES_MAX } else { self.bytes.min(NODE_BYTES_MAX) }
    }
}

impl Stream {
    /// A stream of nodes in the order of their IDs, without groups.
    #[must_use]
    pub fn from_nodes(nodes: Vec<StreamNode>, counters: Counters) -> Stream {
        let mut stream = Stream { log: Log::from_nodes(nodes), ..Stream::default() };
        stream.set_counters(counters);
        stream.find_first();
        stream
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.log.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is a stream at all, though maybe an empty one.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Heap bytes, in O(1).
    pub(crate) fn memory(&self) -> usize {
        let idempotence = self.idempotence.as_ref().map_or(0, |it| it.memory());
        self.log.memory() + self.groups.memory + idempotence
    }

    /// The ID of the first entry; the least ID where there is none.
    #[must_use]
    pub fn first_id(&self) -> EntryId {
        self.first_id
    }

    /// The greatest ID that an entry ever had.
    #[must_use]
    pub fn last_id(&self) -> EntryId {
        self.last_id
    }

    /// The greatest ID of a single entry that was deleted.
    #[must_use]
    pub fn max_deleted_id(&self) -> EntryId {
        self.max_deleted_id
    }

    /// How many entries were ever added.
    #[must_use]
    pub fn entries_added(&self) -> Counter {
        self.entries_added
    }

    /// The nodes, in order.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = &StreamNode> {
        self.log.nodes()
    }

    /// How many nodes there are, in O(1).
    #[must_use]
    pub fn node_count(&self) -> u64 {
        self.log.node_count()
    }

    /// Has the stream stay, though it be empty.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Adds an entry; its ID must be above [`Stream::last_id`].
    pub fn append(&mut self, id: EntryId, pairs: &[Pair<'_>], limits: NodeLimits) {
        debug_assert!(id > self.last_id, "IDs rise");
        self.log.append(id, pairs, limits);
        self.is_kept = true;
        self.entries_added = self.entries_added.next();
        self.last_id = id;
        if self.log.len() == 1 {
            self.first_id = id;
        }
    }

    /// An entry.
    #[must_use]
    pub fn get(&self, id: EntryId) -> Option<StreamEntry<'_>> {
        self.log.get(id)
    }

    /// The entries from one ID to another, both included.
    pub fn range(&self, from: EntryId, to: EntryId) -> StreamIter<'_> {
        self.log.range(from, to)
    }

    /// As [`Stream::range`], the last entry first.
    pub fn range_back(&self, from: EntryId, to: EntryId) -> StreamIter<'_> {
        self.log.range_back(from, to)
    }

    /// How many entries are below an ID, but for what its node holds.
    #[must_use]
    pub fn about_below(&self, id: EntryId) -> u64 {
        self.log.about_below(id)
    }

    /// How many entries are from one ID to another, both included.
    #[must_use]
    pub fn count_between(&self, from: EntryId, to: EntryId) -> u64 {
        let up_to = to.next().map_or(self.len(), |next| self.log.below(next));
        up_to.saturating_sub(self.log.below(from))
    }

    /// How many entries are from one ID to another at most, to a node or two.
    #[must_use]
    pub fn about_between(&self, from: EntryId, to: EntryId) -> u64 {
        let node = |id| self.log.node_size(id);
        let below = self.about_below(to).saturating_sub(self.about_below(from));
        if from > to { 0 } else { below + node(to) }
    }

    /// Deletes the entries of these rising IDs; tells which there were, rising. The work is that of
    /// a walk through each node with such an entry, not one for each entry.
    pub fn delete_all(&mut self, ids: &[EntryId]) -> Vec<EntryId> {
        debug_assert!(ids.is_sorted_by(|one, next| one < next), "IDs rise");
        let found = self.log.delete_all(ids);
        if let (Some(first), Some(last)) = (found.first(), found.last()) {
            self.max_deleted_id = self.max_deleted_id.max(*last);
            if *first == self.first_id {
                self.find_first();
            }
        }
        found
    }

    /// Sets the numbers.
    pub fn set_counters(&mut self, counters: Counters) {
        let Counters { last_id, max_deleted_id, entries_added } = counters;
        (self.last_id, self.max_deleted_id) = (last_id, max_deleted_id);
        self.entries_added = entries_added;
        self.is_kept = true;
    }

    /// All groups by name.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&[u8], &ConsumerGroup)> {
        self.groups.by_name.iter().map(|(name, group)| (&**name, &**group))
    }

    /// A group.
    #[must_use]
    pub fn group(&self, name: &[u8]) -> Option<&ConsumerGroup> {
        self.groups.by_name.get(name).map(|group| &**group)
    }

    /// Makes a group; `false` if there is one of this name.
    pub fn create_group(&mut self, name: &[u8], group: ConsumerGroup) -> bool {
        if self.groups.by_name.contains_key(name) {
            return false;
        }
        self.is_kept = true;
        self.groups.memory += NAMED + name.len() + group.memory();
        Arc::make_mut(&mut self.groups.by_name).insert(Name::from(name), Arc::new(group));
        true
    }

    /// Removes a group; `false` if there is none of this name.
    pub fn destroy_group(&mut self, name: &[u8]) -> bool {
        if !self.groups.by_name.contains_key(name) {
            return false;
        }
        let group = Arc::make_mut(&mut self.groups.by_name).remove(name);
        self.groups.memory -= group.map_or(0, |group| NAMED + name.len() + group.memory());
        true
    }

    /// Changes a group; `None` if there is none of this name.
    pub fn edit_group<R>(
        &mut self,
        name: &[u8],
        edit: impl FnOnce(&mut ConsumerGroup) -> R,
    ) -> Option<R> {
        if !self.groups.by_name.contains_key(name) {
            return None;
        }
        let group = Arc::make_mut(&mut self.groups.by_name).get_mut(name)?;
        let group = Arc::make_mut(group);
        self.groups.memory -= group.memory();
        let result = edit(group);
        self.groups.memory += group.memory();
        Some(result)
    }

    /// Whether a group has not read an entry, or has it pending.
    #[must_use]
    pub fn is_referred_to(&self, id: EntryId) -> bool {
        self.groups.refer_to(id)
    }

    /// Makes every group forget that it has an entry pending; `false` if none has.
    pub fn forget(&mut self, id: EntryId) -> Vec<Arc<[u8]>> {
        let having = |(name, group): (&Name, &Arc<ConsumerGroup>)| {
            group.pending(id).is_some().then(|| Arc::clone(name))
        };
        let names: Vec<Name> = self.groups.by_name.iter().filter_map(having).collect();
        for name in &names {
            self.edit_group(name, |group| group.acknowledge(id));
        }
        names
    }

    /// Makes one group forget that it has an entry pending; whether it had.
    fn forget_in(&mut self, name: &Name, id: EntryId) -> bool {
        let group = self.groups.by_name.get(name);
        group.is_some_and(|group| group.pending(id).is_some())
            && self.edit_group(name, |group| group.acknowledge(id)) == Some(true)
    }

    /// What producers sent lately, if they say so.
    #[must_use]
    pub fn idempotence(&self) -> Option<&Idempotence> {
        self.idempotence.as_deref()
    }

    /// What producers sent lately, to be changed; a new record begins with these limits.
    pub fn idempotence_mut(&mut self, limits: IdempotenceLimits) -> &mut Idempotence {
        let new = || Arc::new(Idempotence::new(limits));
        Arc::make_mut(self.idempotence.get_or_insert_with(new))
    }

    /// Forgets what producers sent, and goes on with these limits.
    pub fn restart_idempotence(&mut self, limits: IdempotenceLimits) {
        self.idempotence = Some(Arc::new(Idempotence::new(limits)));
    }

    /// How many entries were added up to an ID, this one included, if that can be told.
    #[must_use]
    pub fn entries_up_to(&self, id: EntryId) -> Option<Counter> {
        if self.entries_added == Counter::default() {
            return Some(self.entries_added);
        }
        if self.is_empty() && id <= self.last_id {
            return Some(self.entries_added);
        }
        if id != EntryId::MIN && id < self.max_deleted_id {
            return None;
        }
        match id.cmp(&self.last_id) {
            std::cmp::Ordering::Equal => return Some(self.entries_added),
            std::cmp::Ordering::Greater => return None,
            std::cmp::Ordering::Less => {}
        }
        // Without a gap behind the first entry, what was added before is what is gone.
        if self.max_deleted_id != EntryId::MIN && self.max_deleted_id >= self.first_id {
            return None;
        }
        let gone = Counter::new(self.entries_added.get().saturating_sub(self.len()));
        match id.cmp(&self.first_id) {
            std::cmp::Ordering::Less => Some(gone),
            std::cmp::Ordering::Equal => Some(gone.next()),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// Whether single entries were deleted at or above an ID.
    #[must_use]
    pub fn has_gap_from(&self, id: EntryId) -> bool {
        !self.is_empty()
            && self.max_deleted_id != EntryId::MIN
            && self.first_id <= self.max_deleted_id
            && id <= self.max_deleted_id
    }

    /// How many entries a group has read after the next one, if that can be told.
    #[must_use]
    pub fn entries_read_by(
        &self,
        (last_id, entries_read): (EntryId, Option<Counter>),
        next: EntryId,
    ) -> Option<Counter> {
        match entries_read {
            Some(read) if last_id >= self.first_id && !self.has_gap_from(last_id) => {
                Some(read.next())
            }
            _ => self.entries_up_to(next),
        }
    }

    /// How many entries a group has still to read, if that can be told.
    #[must_use]
    pub fn lag_of(&self, group: &ConsumerGroup) -> Option<i64> {
        if self.is_empty() {
            return Some(0);
        }
        if group.last_id < self.first_id && self.max_deleted_id < self.first_id {
            return Some(self.len() as i64);
        }
        let read = match group.entries_read {
            Some(read) if !self.has_gap_from(group.last_id) => Some(read),
            _ => self.entries_up_to(group.last_id),
        };
        read.map(|read| self.entries_added.get() as i64 - read.get() as i64)
    }

    fn find_first(&mut self) {
        let first = self.log.range(EntryId::MIN, EntryId::MAX).next();
        self.first_id = first.map_or(EntryId::MIN, |item| item.id);
    }
}

impl ConsumerGroups {
    fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    fn refer_to(&self, id: EntryId) -> bool {
        self.by_name.values().any(|group| id > group.last_id || group.pending(id).is_some())
    }
}
