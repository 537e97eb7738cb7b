//! From a member to its score: the index of a large sorted set.
//!
//! ```text
//!  light   Tree<HashPage>    (upper 32 bits of the hash, score), ordered: 12 bytes a member
//!  full    Members           member and score: about 30 bytes more than the member
//! ```
//!
//! A light entry names its member by score and hash; the member is looked for among those of that
//! score in the ordered tree. So that this is never many, a member is light only if it came when
//! fewer than [`LIGHT_MAX`] had its score, and there are never more light ones of one score.

use super::page::{reserve, shrink};
use crate::members::{Lifetime, Members, Text, Valued};
use crate::secret;
use crate::tree::{Growth, Leaf, Summary, Tree};

/// Light members of one score.
pub(super) const LIGHT_MAX: usize = 16;

/// Bytes of a light entry.
const ENTRY: usize = 12;

/// The upper bits of a hash that light entries have.
pub(super) fn short_hash(member: &[u8]) -> u32 {
    (secret::hasher().hash(member) >> 32) as u32
}

/// Both parts; a clone shares everything with it.
#[derive(Clone, Default)]
pub(super) struct Index {
    pub(super) light: Tree<HashPage>,
    pub(super) full: Members<Valued>,
}

impl Index {
    /// As [`Tree::memory_of_clones`].
    pub(super) fn memory_of_clones(&self, clones: usize) -> usize {
        self.light.memory_of_clones(clones) + self.full.memory_of_clones(clones)
    }

    /// As [`Tree::is_same`].
    pub(super) fn is_same(&self, other: &Index) -> bool {
        self.light.is_same(&other.light) && self.full.is_same(&other.full)
    }

    /// The scores that a member may have if it is light.
    #[inline]
    pub(super) fn light_scores(&self, hash: u32) -> impl Iterator<Item = f64> {
        let found = self.light.get(|bound| bound.cmp(&hash));
        let entries = found.map_or(&[][..], |page| page.of_hash(hash));
        entries.iter().map(|entry| entry.score())
    }

    /// The score of a member that is not light.
    #[inline]
    pub(super) fn full_score(&self, member: &[u8]) -> Option<f64> {
        // Mostly no score is crowded: nothing to hash the member for.
        if self.full.is_empty() {
            return None;
        }
        self.full.get(member).map(|found| score_of(found.value))
    }

    pub(super) fn insert(&mut self, hash: u32, member: Text<'_>, score: f64, light: bool) {
        if light {
            let entry = IndexEntry::new(hash, score);
            self.light.edit_by(|bound| bound.cmp(&hash), |page| page.insert(entry));
        } else {
            let value = score.to_bits().to_le_bytes();
            self.full.insert(member, Text::Bytes(&value), Lifetime::Endless);
        }
    }

    pub(super) fn remove(&mut self, hash: u32, member: &[u8], score: f64, light: bool) {
        if light {
            let entry = IndexEntry::new(hash, score);
            self.light.edit_by(|bound| bound.cmp(&hash), |page| page.remove(entry));
        } else {
            self.full.remove(member);
        }
    }

    /// Gives a member another score. The entry may become light, or be so no longer.
    pub(super) fn replace(
        &mut self,
        hash: u32,
        member: Text<'_>,
        (old, was_light): (f64, bool),
        (new, is_light): (f64, bool),
    ) {
        if was_light && is_light {
            self.light.edit_by(
                |bound| bound.cmp(&hash),
                |page| page.replace(IndexEntry::new(hash, old), IndexEntry::new(hash, new)),
            );
            return;
        }
        if was_light || is_light {
            self.remove(hash, member.as_bytes(&mut Vec::new()), old, was_light);
        }
        self.insert(hash, member, new, is_light);
    }

    pub(super) fn memory(&self) -> usize {
        self.light.memory() + self.full.memory()
    }

    /// Light entries from a hash on, at least `count` of them, all of a hash together; and the
    /// hash to go on from, beyond all at the end.
    pub(super) fn scan_light(&self, from: u32, count: usize) -> (u64, Vec<IndexEntry>) {
        let mut entries: Vec<IndexEntry> = Vec::new();
        let Some((page, rank)) = self.light.find(|bound| bound.cmp(&from)) else {
            return (HASHES, entries);
        };
        let first = rank + page.before(from) as u64;
        for (page, offsets) in self.light.leaves(first..u64::MAX) {
            for entry in &page.0[offsets] {
                if entries.len() >= count && entries.last().is_some_and(|last| last.0 != entry.0) {
                    return (u64::from(entry.0), entries);
                }
                entries.push(*entry);
            }
        }
        (HASHES, entries)
    }
}

/// One more than the greatest short hash.
pub(super) const HASHES: u64 = 1 << 32;

/// The score that is a full entry's value.
pub(super) fn score_of(value: Text<'_>) -> f64 {
    let mut buffer = Vec::new();
    let bits = value.as_bytes(&mut buffer).try_into().expect("a score has eight bytes");
    f64::from_bits(u64::from_le_bytes(bits))
}

/// A short hash, and the halves of a score's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IndexEntry(u32, u32, u32);

impl IndexEntry {
    pub(super) fn new(hash: u32, score: f64) -> IndexEntry {
        // Adding zero makes minus zero zero, since both are the same score.
        let bits = (score + 0.0).to_bits();
        IndexEntry(hash, (bits >> 32) as u32, bits as u32)
    }

    pub(super) fn hash(self) -> u32 {
        self.0
    }

    pub(super) fn score(self) -> f64 {
        f64::from_bits(u64::from(self.1) << 32 | u64::from(self.2))
    }
}

/// Light entries in order.
#[derive(Clone, Default)]
pub(super) struct HashPage(Vec<IndexEntry>);

/// How many entries.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) struct Count(u64);

impl HashPage {
    /// How many entries have lower hashes. Hashes are spread evenly, so it is near where they
    /// would be if they were so exactly.
    #[inline]
    fn before(&self, hash: u32) -> usize {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else {
            return 0;
        };
        let span = u64::from(last.0 - first.0) + 1;
        let distance = u64::from(hash.saturating_sub(first.0)).min(span);
        let mut at = (distance * self.0.len() as u64 / span) as usize;
        while at > 0 && self.0[at - 1].0 >= hash {
            at -= 1;
        }
        while at < self.0.len() && self.0[at].0 < hash {
            at += 1;
        }
        at
    }

    /// Where an entry is or belongs.
    fn place(&self, entry: IndexEntry) -> usize {
        let first = self.before(entry.0);
        first + self.0[first..].iter().take_while(|other| **other < entry).count()
    }

    /// Puts another entry of the same hash in the place of one.
    fn replace(&mut self, old: IndexEntry, new: IndexEntry) {
        let mut at = self.place(old);
        assert_eq!(self.0.get(at), Some(&old), "a light member has an entry");
        self.0[at] = new;
        // Among the few of its hash it may have to move.
        while at > 0 && self.0[at - 1] > new {
            self.0.swap(at - 1, at);
            at -= 1;
        }
        while self.0.get(at + 1).is_some_and(|next| *next < new) {
            self.0.swap(at, at + 1);
            at += 1;
        }
    }

    #[inline]
    fn of_hash(&self, hash: u32) -> &[IndexEntry] {
        let rest = &self.0[self.before(hash)..];
        let count = rest.iter().take_while(|entry| entry.0 == hash).count();
        &rest[..count]
    }

    fn insert(&mut self, entry: IndexEntry) {
        let at = self.place(entry);
        reserve(&mut self.0, 1);
        self.0.insert(at, entry);
    }

    fn remove(&mut self, entry: IndexEntry) {
        let at = self.place(entry);
        let removed = self.0.remove(at);
        assert_eq!(removed, entry, "a light member has an entry");
        shrink(&mut self.0);
    }

    /// The place to divide nearest to `at` where the hashes differ.
    fn division(&self, at: usize) -> Option<usize> {
        let differ = |at: &usize| self.0[*at - 1].0 != self.0[*at].0;
        (at..self.0.len()).find(differ).or_else(|| (1..at).rev().find(differ))
    }
}

impl Leaf for HashPage {
    type Bound = u32;
    type Summary = Count;

    fn summary(&self) -> Count {
        Count(self.0.len() as u64)
    }

    fn size(&self) -> usize {
        self.0.len() * ENTRY
    }

    fn memory(&self) -> usize {
        self.0.capacity() * ENTRY
    }

    fn bound(&self) -> u32 {
        self.0[0].0
    }

    fn split(&mut self, _growth: Growth) -> Option<(u32, HashPage)> {
        let at = self.division((self.0.len() / 2).max(1))?;
        let upper = HashPage(self.0.split_off(at));
        shrink(&mut self.0);
        Some((upper.bound(), upper))
    }

    fn absorb(&mut self, mut next: HashPage) {
        reserve(&mut self.0, next.0.len());
        self.0.append(&mut next.0);
    }
}

impl Summary for Count {
    fn plus(self, other: Count) -> Count {
        Count(self.0 + other.0)
    }

    fn minus(self, part: Count) -> Option<Count> {
        Some(Count(self.0 - part.0))
    }

    fn count(self) -> u64 {
        self.0
    }
}

/// A tree of entries in any order.
pub(super) fn build_light(mut entries: Vec<IndexEntry>) -> Tree<HashPage> {
    /// So full that the first inserts split no page.
    const FILL: usize = crate::tree::LEAF_MAX / ENTRY * 7 / 8;
    entries.sort_unstable();
    let mut pages: Vec<HashPage> = Vec::new();
    let mut rest = &entries[..];
    while !rest.is_empty() {
        let mut len = rest.len().min(FILL);
        while len < rest.len() && rest[len - 1].0 == rest[len].0 {
            len += 1;
        }
        pages.push(HashPage(rest[..len].to_vec()));
        rest = &rest[len..];
    }
    Tree::from_leaves(pages)
}
