//! Records of fixed size in the order of entry IDs: what a group has pending, and what of that a
//! consumer owns.
//!
//! Invariant: a page holds rising IDs; its summary knows the earliest time among its records, so
//! what has been idle for long is found without a walk over the rest.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::ops::Range;

use super::id::EntryId;
use crate::tree::{Growth, LEAF_MAX, Leaf, Summary, Tree};

/// What has an entry's ID.
pub(super) trait Record: Copy {
    fn id(&self) -> EntryId;

    /// The time by which records are looked for, if they have one.
    fn time(&self) -> i64 {
        i64::MAX
    }
}

impl Record for EntryId {
    fn id(&self) -> EntryId {
        *self
    }
}

/// Records by ID.
#[derive(Clone)]
pub(super) struct Records<R: Record> {
    tree: Tree<RecordPage<R>>,
}

#[derive(Clone)]
pub(super) struct RecordPage<R>(Vec<R>);

/// How many records there are, and the earliest of their times.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Earliest {
    count: u64,
    time: i64,
}

/// A record by its time and its ID.
struct TimedRecord<R>((i64, EntryId), R);

impl<R> Ord for TimedRecord<R> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<R> PartialOrd for TimedRecord<R> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<R> PartialEq for TimedRecord<R> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<R> Eq for TimedRecord<R> {}

impl<R: Record> Default for Records<R> {
    fn default() -> Self {
        Records { tree: Tree::new() }
    }
}

impl<R: Record> Default for RecordPage<R> {
    fn default() -> Self {
        RecordPage(Vec::new())
    }
}

impl<R: Record> Records<R> {
    pub(super) fn len(&self) -> u64 {
        self.tree.len()
    }

    pub(super) fn memory(&self) -> usize {
        self.tree.memory()
    }

    pub(super) fn get(&self, id: EntryId) -> Option<R> {
        let page = self.tree.get(|bound| bound.cmp(&id))?;
        page.find(id).ok().map(|at| page.0[at])
    }

    /// Puts a record in, or in the place of the one with its ID.
    pub(super) fn put(&mut self, record: R) {
        let id = record.id();
        self.tree.edit_by(
            |bound| bound.cmp(&id),
            |page| match page.find(id) {
                Ok(at) => page.0[at] = record,
                Err(at) => {
                    page.make_room();
                    page.0.insert(at, record);
                }
            },
        );
    }

    pub(super) fn remove(&mut self, id: EntryId) -> Option<R> {
        let found = self.get(id)?;
        self.tree.edit_by(
            |bound| bound.cmp(&id),
            |page| {
                if let Ok(at) = page.find(id) {
                    page.0.remove(at);
                }
            },
        );
        Some(found)
    }

    pub(super) fn first(&self) -> Option<R> {
        self.tree.at(0).and_then(|(page, _)| page.0.first().copied())
    }

    pub(super) fn last(&self) -> Option<R> {
        self.tree.at(self.len().checked_sub(1)?).and_then(|(page, _)| page.0.last().copied())
    }

    /// All records from an ID on.
    pub(super) fn from(&self, id: EntryId) -> impl Iterator<Item = R> {
        self.ranks(self.rank_of(id)..self.len())
    }

    /// All records by their times, and those of one time by their IDs; pages are opened as they
    /// are come to.
    pub(super) fn by_time(&self) -> impl Iterator<Item = R> {
        let key = |summary: &Earliest, first: &EntryId| (summary.time, *first);
        let mut pages = self.tree.ranked_leaves(key);
        let mut opened = BinaryHeap::new();
        std::iter::from_fn(move || {
            // A page whose key is above a record's holds none that comes before that.
            while let Some(page) =
                pages.next_up_to(opened.peek().map(|Reverse(TimedRecord(next, _))| next))
            {
                let timed =
                    |record: &R| Reverse(TimedRecord((record.time(), record.id()), *record));
                opened.extend(page.0.iter().map(timed));
            }
            opened.pop().map(|Reverse(TimedRecord(_, record))| record)
        })
    }

    fn ranks(&self, ranks: Range<u64>) -> impl Iterator<Item = R> {
        self.tree.leaves(ranks).flat_map(|(page, offsets)| page.0[offsets].iter().copied())
    }

    /// How many records are below an ID.
    fn rank_of(&self, id: EntryId) -> u64 {
        let Some((page, rank)) = self.tree.find(|bound| bound.cmp(&id)) else { return 0 };
        rank + page.find(id).unwrap_or_else(|at| at) as u64
    }
}

impl<R: Record> RecordPage<R> {
    fn find(&self, id: EntryId) -> Result<usize, usize> {
        // Most records are added at the end.
        match self.0.last() {
            Some(last) if last.id() < id => Err(self.0.len()),
            _ => self.0.binary_search_by(|record| record.id().cmp(&id)),
        }
    }

    /// Makes room in steps that leave little unused in many pages.
    fn make_room(&mut self) {
        if self.0.len() == self.0.capacity() {
            self.0.reserve_exact((self.0.len() / 4).max(4));
        }
    }
}

impl Summary for Earliest {
    fn plus(self, other: Self) -> Self {
        Earliest { count: self.count + other.count, time: self.time.min(other.time) }
    }

    fn minus(self, part: Self) -> Option<Self> {
        let count = self.count - part.count;
        let is_known = part.time > self.time || part.time == i64::MAX;
        is_known.then_some(Earliest { count, time: self.time })
    }

    fn count(self) -> u64 {
        self.count
    }
}

impl Default for Earliest {
    fn default() -> Self {
        Earliest { count: 0, time: i64::MAX }
    }
}

impl<R: Record> Leaf for RecordPage<R> {
    type Bound = EntryId;
    type Summary = Earliest;

    fn summary(&self) -> Earliest {
        let time = self.0.iter().map(Record::time).min().unwrap_or(i64::MAX);
        Earliest { count: self.0.len() as u64, time }
    }

    fn size(&self) -> usize {
        self.0.len() * size_of::<R>()
    }

    fn memory(&self) -> usize {
        self.0.capacity() * size_of::<R>()
    }

    fn bound(&self) -> EntryId {
        self.0[0].id()
    }

    fn split(&mut self, growth: Growth) -> Option<(EntryId, RecordPage<R>)> {
        let len = self.0.len();
        let at = match growth {
            Growth::Within => len / 2,
            Growth::AtStart => len - (LEAF_MAX / size_of::<R>()).min(len - 1),
            Growth::AtEnd => (LEAF_MAX / size_of::<R>()).min(len - 1),
        };
        if at == 0 {
            return None;
        }
        let upper = RecordPage(self.0.split_off(at));
        self.0.shrink_to_fit();
        Some((upper.bound(), upper))
    }

    fn absorb(&mut self, mut next: RecordPage<R>) {
        self.0.append(&mut next.0);
    }
}
