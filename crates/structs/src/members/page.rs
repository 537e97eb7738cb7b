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

use std::marker::PhantomData;

use base::UnixMillis;

use super::beside::Beside;
use super::item::{self, DEADLINE, Item, Part, told};
use super::text::{Long, Text};
use super::{MemberRef, Payload, place};
use crate::secret;
use crate::tree::{Growth, Leaf, Summary};

/// Bytes that member and value may have together to lie both within the page.
const WITHIN_MAX: usize = 1024;

/// Bytes of an item's fingerprint and distance.
const ENTRY: usize = 3;

/// Fingerprints that are looked at together.
const BLOCK: usize = 32;

/// What stands for no deadline.
const NEVER: UnixMillis = UnixMillis::MAX;

/// A page of members.
pub struct Page<P> {
    page: Box<[u8]>,
    beside: Option<Box<Beside>>,
    earliest: UnixMillis,
    items_len: u16,
    count: u16,
    /// How many members have a deadline.
    timed: u16,
    payload: PhantomData<P>,
}

/// What a tree keeps of each page.
#[derive(Clone, Copy)]
pub struct PageSummary {
    count: u64,
    earliest: UnixMillis,
}

impl<P: Payload> Page<P> {
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
        let fingerprint = hash as u8;
        let mut start = 0;
        for block in self.fingerprints().chunks(BLOCK) {
            // Written so that the compiler compares all bytes at once.
            let any = match block.as_array::<BLOCK>() {
                Some(block) => block.iter().fold(false, |any, byte| any | (*byte == fingerprint)),
                None => true,
            };
            if any {
                let mut found = (start..).zip(block).filter(|(_, byte)| **byte == fingerprint);
                if let Some((index, _)) = found.find(|(index, _)| self.holds(*index, hash, member))
                {
                    return Some(index);
                }
            }
            start += BLOCK;
        }
        None
    }

    /// Adds a member that is not here.
    pub(super) fn insert(&mut self, hash: u64, new: MemberRef<'_>) {
        let mut buffers = [Vec::new(), Vec::new()];
        let item = self.lay(hash, new, &mut buffers);
        let (len, count) = (item.len(), self.len());
        self.make_room(ENTRY + len);
        self.page.copy_within(count..ENTRY * count, count + 1);
        self.page[count] = hash as u8;
        self.count += 1;
        self.items_len += len as u16;
        self.set_distance(count, self.items_len);
        item.write(&mut self.item_bytes_mut(count)[..len]);
        self.count_deadline(item.deadline);
    }

    /// Puts another value and deadline in place of those of a member.
    pub(super) fn replace(&mut self, index: usize, hash: u64, new: MemberRef<'_>) {
        let old = self.item(index);
        let (old_len, old_deadline) = (old.len(), old.deadline);
        let long = self.release(index);
        // What lies beside already is not copied again.
        let member = long.as_ref().map_or(new.member, Text::Long);
        let mut buffers = [Vec::new(), Vec::new()];
        let item = self.lay(hash, MemberRef { member, ..new }, &mut buffers);
        let len = item.len();
        self.resize_item(index, old_len, len);
        item.write(&mut self.item_bytes_mut(index)[..len]);
        let deadline = item.deadline;
        self.recount_deadline(old_deadline, deadline);
    }

    /// When a member expires.
    pub(super) fn deadline(&self, index: usize) -> Option<UnixMillis> {
        Item::read_deadline(self.item_bytes(index))
    }

    /// Gives a member a deadline, or takes it away.
    pub(super) fn set_deadline(&mut self, index: usize, deadline: Option<UnixMillis>) {
        let (old, len) = (self.deadline(index), self.item(index).len());
        match deadline {
            Some(deadline) if old.is_some() => {
                item::set_deadline(self.item_bytes_mut(index), deadline, false);
            }
            Some(deadline) => {
                self.resize_item(index, len, len + DEADLINE);
                item::set_deadline(self.item_bytes_mut(index), deadline, true);
            }
            None if old.is_some() => {
                item::clear_deadline(self.item_bytes_mut(index));
                self.resize_item(index, len, len - DEADLINE);
            }
            None => {}
        }
        self.recount_deadline(old, deadline.map(told));
    }

    /// Takes a member out.
    pub(super) fn remove(&mut self, index: usize) {
        let deadline = self.remove_unsettled(index);
        if deadline == Some(self.earliest) {
            self.find_earliest();
        }
        self.shrink();
    }

    /// Takes members out whose deadline is at or before `now`, at most `limit`, and tells them.
    pub(super) fn take_expired(&mut self, now: UnixMillis, limit: usize, taken: &mut Vec<Vec<u8>>) {
        for index in (0..self.len()).rev() {
            if taken.len() >= limit {
                break;
            }
            if self.deadline(index).is_some_and(|deadline| deadline <= now) {
                taken.push(self.get(index).member.to_vec());
                self.remove_unsettled(index);
            }
        }
        self.find_earliest();
        self.shrink();
    }

    /// The members from a place in hash space on, in the order of their places.
    pub(super) fn from_place(&self, least: u64) -> Vec<(u64, usize)> {
        let mut order: Vec<(u64, usize)> = (0..self.len())
            .map(|index| (self.hash(index), index))
            .filter(|(hash, _)| place(*hash) >= least)
            .collect();
        order.sort_unstable();
        order
    }

    /// An empty page with room for so many bytes of elements.
    pub(super) fn with_room(bytes: usize) -> Page<P> {
        Page { page: new_page(bytes), ..Page::default() }
    }

    /// Makes the page no larger than it has to be.
    pub(super) fn trim(&mut self) {
        if size_class(self.size()) < self.page.len() {
            self.move_to(new_page(self.size()));
        }
    }

    /// Bytes of the fingerprint, distance and item of a member.
    pub(super) fn size_of(new: MemberRef<'_>) -> usize {
        // The longest heads there are.
        let (member_beside, value_beside) = beside(new.member.len(), new.value.len());
        let within = |text: Text<'_>, beside: bool| if beside { 0 } else { text.len() };
        ENTRY + 12 + within(new.member, member_beside) + within(new.value, value_beside)
    }

    fn fingerprints(&self) -> &[u8] {
        &self.page[..self.len()]
    }

    #[inline]
    fn distance(&self, index: usize) -> usize {
        let start = self.len() + 2 * index;
        usize::from(u16::from_le_bytes([self.page[start], self.page[start + 1]]))
    }

    fn set_distance(&mut self, index: usize, distance: u16) {
        let start = self.len() + 2 * index;
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
    fn item(&self, index: usize) -> Item<'_> {
        Item::read(self.item_bytes(index), P::VALUED)
    }

    #[inline]
    fn text<'a>(&'a self, part: Part<'a>) -> Text<'a> {
        match part {
            Part::Within(bytes) => Text::Bytes(bytes),
            Part::Beside(slot) => Text::Long(self.slots().get(slot)),
        }
    }

    fn slots(&self) -> &Beside {
        self.beside.as_deref().expect("an item's slot exists")
    }

    #[inline]
    fn holds(&self, index: usize, hash: u64, member: &[u8]) -> bool {
        match self.item(index).member {
            Part::Within(bytes) => bytes == member,
            Part::Beside(slot) => {
                let slots = self.slots();
                slots.hash(slot) == hash && Text::Long(slots.get(slot)) == Text::Bytes(member)
            }
        }
    }

    fn hash(&self, index: usize) -> u64 {
        match self.item(index).member {
            Part::Within(bytes) => secret::hasher().hash(bytes),
            Part::Beside(slot) => self.slots().hash(slot),
        }
    }

    /// The item of a member; what is long is put beside the page.
    fn lay<'b>(
        &mut self,
        hash: u64,
        new: MemberRef<'b>,
        buffers: &'b mut [Vec<u8>; 2],
    ) -> Item<'b> {
        let (member_beside, value_beside) = beside(new.member.len(), new.value.len());
        let [member, value] = buffers;
        let mut part = |text: Text<'b>, beside: bool, buffer: &'b mut Vec<u8>| {
            if beside {
                let slots = self.beside.get_or_insert_default();
                Part::Beside(slots.add(text.to_long(), hash))
            } else {
                Part::Within(text.as_bytes(buffer))
            }
        };
        Item {
            member: part(new.member, member_beside, member),
            value: P::VALUED.then(|| part(new.value, value_beside, value)),
            deadline: new.deadline.map(told),
        }
    }

    /// Empties the slots of an item, and hands out what the member's slot held.
    fn release(&mut self, index: usize) -> Option<Long> {
        let item = Item::read(&self.page[self.page.len() - self.distance(index)..], P::VALUED);
        let slots = self.beside.as_deref_mut()?;
        if let Some(Part::Beside(slot)) = item.value {
            slots.remove(slot);
        }
        match item.member {
            Part::Beside(slot) => Some(slots.remove(slot)),
            Part::Within(_) => None,
        }
    }

    /// Makes an item longer or shorter: what lies before it moves.
    fn resize_item(&mut self, index: usize, old_len: usize, len: usize) {
        self.make_room(len.saturating_sub(old_len));
        let count = self.len();
        let distance = self.distance(index);
        let end = self.page.len();
        let first = end - usize::from(self.items_len);
        // Wrapping: the difference may be negative.
        let longer = (len as u16).wrapping_sub(old_len as u16);
        self.items_len = self.items_len.wrapping_add(longer);
        self.page.copy_within(first..end - distance, end - usize::from(self.items_len));
        for other in self.page[count..ENTRY * count].as_chunks_mut::<2>().0 {
            let told = u16::from_le_bytes(*other);
            let shift = if usize::from(told) >= distance { longer } else { 0 };
            *other = told.wrapping_add(shift).to_le_bytes();
        }
    }

    /// Takes a member out without looking for the earliest deadline; tells its deadline.
    fn remove_unsettled(&mut self, index: usize) -> Option<UnixMillis> {
        let item = self.item(index);
        let (len, deadline) = (item.len(), item.deadline);
        self.release(index);
        self.resize_item(index, len, 0);
        let count = self.len();
        let last = count - 1;
        self.set_distance(index, self.distance(last) as u16);
        self.page[index] = self.page[last];
        self.page.copy_within(count..ENTRY * count - 2, last);
        self.count -= 1;
        self.uncount_deadline(deadline);
        deadline
    }

    fn count_deadline(&mut self, deadline: Option<UnixMillis>) {
        if let Some(deadline) = deadline {
            self.timed += 1;
            self.earliest = self.earliest.min(deadline);
        }
    }

    fn uncount_deadline(&mut self, deadline: Option<UnixMillis>) {
        self.timed -= u16::from(deadline.is_some());
    }

    fn recount_deadline(&mut self, old: Option<UnixMillis>, new: Option<UnixMillis>) {
        self.uncount_deadline(old);
        self.count_deadline(new);
        if old == Some(self.earliest) && new != old {
            self.find_earliest();
        }
    }

    fn find_earliest(&mut self) {
        self.earliest = if self.timed == 0 {
            NEVER
        } else {
            (0..self.len()).filter_map(|index| self.deadline(index)).min().unwrap_or(NEVER)
        };
    }

    fn make_room(&mut self, more: usize) {
        let needed = self.size() + more;
        if needed > self.page.len() {
            self.move_to(new_page(needed));
        }
    }

    /// Gives memory back when a good part of it is unused.
    fn shrink(&mut self) {
        if size_class(self.size() + self.size() / 4) < self.page.len() {
            self.trim();
        }
    }

    fn move_to(&mut self, mut page: Box<[u8]>) {
        let directory = ENTRY * self.len();
        let items = usize::from(self.items_len);
        page[..directory].copy_from_slice(&self.page[..directory]);
        let (to, from) = (page.len() - items, self.page.len() - items);
        page[to..].copy_from_slice(&self.page[from..]);
        self.page = page;
    }

    /// A page of some of these members.
    fn gather(&self, chosen: &[(u64, usize)]) -> Page<P> {
        let lens: Vec<usize> = chosen.iter().map(|(_, index)| self.item(*index).len()).collect();
        let items_len: usize = lens.iter().sum();
        let mut page = Page::with_room(ENTRY * chosen.len() + items_len);
        page.count = chosen.len() as u16;
        page.items_len = items_len as u16;
        let mut distance = 0;
        for (number, ((_, index), len)) in chosen.iter().zip(lens).enumerate() {
            distance += len as u16;
            page.page[number] = self.page[*index];
            page.set_distance(number, distance);
            let bytes = &self.item_bytes(*index)[..len];
            page.item_bytes_mut(number)[..len].copy_from_slice(bytes);
            page.count_deadline(Item::read_deadline(bytes));
        }
        if let Some(slots) = &self.beside {
            page.beside = slots.only(page.slot_numbers()).map(Box::new);
        }
        page
    }

    /// The slots that items name.
    fn slot_numbers(&self) -> impl Iterator<Item = u16> {
        (0..self.len()).flat_map(|index| {
            let item = self.item(index);
            [Some(item.member), item.value].into_iter().flatten().filter_map(|part| match part {
                Part::Beside(slot) => Some(slot),
                Part::Within(_) => None,
            })
        })
    }
}

impl<P: Payload> Leaf for Page<P> {
    /// A place in hash space: all members are at or above it.
    type Bound = u64;
    type Summary = PageSummary;

    fn summary(&self) -> PageSummary {
        PageSummary { count: u64::from(self.count), earliest: self.earliest }
    }

    fn size(&self) -> usize {
        ENTRY * self.len() + usize::from(self.items_len)
    }

    fn memory(&self) -> usize {
        self.page.len() + self.beside.as_ref().map_or(0, |slots| slots.memory())
    }

    fn bound(&self) -> u64 {
        (0..self.len()).map(|index| place(self.hash(index))).min().unwrap_or(0)
    }

    fn split(&mut self, _: Growth) -> Option<(u64, Page<P>)> {
        let order = self.from_place(0);
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

    fn absorb(&mut self, next: Page<P>) {
        self.make_room(next.size());
        for index in 0..next.len() {
            // Of a member within the page, only the fingerprint is asked for.
            let hash = match next.item(index).member {
                Part::Within(_) => u64::from(next.page[index]),
                Part::Beside(slot) => next.slots().hash(slot),
            };
            self.insert(hash, next.get(index));
        }
    }
}

impl<P> Default for Page<P> {
    fn default() -> Page<P> {
        Page {
            page: Box::default(),
            beside: None,
            earliest: NEVER,
            items_len: 0,
            count: 0,
            timed: 0,
            payload: PhantomData,
        }
    }
}

impl<P> Clone for Page<P> {
    fn clone(&self) -> Page<P> {
        Page { page: self.page.clone(), beside: self.beside.clone(), ..*self }
    }
}

impl PageSummary {
    /// The earliest deadline.
    #[must_use]
    pub fn earliest(self) -> Option<UnixMillis> {
        (self.earliest != NEVER).then_some(self.earliest)
    }
}

impl Summary for PageSummary {
    fn plus(self, other: PageSummary) -> PageSummary {
        PageSummary { count: self.count + other.count, earliest: self.earliest.min(other.earliest) }
    }

    fn count(self) -> u64 {
        self.count
    }
}

impl Default for PageSummary {
    fn default() -> PageSummary {
        PageSummary { count: 0, earliest: NEVER }
    }
}

#[cfg(test)]
impl<P: Payload> Page<P> {
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
        assert_eq!(deadlines.min().unwrap_or(NEVER), self.earliest);
        let mut slots: Vec<u16> = self.slot_numbers().collect();
        slots.sort_unstable();
        assert_eq!(slots, self.beside.as_ref().map_or(Vec::new(), |slots| slots.full()));
    }
}

/// Which of member and value lie beside the page: the longer one, and the other if it is long too.
fn beside(member: usize, value: usize) -> (bool, bool) {
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
