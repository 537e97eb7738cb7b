//! The large form: a tree of members in order, and an index from member to score.
//!
//! Invariants: each member of the tree is in the index, light or full as its item says, with the
//! item's score; the index has no others.
//!
//! Costs: a member of 16 bytes takes about 45 bytes in all. A score is a descent in the index and
//! one in the tree; a rank the same; ranges cost their elements. A clone takes O(1).

use std::ops::Range;

use base::UnixMillis;

use super::ItemRef;
use super::index::{HASHES, Index, IndexEntry, LIGHT_MAX, build_light, score_of, short_hash};
use super::page::{Cut, NewItem, SortedSetPage, SortedSetPageSummary, Taken, compare_scores};
use crate::members::{Builder, MemberRef, Text, count_expiry_work, storable_deadline};
use crate::tree::{LEAF_MAX, Leaf, Tree};

/// Up to so many elements are removed one by one rather than by cutting the tree.
const FEW: u64 = 32;

/// Members in the order of score and bytes; clones share what they have in common.
///
/// Dropping the last clone takes time in proportion to the pages: send a big one to another thread
/// to be dropped.
#[derive(Clone, Default)]
pub struct Ordered {
    pub(super) tree: Tree<SortedSetPage>,
    pub(super) index: Index,
}

/// Where a member is.
struct MemberLocation<'a> {
    page: &'a SortedSetPage,
    offset: usize,
}

impl MemberLocation<'_> {
    fn score(&self) -> f64 {
        self.page.score(self.offset)
    }
}

impl Ordered {
    /// As [`Tree::address`].
    pub fn address(&self) -> Option<usize> {
        self.tree.address()
    }

    /// As [`Tree::memory_of_clones`].
    pub fn memory_of_clones(&self, clones: usize) -> usize {
        self.tree.memory_of_clones(clones) + self.index.memory_of_clones(clones)
    }

    /// As [`Tree::is_same`].
    pub fn is_same(&self, other: &Ordered) -> bool {
        self.tree.is_same(&other.tree) && self.index.is_same(&other.index)
    }

    /// The number of members, in O(1).
    pub fn len(&self) -> u64 {
        self.tree.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Heap bytes, in O(1). What clones share is counted in each of them.
    pub fn memory(&self) -> usize {
        self.tree.memory() + self.index.memory()
    }

    /// A member with its score and deadline.
    pub fn get(&self, member: &[u8]) -> Option<ItemRef<'_>> {
        let found = self.locate(short_hash(member), member)?;
        Some(found.page.get(found.offset))
    }

    /// The score of a member.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        let light = self.locate_light(short_hash(member), member).map(|found| found.score());
        light.or_else(|| self.index.full_score(member))
    }

    /// How many members lie before this one, with its score.
    pub fn rank(&self, member: &[u8]) -> Option<(u64, f64)> {
        let score = self.score(member)?;
        Some((self.count_before(&exactly(score, member)), score))
    }

    /// The member of a rank.
    pub fn at(&self, rank: u64) -> Option<ItemRef<'_>> {
        let (page, offset) = self.tree.at(rank)?;
        Some(page.get(offset as usize))
    }

    /// How many members lie before a place.
    pub(super) fn count_before(&self, cut: &Cut<'_>) -> u64 {
        let found = self.tree.find(|bound| cut.compare_bound(bound));
        found.map_or(0, |(page, rank)| rank + page.count_before(cut) as u64)
    }

    /// The members of a range of ranks, from both ends.
    pub fn items(&self, ranks: Range<u64>) -> impl DoubleEndedIterator<Item = ItemRef<'_>> {
        let parts = self.tree.leaves(ranks);
        parts.flat_map(|(page, offsets)| offsets.map(move |offset| page.get(offset)))
    }

    /// Adds a member, or gives it another score; its deadline stays. Tells the score it had.
    pub fn insert(&mut self, member: Text<'_>, score: f64) -> Option<f64> {
        let mut buffer = Vec::new();
        let bytes = member.as_bytes(&mut buffer);
        let hash = short_hash(bytes);
        match self.take_former(hash, bytes, score) {
            None => {
                let new = NewItem { score, member, deadline: None, in_index: false };
                let is_light = self.add_to_tree(bytes, new);
                self.index.insert(hash, member, score, is_light);
                None
            }
            Some(PreviousScore::Alike) => Some(score),
            Some(PreviousScore::Taken(old, Taken { in_index, deadline, long })) => {
                let member = long.as_ref().map_or(member, Text::Long);
                let new = NewItem { score, member, deadline, in_index: false };
                let is_light = self.add_to_tree(bytes, new);
                self.index.replace(hash, member, (old, !in_index), (score, is_light));
                Some(old)
            }
        }
    }

    /// Takes a member out; tells its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let hash = short_hash(member);
        let found = self.locate(hash, member)?;
        let (score, offset) = (found.score(), found.offset);
        let light = !found.page.in_index(found.offset);
        self.index.remove(hash, member, score, light);
        self.edit(score, member, |page| page.remove(offset));
        Some(score)
    }

    /// Takes the members of a range of ranks out.
    pub fn remove_ranks(&mut self, ranks: Range<u64>) {
        let end = ranks.end.min(self.len());
        let count = end.saturating_sub(ranks.start);
        if count == self.len() {
            *self = Ordered::default();
            return;
        }
        if count <= FEW {
            for _ in 0..count {
                self.tree.edit_at(ranks.start, |page, offset| {
                    forget(&mut self.index, page, offset as usize);
                    page.remove(offset as usize);
                });
            }
            return;
        }
        let removed =
            self.tree.remove_range(ranks.start..end, |page, offset| page.cut_at(offset as usize));
        for (page, offsets) in removed.leaves(0..count) {
            offsets.for_each(|offset| forget(&mut self.index, page, offset));
        }
    }

    /// Gives a member a deadline, or takes it away; tells whether there is such a member.
    pub fn set_deadline(&mut self, member: &[u8], deadline: Option<UnixMillis>) -> bool {
        let Some(found) = self.locate(short_hash(member), member) else {
            return false;
        };
        let (score, offset) = (found.score(), found.offset);
        if found.page.deadline(offset) != deadline.map(storable_deadline) {
            self.edit(score, member, |page| page.set_deadline(offset, deadline));
        }
        true
    }

    /// The earliest deadline, in O(1).
    pub fn earliest_deadline(&self) -> Option<UnixMillis> {
        self.tree.summary().earliest()
    }

    /// What [`Ordered::take_expired`] has to do, counted up to a limit: pages without such members
    /// are not looked into.
    pub fn expiry_work(&self, now: UnixMillis, limit: u64) -> u64 {
        let count = |page: &SortedSetPage| (page.len() as u64, expired(page, now).count() as u64);
        count_expiry_work(&self.tree, |summary| summary.has_expired(now), count, limit)
    }

    /// Takes members out whose deadline is at or before `now`, at most `limit`, and tells them.
    /// Goes only where there are any.
    pub fn take_expired(&mut self, now: UnixMillis, limit: usize) -> Vec<Vec<u8>> {
        let mut taken = Vec::new();
        let passed = |summary: &SortedSetPageSummary| summary.has_expired(now);
        while taken.len() < limit {
            let Some((page, first)) = self.tree.find_summary(passed) else {
                break;
            };
            let offsets: Vec<usize> = expired(page, now).take(limit - taken.len()).collect();
            for offset in &offsets {
                taken.push(page.member(*offset).to_vec());
                forget(&mut self.index, page, *offset);
            }
            self.tree.edit_at(first, |page, _| {
                offsets.iter().for_each(|offset| page.remove(*offset));
            });
        }
        taken
    }

    /// Members from a cursor on, about `count` of them, and the cursor to go on from: 0 at the end,
    /// as at the start. Cursors are at most 2^32.
    ///
    /// The order is that of the hashes, which no change of a score alters. Whatever happens between
    /// the steps, a scan that goes on until the 0 has told every member that was there all the
    /// time.
    pub fn scan(&self, cursor: u64, count: usize) -> (u64, Vec<ItemRef<'_>>) {
        let Ok(from) = u32::try_from(cursor) else {
            return (0, Vec::new());
        };
        if from == 0 && count as u64 >= self.len() {
            // No caller is to go on: the order of the scores is as good, and costs no search for
            // each.
            return (0, self.items(0..self.len()).collect());
        }
        let count = count.max(1);
        let (light_end, mut entries) = self.index.scan_light(from, count);
        let (full_end, members) = self.scan_full(from, count);
        entries.dedup();
        let end = light_end.min(full_end);
        let mut found = Vec::new();
        for entry in entries.into_iter().filter(|entry| u64::from(entry.hash()) < end) {
            self.resolve_light(entry, &mut found);
        }
        for (hash, member) in members {
            if u64::from(hash) < end {
                found.push(self.resolve_full(member));
            }
        }
        (if end == HASHES { 0 } else { end }, found)
    }

    /// A tree of different members that come in order.
    pub fn from_sorted<'a>(items: impl IntoIterator<Item = ItemRef<'a>>) -> Ordered {
        let mut pages: Vec<SortedSetPage> = Vec::new();
        let (mut page, mut entries, mut full) =
            (SortedSetPage::default(), Vec::new(), Builder::new());
        let (mut last_score, mut of_score) = (f64::NAN, 0);
        for item in items {
            of_score = if item.score == last_score { of_score + 1 } else { 1 };
            last_score = item.score;
            let in_index = of_score > LIGHT_MAX;
            let ItemRef { member, score, deadline } = item;
            page.insert(page.len(), NewItem { score, member, deadline, in_index });
            if in_index {
                let value = score.to_bits().to_le_bytes();
                full.push(MemberRef { member, value: Text::Bytes(&value), deadline: None });
            } else {
                entries.push(IndexEntry::new(short_hash(member.as_bytes(&mut Vec::new())), score));
            }
            if page.size() > LEAF_MAX {
                let last = page.cut_at(page.len() - 1);
                pages.push(std::mem::replace(&mut page, last));
            }
        }
        if !page.is_empty() {
            pages.push(page);
        }
        let index = Index { light: build_light(entries), full: full.finish() };
        Ordered { tree: Tree::from_leaves(pages), index }
    }

    fn locate(&self, hash: u32, member: &[u8]) -> Option<MemberLocation<'_>> {
        let light = self.locate_light(hash, member);
        light.or_else(|| self.find(self.index.full_score(member)?, member))
    }

    fn locate_light(&self, hash: u32, member: &[u8]) -> Option<MemberLocation<'_>> {
        self.index.light_scores(hash).find_map(|score| self.find(score, member))
    }

    /// The element with this score and member.
    fn find(&self, score: f64, member: &[u8]) -> Option<MemberLocation<'_>> {
        let cut = exactly(score, member);
        let page = self.tree.get(|bound| cut.compare_bound(bound))?;
        let offset = page.count_before(&cut);
        page.holds(offset, score, member).then_some(MemberLocation { page, offset })
    }

    /// Edits the page that an element lies in, or would.
    fn edit<R>(
        &mut self,
        score: f64,
        member: &[u8],
        edit: impl FnOnce(&mut SortedSetPage) -> R,
    ) -> R {
        let cut = exactly(score, member);
        self.tree.edit_by(|bound| cut.compare_bound(bound), edit)
    }

    /// Takes a member out of the tree that is given a score, unless it has that already.
    fn take_former(&mut self, hash: u32, member: &[u8], score: f64) -> Option<PreviousScore> {
        let Ordered { tree, index } = self;
        let mut light = index.light_scores(hash);
        let former = light.find_map(|old| take_unless(tree, old, member, score));
        former.or_else(|| take_unless(tree, index.full_score(member)?, member, score))
    }

    /// Puts a new element into its place; tells whether it has become a light one.
    fn add_to_tree(&mut self, bytes: &[u8], new: NewItem<'_>) -> bool {
        let cut = exactly(new.score, bytes);
        let placed = self.edit(new.score, bytes, |page| {
            let place = page.count_before(&cut);
            let light = page.has_few(place, new.score, LIGHT_MAX)?;
            page.insert(place, NewItem { in_index: !light, ..new });
            Some(light)
        });
        placed.unwrap_or_else(|| {
            // The page's neighbours may have more of the score.
            let of_score = |after| Cut { score: Some(new.score), member: None, after };
            let first = self.count_before(&of_score(false));
            let light = self.count_before(&of_score(true)) - first < LIGHT_MAX as u64;
            self.edit(new.score, bytes, |page| {
                page.insert(page.count_before(&cut), NewItem { in_index: !light, ..new });
            });
            light
        })
    }

    /// Tells the members that a light entry stands for: one, but for a rare chance.
    fn resolve_light<'a>(&'a self, entry: IndexEntry, found: &mut Vec<ItemRef<'a>>) {
        let score = entry.score();
        let cut = Cut { score: Some(score), member: None, after: false };
        let mut from = self.count_before(&cut);
        while let Some((page, first)) =
            self.tree.find_summary_from(from, SortedSetPageSummary::has_light)
        {
            let start = from.saturating_sub(first) as usize;
            for offset in start..page.len() {
                if compare_scores(page.score(offset), score).is_gt() {
                    return;
                }
                if page.in_index(offset) {
                    continue;
                }
                let item = page.get(offset);
                if short_hash(item.member.as_bytes(&mut Vec::new())) == entry.hash() {
                    found.push(item);
                }
            }
            from = first + page.len() as u64;
        }
    }

    fn resolve_full<'a>(&'a self, member: MemberRef<'a>) -> ItemRef<'a> {
        let score = score_of(member.value);
        let deadline = self.earliest_deadline().and_then(|_| {
            let found = self.find(score, member.member.as_bytes(&mut Vec::new()))?;
            found.page.deadline(found.offset)
        });
        ItemRef { member: member.member, score, deadline }
    }

    /// Full entries with their short hashes, as [`Index::scan_light`].
    fn scan_full(&self, from: u32, count: usize) -> (u64, Vec<(u32, MemberRef<'_>)>) {
        let mut more = count;
        loop {
            let (next, members) = self.index.full.scan(u64::from(from) << PLACE_SHIFT, more);
            let end = if next == 0 { HASHES } else { next >> PLACE_SHIFT };
            // A step may end between members of one short hash, which must be told together.
            if end > u64::from(from) {
                let hashed =
                    |member: MemberRef<'_>| short_hash(member.member.as_bytes(&mut Vec::new()));
                let members = members.into_iter().map(|member| (hashed(member), member));
                return (end, members.collect());
            }
            more *= 2;
        }
    }
}

/// A place in hash space, of 53 bits, has so many below the short hash.
const PLACE_SHIFT: u32 = 21;

/// The place of an element.
fn exactly(score: f64, member: &[u8]) -> Cut<'_> {
    Cut { score: Some(score), member: Some(member), after: false }
}

/// What there was of a member that is given a score.
enum PreviousScore {
    /// All that is to be.
    Alike,
    /// Another score, and this belonged to it.
    Taken(f64, Taken),
}

/// Takes the element with a score and a member out of the tree, unless it is to keep this score.
fn take_unless(
    tree: &mut Tree<SortedSetPage>,
    old: f64,
    member: &[u8],
    score: f64,
) -> Option<PreviousScore> {
    let cut = exactly(old, member);
    if old == score {
        let page = tree.get(|bound| cut.compare_bound(bound))?;
        return page.holds(page.count_before(&cut), old, member).then_some(PreviousScore::Alike);
    }
    tree.edit_by(
        |bound| cut.compare_bound(bound),
        |page| {
            let place = page.count_before(&cut);
            page.holds(place, old, member).then(|| PreviousScore::Taken(old, page.take(place)))
        },
    )
}

/// The offsets of the members whose time is over, the last one first.
fn expired(page: &SortedSetPage, now: UnixMillis) -> impl Iterator<Item = usize> {
    let is_passed =
        move |offset: &usize| page.deadline(*offset).is_some_and(|deadline| deadline <= now);
    (0..page.len()).rev().filter(is_passed)
}

/// Takes an element of a page out of the index.
fn forget(index: &mut Index, page: &SortedSetPage, offset: usize) {
    let mut buffer = Vec::new();
    let member = page.member(offset).as_bytes(&mut buffer);
    index.remove(short_hash(member), member, page.score(offset), !page.in_index(offset));
}
