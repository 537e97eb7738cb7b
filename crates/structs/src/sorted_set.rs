//! The sorted set: members with scores, ordered by score and then by bytes; small as a listpack,
//! large as [`Ordered`].
//!
//! Beyond [`SortedSetLimits`] it becomes large, as Redis turns a listpack into a skip list, and
//! never small again. Beyond [`PACKED_MAX`] bytes it becomes large, too, of which clients see
//! nothing: [`SortedSetRef::encoding`] goes on to name what the limits ask for.
//!
//! What is asked of a range is answered in two steps: [`SortedSetRef::ranks_by_score`] and
//! [`SortedSetRef::ranks_by_member`] give the ranks in O(log n), so their number is the count; and
//! all that reads or removes a range goes by ranks.
//!
//! Only the large form knows deadlines of members. A member whose deadline has passed is a member
//! like any other here. No score is NaN; minus zero equals zero.

mod index;
mod ordered;
mod packed;
mod page;
#[cfg(test)]
mod tests;

use std::ops::{Bound, Range};

use base::{Random, UnixMillis};

pub use self::ordered::Ordered;
use self::page::Cut;
pub use self::page::SortedSetPage;
use crate::members::Text;
use crate::packing::{PACKED_MAX, Packed, PackedRef};

/// Beyond what a sorted set is called a skip list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortedSetLimits {
    /// Members, `zset-max-listpack-entries`.
    pub entries: u64,
    /// Bytes of a member, `zset-max-listpack-value`.
    pub value_bytes: usize,
}

/// A member with its score and deadline, as it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ItemRef<'a> {
    /// The member.
    pub member: Text<'a>,
    /// What the item is ordered by; never NaN.
    pub score: f64,
    /// When the member expires.
    pub deadline: Option<UnixMillis>,
}

/// A sorted set, to be changed.
#[derive(Clone)]
pub enum SortedSet {
    /// A listpack.
    Packed(Packed),
    /// Many members, or long ones, or some with a deadline.
    Large(LargeSortedSet),
}

/// A sorted set where it lies.
#[derive(Clone, Copy)]
pub enum SortedSetRef<'a> {
    /// A listpack.
    Packed(PackedRef<'a>),
    /// Many members, or long ones, or some with a deadline.
    Large(&'a LargeSortedSet),
}

/// The large form; a clone shares everything with it.
#[derive(Clone, Default)]
pub struct LargeSortedSet {
    ordered: Ordered,
    /// Whether the limits ask for the small form.
    within_limits: bool,
}

impl SortedSet {
    /// An empty sorted set for as many members as a command brings, the longest of so many bytes.
    pub fn for_members(count: u64, longest: usize, limits: &SortedSetLimits) -> SortedSet {
        if count <= limits.entries && longest <= limits.value_bytes {
            SortedSet::default()
        } else {
            SortedSet::Large(LargeSortedSet::default())
        }
    }

    /// Makes ready for as many members as a command brings, be they there, equal or not to be
    /// added: Redis goes by that number, not by what comes of it.
    pub fn expect(&mut self, count: u64, limits: &SortedSetLimits) {
        if count > limits.entries {
            self.enlarge().within_limits = false;
        }
    }

    /// A sorted set of different members that come in order; small if it may be.
    pub fn from_sorted(items: &[ItemRef<'_>], limits: &SortedSetLimits) -> SortedSet {
        let longest = items.iter().map(|item| item.member.len()).max().unwrap_or(0);
        let is_timed = items.iter().any(|item| item.deadline.is_some());
        let mut set = SortedSet::for_members(items.len() as u64, longest, limits);
        match &mut set {
            SortedSet::Packed(_) if !is_timed => {
                for item in items {
                    set.insert(item.member, item.score, limits);
                }
            }
            _ => {
                let ordered = Ordered::from_sorted(items.iter().copied());
                set = SortedSet::Large(LargeSortedSet { ordered, within_limits: false });
            }
        }
        set
    }

    /// The sorted set, to be read.
    #[must_use]
    pub fn borrow(&self) -> SortedSetRef<'_> {
        match self {
            SortedSet::Packed(packed) => SortedSetRef::Packed(packed.borrow()),
            SortedSet::Large(large) => SortedSetRef::Large(large),
        }
    }

    /// Adds a member, or gives it another score, in which case its deadline stays; tells the score
    /// it had. The score is not NaN.
    pub fn insert(
        &mut self,
        member: Text<'_>,
        score: f64,
        limits: &SortedSetLimits,
    ) -> Option<f64> {
        if let SortedSet::Packed(packed) = self {
            let mut buffer = Vec::new();
            let found = packed::find(packed.borrow(), member.as_bytes(&mut buffer));
            let old = found.map(|(_, item)| item.score);
            if old == Some(score) {
                return old;
            }
            if let Some((rank, _)) = found {
                packed::remove_ranks(packed, rank..rank + 1);
            }
            let len = packed.bytes.len() + packed::len_of(member, score);
            if old.is_none() && !self.has_room(member.len(), limits) {
                self.enlarge().within_limits = false;
            } else if len > PACKED_MAX {
                self.enlarge();
            }
            match self {
                SortedSet::Packed(packed) => packed::insert(packed, member, score),
                SortedSet::Large(large) => {
                    large.ordered.insert(member, score);
                }
            }
            return old;
        }
        let outgrown = !self.has_room(member.len(), limits);
        let large = self.enlarge();
        let old = large.ordered.insert(member, score);
        large.within_limits &= old.is_some() || !outgrown;
        old
    }

    /// Takes a member out; tells the score it had.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match self {
            SortedSet::Packed(packed) => {
                let (rank, item) = packed::find(packed.borrow(), member)?;
                let score = item.score;
                packed::remove_ranks(packed, rank..rank + 1);
                Some(score)
            }
            SortedSet::Large(large) => large.ordered.remove(member),
        }
    }

    /// Takes the members of a range of ranks out, as far as there are so many.
    pub fn remove_ranks(&mut self, ranks: Range<u64>) {
        match self {
            SortedSet::Packed(packed) => packed::remove_ranks(packed, ranks),
            SortedSet::Large(large) => large.ordered.remove_ranks(ranks),
        }
    }

    /// Gives a member a deadline, which makes the set large, or takes it away; tells whether there
    /// is such a member.
    pub fn set_deadline(&mut self, member: &[u8], deadline: Option<UnixMillis>) -> bool {
        let found = self.borrow().get(member).is_some();
        if found && deadline.is_some() {
            self.enlarge().within_limits = false;
        }
        if let SortedSet::Large(large) = self {
            large.ordered.set_deadline(member, deadline);
        }
        found
    }

    /// Takes members out whose deadline is at or before `now`, at most `limit`, and tells them.
    pub fn take_expired(&mut self, now: UnixMillis, limit: usize) -> Vec<Vec<u8>> {
        match self {
            SortedSet::Packed(_) => Vec::new(),
            SortedSet::Large(large) => large.ordered.take_expired(now, limit),
        }
    }

    /// Whether the limits allow one more member.
    fn has_room(&self, len: usize, limits: &SortedSetLimits) -> bool {
        self.borrow().len() < limits.entries && len <= limits.value_bytes
    }

    fn enlarge(&mut self) -> &mut LargeSortedSet {
        if let SortedSet::Packed(packed) = self {
            let ordered = Ordered::from_sorted(packed::items(packed.borrow()));
            *self = SortedSet::Large(LargeSortedSet { ordered, within_limits: true });
        }
        match self {
            SortedSet::Large(large) => large,
            SortedSet::Packed(_) => unreachable!("it was made large"),
        }
    }
}

impl Default for SortedSet {
    fn default() -> SortedSet {
        SortedSet::Packed(packed::new())
    }
}

impl<'a> SortedSetRef<'a> {
    /// The number of members.
    pub fn len(self) -> u64 {
        match self {
            SortedSetRef::Packed(packed) => packed::len(packed),
            SortedSetRef::Large(large) => large.ordered.len(),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// A member with its score and deadline.
    pub fn get(self, member: &[u8]) -> Option<ItemRef<'a>> {
        match self {
            SortedSetRef::Packed(packed) => packed::find(packed, member).map(|(_, item)| item),
            SortedSetRef::Large(large) => large.ordered.get(member),
        }
    }

    /// The score of a member.
    pub fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            SortedSetRef::Packed(packed) => {
                packed::find(packed, member).map(|(_, item)| item.score)
            }
            SortedSetRef::Large(large) => large.ordered.score(member),
        }
    }

    /// How many members lie before this one, with its score.
    pub fn rank(self, member: &[u8]) -> Option<(u64, f64)> {
        match self {
            SortedSetRef::Packed(packed) => {
                packed::find(packed, member).map(|(rank, item)| (rank, item.score))
            }
            SortedSetRef::Large(large) => large.ordered.rank(member),
        }
    }

    /// The member of a rank.
    pub fn at(self, rank: u64) -> Option<ItemRef<'a>> {
        match self {
            SortedSetRef::Packed(packed) => packed::items(packed).nth(usize::try_from(rank).ok()?),
            SortedSetRef::Large(large) => large.ordered.at(rank),
        }
    }

    /// A member, each equally likely.
    pub fn random(self, random: &mut Random) -> Option<ItemRef<'a>> {
        self.at(random.below(self.len()))
    }

    /// The ranks of the members whose scores lie in a range.
    pub fn ranks_by_score(self, least: Bound<f64>, most: Bound<f64>) -> Range<u64> {
        let cut = |score, after| Cut { score: Some(score), member: None, after };
        self.ranks(least, most, cut)
    }

    /// The ranks of the members that lie in a range of bytes, if all scores are equal. If not,
    /// those that Redis finds in a listpack, looked for from the end if `falling`; of a large set
    /// some range, as there.
    pub fn ranks_by_member(
        self,
        least: Bound<&[u8]>,
        most: Bound<&[u8]>,
        falling: bool,
    ) -> Range<u64> {
        match self {
            SortedSetRef::Packed(packed) => packed::ranks_by_member(packed, least, most, falling),
            SortedSetRef::Large(large) => {
                // Bounds of pages have members only between equal scores.
                let score = large.ordered.at(0).map(|item| item.score);
                self.ranks(least, most, |member, after| Cut { score, member: Some(member), after })
            }
        }
    }

    fn ranks<'b, T>(
        self,
        least: Bound<T>,
        most: Bound<T>,
        cut: impl Fn(T, bool) -> Cut<'b>,
    ) -> Range<u64> {
        let start = match least {
            Bound::Unbounded => 0,
            Bound::Included(least) => self.count_before(&cut(least, false)),
            Bound::Excluded(least) => self.count_before(&cut(least, true)),
        };
        let end = match most {
            Bound::Unbounded => self.len(),
            Bound::Included(most) => self.count_before(&cut(most, true)),
            Bound::Excluded(most) => self.count_before(&cut(most, false)),
        };
        start..end.max(start)
    }

    fn count_before(self, cut: &Cut<'_>) -> u64 {
        match self {
            SortedSetRef::Packed(packed) => packed::count_before(packed, cut),
            SortedSetRef::Large(large) => large.ordered.count_before(cut),
        }
    }

    /// The members of a range of ranks, rising.
    pub fn items(self, ranks: Range<u64>) -> impl Iterator<Item = ItemRef<'a>> {
        match self {
            SortedSetRef::Packed(packed) => {
                Either::Packed(clip(packed::items(packed), ranks.start, ranks))
            }
            SortedSetRef::Large(large) => Either::Large(large.ordered.items(ranks)),
        }
    }

    /// The members of a range of ranks, falling.
    pub fn items_back(self, ranks: Range<u64>) -> impl Iterator<Item = ItemRef<'a>> {
        let len = self.len();
        let ranks = ranks.start..ranks.end.min(len);
        match self {
            SortedSetRef::Packed(packed) => {
                Either::Packed(clip(packed::items(packed).rev(), len - ranks.end, ranks))
            }
            SortedSetRef::Large(large) => Either::Large(large.ordered.items(ranks).rev()),
        }
    }

    /// Members from a cursor on, and the next cursor, as [`Ordered::scan`]; all at once of a small
    /// set.
    pub fn scan(self, cursor: u64, count: usize) -> (u64, Vec<ItemRef<'a>>) {
        match self {
            SortedSetRef::Packed(packed) => (0, packed::items(packed).collect()),
            SortedSetRef::Large(large) => large.ordered.scan(cursor, count),
        }
    }

    /// The earliest deadline of a member.
    pub fn earliest_deadline(self) -> Option<UnixMillis> {
        match self {
            SortedSetRef::Packed(_) => None,
            SortedSetRef::Large(large) => large.ordered.earliest_deadline(),
        }
    }

    /// What [`SortedSet::take_expired`] has to do, as [`Members::expiry_work`] counts.
    ///
    /// [`Members::expiry_work`]: crate::members::Members::expiry_work
    pub fn expiry_work(self, now: UnixMillis, limit: u64) -> u64 {
        match self {
            SortedSetRef::Packed(_) => 0,
            SortedSetRef::Large(large) => large.ordered.expiry_work(now, limit),
        }
    }

    /// The form by the name that Redis gives it: the one that the limits ask for.
    pub fn encoding(self) -> &'static str {
        match self {
            SortedSetRef::Large(LargeSortedSet { within_limits: false, .. }) => "skiplist",
            _ => "listpack",
        }
    }

    /// A copy to be changed; of a large set it shares everything.
    #[must_use]
    pub fn to_owned(self) -> SortedSet {
        match self {
            SortedSetRef::Packed(packed) => SortedSet::Packed(packed.to_owned()),
            SortedSetRef::Large(large) => SortedSet::Large(large.clone()),
        }
    }
}

impl LargeSortedSet {
    /// The members in order.
    pub fn ordered(&self) -> &Ordered {
        &self.ordered
    }

    /// Heap bytes, in O(1). What clones share is counted in each of them.
    pub fn memory(&self) -> usize {
        self.ordered.memory()
    }
}

/// As many items as a range of ranks has, after the first few.
fn clip<'a>(
    items: impl Iterator<Item = ItemRef<'a>>,
    skipped: u64,
    ranks: Range<u64>,
) -> impl Iterator<Item = ItemRef<'a>> {
    let count = ranks.end.saturating_sub(ranks.start);
    let clamp = |number| usize::try_from(number).unwrap_or(usize::MAX);
    items.skip(clamp(skipped)).take(clamp(count))
}

/// The items of one of both forms.
enum Either<P, L> {
    Packed(P),
    Large(L),
}

impl<'a, P, L> Iterator for Either<P, L>
where
    P: Iterator<Item = ItemRef<'a>>,
    L: Iterator<Item = ItemRef<'a>>,
{
    type Item = ItemRef<'a>;

    fn next(&mut self) -> Option<ItemRef<'a>> {
        match self {
            Either::Packed(items) => items.next(),
            Either::Large(items) => items.next(),
        }
    }
}
