//! The leaf: a page of members in no order, found by fingerprint.
//!
//! ```text
//!  0              count            3 * count            len - items_len          len
//!  | fingerprints | distances u16   | .. room ..        | item | item | .. | item |
//!                                                              |<-- distance ------|
//! ```
//!
//! The fingerprint is the low 8 bits of the member's hash; which leaf it lies in is decided by the
//! high ones. An item's distance is how far before the end of the page it begins, so that it stays
//! true when the page grows. Items lie without gaps. What is longer than [`WITHIN_MAX`] lies
//! beside the page.
//!
//! Pages are as long as an allocator's size classes, four to a doubling, so they carry about 8% of
//! room. A lookup compares fingerprints 32 at a time and, with 150 members, one wrong member in
//! two; an edit moves half a page of bytes.

mod edit;
mod fingerprint;

use std::marker::PhantomData;

use base::UnixMillis;

use fingerprint::BLOCK;

use super::item::{self, MemberItem, Part};
use super::overflow::PageOverflow;
use super::text::Text;
use super::{MemberRef, Payload, place};
use crate::prefetch::{self, PrefetchTarget};
use crate::secret;
use crate::tree::{Growth, Leaf, Summary};

/// Bytes that member and value may have together to lie both within the page.
const WITHIN_MAX: usize = 1024;

/// Bytes of an item's fingerprint and distance.
const ENTRY: usize = 3;

/// What stands for no deadline.
const NEVER: UnixMillis = UnixMillis::MAX;

/// A page of members.
pub struct MemberPage<P> {
    page: Box<[u8]>,
    overflow: Option<Box<PageOverflow>>,
    earliest: UnixMillis,
    items_len: u16,
    count: u16,
    /// How many members have a deadline, and of them the earliest.
    timed: u16,
    at_earliest: u16,
    payload: PhantomData<P>,
}

/// What a tree keeps of each page.
#[derive(Clone, Copy, PartialEq)]
pub struct MemberPageSummary {
    count: u64,
    earliest: UnixMillis,
}

impl<P: Payload> MemberPage<P> {
    /// The number of members.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there are no members. Never true of a page in a tree.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The member at a place within the page.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub fn get(&self, index: usize) -> MemberRef<'_> {
        let item = self.item(index);
        MemberRef {
            member: self.text(item.member),
            value: item.value.map_or(Text::Bytes(&[]), |value| self.text(value)),
            deadline: item.deadline,
        }
    }

    /// All members.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = MemberRef<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Where a member is.
    #[inline]
    pub(super) fn find(&self, hash: u64, member: &[u8]) -> Option<usize> {
        self.find_candidate(hash, |index| self.holds(index, hash, member))
    }

    /// The first of the members with a hash's fingerprint that satisfies a condition.
    #[inline]
    fn find_candidate(&self, hash: u64, mut holds: impl FnMut(usize) -> bool) -> Option<usize> {
        let (blocks, rest) = self.fingerprints().as_chunks::<BLOCK>();
        for (number, block) in blocks.iter().enumerate() {
            let matches = fingerprint::matches(block, hash as u8);
            if let Some(index) = find_among(number * BLOCK, matches, &mut holds) {
                return Some(index);
            }
        }
        // The last block is filled up with what no search for this hash finds.
        let mut last = [!(hash as u8); BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        let matches = fingerprint::matches(&last, hash as u8);
        find_among(blocks.len() * BLOCK, matches, &mut holds)
    }

    /// When a member expires.
    pub(super) fn deadline(&self, index: usize) -> Option<UnixMillis> {
        MemberItem::read_deadline(self.item_bytes(index))
    }

    /// How many members have a deadline at or before `now`.
    pub(super) fn count_expired(&self, now: UnixMillis) -> u64 {
        let is_passed =
            |index: &usize| self.deadline(*index).is_some_and(|deadline| deadline <= now);
        (0..self.len()).filter(is_passed).count() as u64
    }

    /// The hashes and numbers of the members, in the order of their hashes.
    fn by_place(&self) -> Vec<(u64, usize)> {
        self.first_by_place(0, usize::MAX).0
    }

    /// Those of the first members from a place on: so many, and all that are of the place behind
    /// them. Whether these are all.
    pub(super) fn first_by_place(&self, least: u64, most: usize) -> (Vec<(u64, usize)>, bool) {
        let mut order: Vec<(u64, usize)> = (0..self.len())
            .map(|index| (self.hash(index), index))
            .filter(|(hash, _)| place(*hash) >= least)
            .collect();
        let is_whole = order.len() <= most.saturating_add(1);
        if !is_whole {
            let (_, (behind, _), _) = order.select_nth_unstable(most);
            let end = place(*behind);
            order.retain(|(hash, _)| place(*hash) <= end);
        }
        order.sort_unstable();
        (order, is_whole)
    }

    /// An empty page with room for so many bytes of elements.
    pub(super) fn with_room(bytes: usize) -> MemberPage<P> {
        MemberPage { page: new_page(bytes), ..MemberPage::default() }
    }

    /// A page of different members, each with its hash.
    pub(super) fn of(members: &[(u64, MemberRef<'_>)]) -> MemberPage<P> {
        let size = members.iter().map(|(_, member)| Self::size_of(*member)).sum();
        let mut page = MemberPage { count: members.len() as u16, ..MemberPage::with_room(size) };
        for (index, (hash, member)) in members.iter().enumerate() {
            page.fill_in(index, *hash, *member);
        }
        page
    }

    /// Bytes of the fingerprint, distance and item of a member.
    pub(super) fn size_of(new: MemberRef<'_>) -> usize {
        let (member_beside, value_beside) = overflow(new.member.len(), new.value.len());
        let within = |text: Text<'_>, beside: bool| (!beside).then(|| text.len());
        let (member, value) = (within(new.member, member_beside), within(new.value, value_beside));
        ENTRY + item::len_of(member, P::VALUED.then_some(value), new.deadline.is_some())
    }

    fn fingerprints(&self) -> &[u8] {
        &self.page[..self.len()]
    }

    /// Where the distance of an item stands.
    #[inline]
    fn distance_start(&self, index: usize) -> usize {
        self.len() + 2 * index
    }

    #[inline]
    fn distance(&self, index: usize) -> usize {
        let start = self.distance_start(index);
        usize::from(u16::from_le_bytes([self.page[start], self.page[start + 1]]))
    }

    fn set_distance(&mut self, index: usize, distance: u16) {
        let start = self.distance_start(index);
        self.page[start..start + 2].copy_from_slice(&distance.to_le_bytes());
    }

    #[inline]
    fn item_bytes(&self, index: usize) -> &[u8] {
        &self.page[self.page.len() - self.distance(index)..]
    }

    fn item_bytes_mut(&mut self, index: usize) -> &mut [u8] {
        let start = self.page.len() - self.distance(index);
        &mut self.page[start..]
    }

    #[inline]
    fn item(&self, index: usize) -> MemberItem<'_> {
        MemberItem::read(self.item_bytes(index), P::VALUED)
    }

    #[inline]
    fn text<'a>(&'a self, part: Part<'a>) -> Text<'a> {
        match part {
            Part::Within(bytes) => Text::Bytes(bytes),
            Part::PageOverflow(slot) => Text::Long(self.slots().get(slot)),
        }
    }

    fn slots(&self) -> &PageOverflow {
        self.overflow.as_deref().expect("an item's slot exists")
    }

    #[inline]
    fn holds(&self, index: usize, hash: u64, member: &[u8]) -> bool {
        match MemberItem::read_member(self.item_bytes(index)) {
            Part::Within(bytes) => bytes == member,
            Part::PageOverflow(slot) => {
                let slots = self.slots();
                slots.hash(slot) == hash && Text::Long(slots.get(slot)) == Text::Bytes(member)
            }
        }
    }

    fn hash(&self, index: usize) -> u64 {
        match MemberItem::read_member(self.item_bytes(index)) {
            Part::Within(bytes) => secret::hasher().hash(bytes),
            Part::PageOverflow(slot) => self.slots().hash(slot),
        }
    }

    /// A page of some of these members.
    fn gather(&self, chosen: &[(u64, usize)]) -> MemberPage<P> {
        let lens: Vec<usize> = chosen.iter().map(|(_, index)| self.item(*index).len()).collect();
        let items_len: usize = lens.iter().sum();
        let mut page = MemberPage::with_room(ENTRY * chosen.len() + items_len);
        page.count = chosen.len() as u16;
        page.items_len = items_len as u16;
        let mut distance = 0;
        for (number, ((_, index), len)) in chosen.iter().zip(lens).enumerate() {
            distance += len as u16;
            page.page[number] = self.page[*index];
            page.set_distance(number, distance);
            let bytes = &self.item_bytes(*index)[..len];
            page.item_bytes_mut(number)[..len].copy_from_slice(bytes);
            page.count_deadline(MemberItem::read_deadline(bytes));
        }
        if let Some(slots) = &self.overflow {
            page.overflow = slots.only(page.slot_numbers()).map(Box::new);
        }
        page
    }

    /// The slots that items name.
    fn slot_numbers(&self) -> impl Iterator<Item = u16> {
        (0..self.len()).flat_map(|index| {
            let item = self.item(index);
            [Some(item.member), item.value].into_iter().flatten().filter_map(|part| match part {
                Part::PageOverflow(slot) => Some(slot),
                Part::Within(_) => None,
            })
        })
    }
}

impl<P: Payload> Leaf for MemberPage<P> {
    /// A place in hash space: all members are at or above it.
    type Bound = u64;
    type Summary = MemberPageSummary;

    fn summary(&self) -> MemberPageSummary {
        MemberPageSummary { count: u64::from(self.count), earliest: self.earliest }
    }

    fn size(&self) -> usize {
        ENTRY * self.len() + usize::from(self.items_len)
    }

    fn memory(&self) -> usize {
        self.page.len() + self.overflow.as_ref().map_or(0, |slots| slots.memory())
    }

    fn bound(&self) -> u64 {
        (0..self.len()).map(|index| place(self.hash(index))).min().unwrap_or(0)
    }

    fn split(&mut self, _: Growth) -> Option<(u64, MemberPage<P>)> {
        let order = self.by_place();
        let mut below = 0;
        let mut cut = None;
        for number in 1..order.len() {
            below += ENTRY + self.item(order[number - 1].1).len();
            if place(order[number].0) != place(order[number - 1].0) {
                cut = Some(number);
                if below >= self.size() / 2 {
                    break;
                }
            }
        }
        let (lower, upper) = order.split_at(cut?);
        let upper_page = self.gather(upper);
        *self = self.gather(lower);
        Some((place(upper[0].0), upper_page))
    }

    fn absorb(&mut self, next: MemberPage<P>) {
        self.make_room(next.size());
        for index in 0..next.len() {
            // Of a member within the page, only the fingerprint is asked for.
            let hash = match next.item(index).member {
                Part::Within(_) => u64::from(next.page[index]),
                Part::PageOverflow(slot) => next.slots().hash(slot),
            };
            self.insert(hash, next.get(index));
        }
    }
}

impl<P: Payload> PrefetchTarget for MemberPage<P> {
    #[inline]
    fn approach(&self, hash: u64, step: usize, place: &mut usize) {
        match step {
            0 => prefetch::value(self),
            1 => prefetch::bytes(self.fingerprints()),
            2 => {
                // Mostly the first one with the fingerprint is the one, if any is.
                *place = self.find_candidate(hash, |_| true).unwrap_or(self.len());
                if *place < self.len() {
                    prefetch::line(self.page[self.distance_start(*place)..].as_ptr());
                }
            }
            _ if *place < self.len() => prefetch::line(self.item_bytes(*place).as_ptr()),
            _ => {}
        }
    }
}

impl<P> Default for MemberPage<P> {
    fn default() -> MemberPage<P> {
        MemberPage {
            page: Box::default(),
            overflow: None,
            earliest: NEVER,
            items_len: 0,
            count: 0,
            timed: 0,
            at_earliest: 0,
            payload: PhantomData,
        }
    }
}

impl<P> Clone for MemberPage<P> {
    fn clone(&self) -> MemberPage<P> {
        MemberPage { page: self.page.clone(), overflow: self.overflow.clone(), ..*self }
    }
}

impl MemberPageSummary {
    /// The earliest deadline.
    #[must_use]
    pub fn earliest(self) -> Option<UnixMillis> {
        (self.earliest != NEVER).then_some(self.earliest)
    }

    /// Whether there is a deadline at or before `now`.
    #[must_use]
    pub fn has_expired(self, now: UnixMillis) -> bool {
        self.earliest <= now && self.earliest != NEVER
    }
}

impl Summary for MemberPageSummary {
    fn plus(self, other: MemberPageSummary) -> MemberPageSummary {
        MemberPageSummary {
            count: self.count + other.count,
            earliest: self.earliest.min(other.earliest),
        }
    }

    fn minus(self, part: MemberPageSummary) -> Option<MemberPageSummary> {
        let count = self.count - part.count;
        let is_known = part.earliest > self.earliest || part.earliest == NEVER;
        is_known.then_some(MemberPageSummary { count, earliest: self.earliest })
    }

    fn count(self) -> u64 {
        self.count
    }
}

impl Default for MemberPageSummary {
    fn default() -> MemberPageSummary {
        MemberPageSummary { count: 0, earliest: NEVER }
    }
}

#[cfg(test)]
impl<P: Payload> MemberPage<P> {
    /// Bytes of the page itself.
    pub(super) fn page_len(&self) -> usize {
        self.page.len()
    }

    /// Asserts what the head of this file promises, and that the counters are true.
    pub(super) fn check(&self) {
        let mut covered: Vec<_> = (0..self.len())
            .map(|index| (self.distance(index), self.distance(index) - self.item(index).len()))
            .collect();
        covered.sort_unstable();
        let end = covered.iter().fold(0, |end, (distance, item_end)| {
            assert_eq!(end, *item_end, "items lie without gaps");
            *distance
        });
        assert_eq!(end, usize::from(self.items_len));
        assert_eq!(self.page.len(), size_class(self.page.len()));
        for index in 0..self.len() {
            assert_eq!(self.fingerprints()[index], self.hash(index) as u8);
        }
        let deadlines = (0..self.len()).filter_map(|index| self.deadline(index));
        assert_eq!(deadlines.clone().count(), usize::from(self.timed));
        assert_eq!(deadlines.clone().min().unwrap_or(NEVER), self.earliest);
        let earliest = deadlines.filter(|deadline| *deadline == self.earliest);
        assert_eq!(earliest.count(), usize::from(self.at_earliest));
        let mut slots: Vec<u16> = self.slot_numbers().collect();
        slots.sort_unstable();
        assert_eq!(slots, self.overflow.as_ref().map_or(Vec::new(), |slots| slots.full()));
    }
}

/// The first that satisfies a condition of the members from `start` on that these bits name.
#[inline]
fn find_among(
    start: usize,
    mut matches: u32,
    holds: &mut impl FnMut(usize) -> bool,
) -> Option<usize> {
    while matches != 0 {
        let index = start + matches.trailing_zeros() as usize;
        if holds(index) {
            return Some(index);
        }
        matches &= matches - 1;
    }
    None
}

/// Which of member and value lie beside the page: the longer one, and the other if it is long too.
fn overflow(member: usize, value: usize) -> (bool, bool) {
    let both = member + value > WITHIN_MAX;
    let member_first = member >= value;
    (both && (member_first || member > WITHIN_MAX), both && (!member_first || value > WITHIN_MAX))
}

fn new_page(bytes: usize) -> Box<[u8]> {
    vec![0; size_class(bytes)].into_boxed_slice()
}

/// The size that an allocator gives for so many bytes: four classes to a doubling.
fn size_class(bytes: usize) -> usize {
    bytes.next_multiple_of((bytes.next_power_of_two() / 8).max(16))
}
