//! The large form of hashes and sets: members in hash order, packed in pages.
//!
//! ```text
//!  Tree<Page>     bounds are places in hash space, summaries count and know deadlines
//!    page         [ fingerprints | distances | room | items ]     at most 4 KB
//!      item       member, value in hashes, deadline if there is one
//! ```
//!
//! A member's *place* is the upper 53 bits of its keyed hash. Members of one place always lie in
//! one page: a page's bound is a place, and so is the cursor of a scan. Pages come in the order of
//! places, the members of a page in none.
//!
//! Costs: a member of 16 bytes takes about 23, and 8 more bytes of value about 10; a lookup is a
//! hash, a descent of two or three levels, and a comparison of one-byte fingerprints. A clone takes
//! O(1) and holds what there was: a change copies the path to its page, if a clone holds that too.
//!
//! A deadline is only kept here: whether it has passed, and what then, is for the caller to say.

mod build;
mod item;
mod overflow;
mod page;
mod sample;
mod text;

#[cfg(test)]
mod tests;

use std::ops::Range;

use base::{Random, UnixMillis};

pub use self::build::Builder;
pub(crate) use self::item::storable_deadline;
pub use self::page::{MemberPage, MemberPageSummary};
pub use self::sample::sample;
pub use self::text::{Long, Text};
use crate::prefetch::Seek;
use crate::secret;
use crate::tree::{Leaf, Leaves, Tree};

/// What belongs to a member.
pub trait Payload: Clone + Send + Sync + 'static {
    /// Whether there is a value.
    const VALUED: bool;
}

/// Nothing belongs to the members of a set.
impl Payload for () {
    const VALUED: bool = false;
}

/// A byte string belongs to each field of a hash.
#[derive(Clone, Copy, Debug)]
pub struct Valued;

impl Payload for Valued {
    const VALUED: bool = true;
}

/// How many times as long it takes to take a member out as to pass it.
pub const TAKEN_OUT: u64 = 50;

/// A member with what belongs to it, as it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRef<'a> {
    /// The member, or a hash's field.
    pub member: Text<'a>,
    /// The field's value; empty in a set.
    pub value: Text<'a>,
    /// When the member expires.
    pub deadline: Option<UnixMillis>,
}

/// What becomes of a member's deadline when its value is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// The lifetime stays as it is; a new member has none.
    Keep,
    /// There is none from now on.
    Endless,
    /// The lifetime is this. Told with 48 bits: what is before 1970 or after 10889 becomes the one
    /// or the other.
    Until(UnixMillis),
}

/// Members in hash order; clones share what they have in common.
///
/// Dropping the last clone takes time in proportion to the pages: send a big one to another thread
/// to be dropped.
pub struct Members<P: Payload> {
    tree: Tree<MemberPage<P>>,
}

impl<P: Payload> Members<P> {
    /// No members, without memory.
    pub const fn new() -> Members<P> {
        Members { tree: Tree::new() }
    }

    /// As [`Tree::address`].
    pub fn address(&self) -> Option<usize> {
        self.tree.address()
    }

    /// As [`Tree::memory_of_clones`].
    pub fn memory_of_clones(&self, clones: usize) -> usize {
        self.tree.memory_of_clones(clones)
    }

    /// As [`Tree::is_same`].
    pub fn is_same(&self, other: &Members<P>) -> bool {
        self.tree.is_same(&other.tree)
    }

    /// The number of members.
    pub fn len(&self) -> u64 {
        self.tree.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Heap bytes, in O(1). What clones share is counted in each of them.
    pub fn memory(&self) -> usize {
        self.tree.memory()
    }

    /// The earliest deadline, in O(1).
    pub fn earliest_deadline(&self) -> Option<UnixMillis> {
        self.tree.summary().earliest()
    }

    /// A member with what belongs to it.
    #[inline]
    pub fn get(&self, member: &[u8]) -> Option<MemberRef<'_>> {
        let hash = secret::hasher().hash(member);
        let page = self.tree.get(|bound| bound.cmp(&place(hash)))?;
        page.find(hash, member).map(|index| page.get(index))
    }

    /// Whether there is such a member.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        let hash = secret::hasher().hash(member);
        let page = self.tree.get(|bound| bound.cmp(&place(hash)));
        page.is_some_and(|page| page.find(hash, member).is_some())
    }

    /// Where a lookup of a member will end, to go there together with others.
    pub fn seek(&self, member: &[u8]) -> Option<Seek<'_>> {
        let hash = secret::hasher().hash(member);
        let page = self.tree.get(|bound| bound.cmp(&place(hash)))?;
        Some(Seek::new(page, hash))
    }

    /// Adds a member, or puts another value in its place; tells whether it is new.
    pub fn insert(&mut self, member: Text<'_>, value: Text<'_>, lifetime: Lifetime) -> bool {
        let mut buffer = Vec::new();
        let bytes = member.as_bytes(&mut buffer);
        self.edit(bytes, |page, hash, found| {
            let old = found.and_then(|index| page.deadline(index));
            let deadline = match lifetime {
                Lifetime::Keep => old,
                Lifetime::Endless => None,
                Lifetime::Until(deadline) => Some(deadline),
            };
            let new = MemberRef { member, value, deadline };
            match found {
                None => page.insert(hash, new),
                Some(_) if !P::VALUED && deadline == old => {}
                Some(index) => page.replace(index, hash, new),
            }
            found.is_none()
        })
    }

    /// Takes a member out; tells whether there was one.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        self.edit(member, |page, _, found| {
            if let Some(index) = found {
                page.remove(index);
            }
            found.is_some()
        })
    }

    /// Gives a member a deadline, or takes it away; tells whether there is such a member.
    pub fn set_deadline(&mut self, member: &[u8], deadline: Option<UnixMillis>) -> bool {
        if self.is_empty() {
            return false;
        }
        self.edit(member, |page, _, found| {
            if let Some(index) = found {
                page.set_deadline(index, deadline);
            }
            found.is_some()
        })
    }

    /// Takes members out whose deadline is at or before `now`, at most `limit`, and tells them.
    /// Goes only where there are any.
    pub fn take_expired(&mut self, now: UnixMillis, limit: usize) -> Vec<Vec<u8>> {
        let mut taken = Vec::new();
        while taken.len() < limit {
            let passed = |summary: &MemberPageSummary| summary.has_expired(now);
            let Some((_, rank)) = self.tree.find_summary(passed) else {
                break;
            };
            self.tree.edit_at(rank, |page, _| page.take_expired(now, limit, &mut taken));
        }
        taken
    }

    /// What [`Members::take_expired`] has to do, counted up to a limit: pages without such members
    /// are not looked into.
    pub fn expiry_work(&self, now: UnixMillis, limit: u64) -> u64 {
        let count = |page: &MemberPage<P>| (page.len() as u64, page.count_expired(now));
        count_expiry_work(&self.tree, |summary| summary.has_expired(now), count, limit)
    }

    /// The member of a number below the count. Which that is, any change may change.
    pub fn at(&self, index: u64) -> Option<MemberRef<'_>> {
        let (page, offset) = self.tree.at(index)?;
        Some(page.get(offset as usize))
    }

    /// Takes the member of a number out.
    pub fn take_at(&mut self, index: u64) -> Option<Vec<u8>> {
        if index >= self.len() {
            return None;
        }
        Some(self.tree.edit_at(index, |page, offset| {
            let member = page.get(offset as usize).member.to_vec();
            page.remove(offset as usize);
            member
        }))
    }

    /// A member, each equally likely.
    pub fn random(&self, random: &mut Random) -> Option<MemberRef<'_>> {
        self.at(random.below(self.len()))
    }

    /// All members.
    pub fn iter(&self) -> MembersIter<'_, P> {
        self.range(0..self.len())
    }

    /// The members of a range of numbers.
    pub fn range(&self, numbers: Range<u64>) -> MembersIter<'_, P> {
        MembersIter { pages: self.tree.leaves(numbers), page: None, offsets: 0..0 }
    }

    /// Members from a place on, about `count` of them, and the place to go on from: 0 at the end,
    /// as at the start. Places are below 2^53.
    ///
    /// Whatever is added or removed between the steps, a scan that goes on until the 0 has told
    /// every member that was there all the time. A member is told twice only if it was added anew.
    pub fn scan(&self, cursor: u64, count: usize) -> (u64, Vec<MemberRef<'_>>) {
        let mut found = Vec::new();
        let Some((mut page, mut rank)) = self.tree.find(|bound| bound.cmp(&cursor)) else {
            return (0, found);
        };
        loop {
            let mut last = None;
            let most = count.max(1) - found.len();
            let (order, is_whole) = page.first_by_place(cursor, most);
            for (hash, index) in order {
                // All members of one place are told in one step.
                if found.len() >= count.max(1) && last != Some(place(hash)) {
                    return (place(hash), found);
                }
                last = Some(place(hash));
                found.push(page.get(index));
            }
            if let Some(last) = last.filter(|_| !is_whole) {
                return (last + 1, found);
            }
            rank += page.len() as u64;
            let Some((next, _)) = self.tree.at(rank) else {
                return (0, found);
            };
            if let Some(last) = last.filter(|_| found.len() >= count.max(1)) {
                return (last + 1, found);
            }
            page = next;
        }
    }

    /// Edits the page where a member is or would be; the edit is told the hash and where it is.
    #[inline]
    fn edit<R>(
        &mut self,
        member: &[u8],
        edit: impl FnOnce(&mut MemberPage<P>, u64, Option<usize>) -> R,
    ) -> R {
        let hash = secret::hasher().hash(member);
        self.tree.edit_by(
            |bound| bound.cmp(&place(hash)),
            |page| {
                let found = page.find(hash, member);
                edit(page, hash, found)
            },
        )
    }
}

/// The members in the order of their places' pages.
pub struct MembersIter<'a, P: Payload> {
    pages: Leaves<'a, MemberPage<P>>,
    page: Option<&'a MemberPage<P>>,
    offsets: Range<usize>,
}

impl<'a, P: Payload> Iterator for MembersIter<'a, P> {
    type Item = MemberRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<MemberRef<'a>> {
        loop {
            if let (Some(page), Some(offset)) = (self.page, self.offsets.next()) {
                return Some(page.get(offset));
            }
            let (page, offsets) = self.pages.next()?;
            (self.page, self.offsets) = (Some(page), offsets);
        }
    }
}

impl<P: Payload> Clone for Members<P> {
    fn clone(&self) -> Members<P> {
        Members { tree: self.tree.clone() }
    }
}

impl<P: Payload> Default for Members<P> {
    fn default() -> Members<P> {
        Members::new()
    }
}

impl<'a> MemberRef<'a> {
    /// A member without value and deadline.
    pub fn plain(member: Text<'a>) -> MemberRef<'a> {
        MemberRef { member, value: Text::Bytes(&[]), deadline: None }
    }

    /// Whether its deadline, if it has one, lies after `now`.
    pub fn is_alive(&self, now: UnixMillis) -> bool {
        self.deadline.is_none_or(|deadline| deadline > now)
    }
}

/// The cost of taking out the members whose time is over, counted up to a limit: one for each that
/// is passed, and [`TAKEN_OUT`] for each that goes. `holds` says of a summary whether there are
/// any, `count` of a page how many members it has, and how many of these.
pub(crate) fn count_expiry_work<L: Leaf>(
    tree: &Tree<L>,
    holds: impl Fn(&L::Summary) -> bool,
    count: impl Fn(&L) -> (u64, u64),
    limit: u64,
) -> u64 {
    let (mut work, mut rank) = (0, 0);
    while work < limit {
        let Some((page, first)) = tree.find_summary_from(rank, &holds) else { break };
        let (members, expired) = count(page);
        work += members + expired * TAKEN_OUT;
        rank = first + members;
    }
    work
}

/// Where a hash lies: the cursor of a scan, which some clients read as a double.
#[inline]
fn place(hash: u64) -> u64 {
    hash >> (u64::BITS - PLACE_BITS)
}

const PLACE_BITS: u32 = 53;
