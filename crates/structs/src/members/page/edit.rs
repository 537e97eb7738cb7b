//! Changes of a page: items come at the front of the others, grow, shrink and go, and what lies
//! before them in the page moves.

use base::{UnixMillis, step_count};

use super::super::item::{self, DEADLINE, MemberItem, Part, storable_deadline};
use super::super::text::{Long, Text};
use super::{ENTRY, MemberPage, MemberRef, NEVER, Payload, overflow, size_class};
use crate::tree::Leaf;

impl<P: Payload> MemberPage<P> {
    /// Adds a member that is not here.
    pub(in crate::members) fn insert(&mut self, hash: u64, new: MemberRef<'_>) {
        step_count::step();
        let count = self.len();
        self.make_room(Self::size_of(new));
        self.page.copy_within(count..ENTRY * count, count + 1);
        self.count += 1;
        self.fill_in(count, hash, new);
    }

    /// Puts a member in front of the others, for whose item there is room and whose number counts
    /// already.
    pub(super) fn fill_in(&mut self, index: usize, hash: u64, new: MemberRef<'_>) {
        let mut buffers = [Vec::new(), Vec::new()];
        let item = self.lay(hash, new, &mut buffers);
        let len = item.len();
        self.items_len += len as u16;
        self.page[index] = hash as u8;
        self.set_distance(index, self.items_len);
        item.write(&mut self.item_bytes_mut(index)[..len]);
        self.count_deadline(item.deadline);
    }

    /// Puts another value and deadline in place of those of a member.
    pub(in crate::members) fn replace(&mut self, index: usize, hash: u64, new: MemberRef<'_>) {
        step_count::step();
        let old = self.item(index);
        let (old_len, old_deadline) = (old.len(), old.deadline);
        if let (Some(Part::Within(value)), Text::Bytes(new_value)) = (old.value, new.value)
            && value.len() == new_value.len()
            && old_deadline == new.deadline.map(storable_deadline)
        {
            // The value is the last of an item.
            let start = old_len - value.len();
            self.item_bytes_mut(index)[start..old_len].copy_from_slice(new_value);
            return;
        }
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

    /// Gives a member a deadline, or takes it away.
    pub(in crate::members) fn set_deadline(&mut self, index: usize, deadline: Option<UnixMillis>) {
        step_count::step();
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
        self.recount_deadline(old, deadline.map(storable_deadline));
    }

    /// Takes a member out.
    pub(in crate::members) fn remove(&mut self, index: usize) {
        step_count::step();
        self.remove_unsettled(index);
        self.settle_earliest();
        self.shrink();
    }

    /// Takes members out whose deadline is at or before `now`, at most `limit`, and tells them.
    pub(in crate::members) fn take_expired(
        &mut self,
        now: UnixMillis,
        limit: usize,
        taken: &mut Vec<Vec<u8>>,
    ) {
        for index in (0..self.len()).rev() {
            if taken.len() >= limit {
                break;
            }
            if self.deadline(index).is_some_and(|deadline| deadline <= now) {
                taken.push(self.get(index).member.to_vec());
                self.remove_unsettled(index);
            }
        }
        self.settle_earliest();
        self.shrink();
    }

    /// Makes the page no larger than it has to be.
    pub(in crate::members) fn trim(&mut self) {
        if size_class(self.size()) < self.page.len() {
            self.move_to(size_class(self.size()));
        }
    }

    /// The item of a member; what is long is put beside the page.
    fn lay<'b>(
        &mut self,
        hash: u64,
        new: MemberRef<'b>,
        buffers: &'b mut [Vec<u8>; 2],
    ) -> MemberItem<'b> {
        let (member_beside, value_beside) = overflow(new.member.len(), new.value.len());
        let [member, value] = buffers;
        let mut part = |text: Text<'b>, overflow: bool, buffer: &'b mut Vec<u8>| {
            if overflow {
                let slots = self.overflow.get_or_insert_default();
                Part::PageOverflow(slots.add(text.to_long(), hash))
            } else {
                Part::Within(text.as_bytes(buffer))
            }
        };
        MemberItem {
            member: part(new.member, member_beside, member),
            value: P::VALUED.then(|| part(new.value, value_beside, value)),
            deadline: new.deadline.map(storable_deadline),
        }
    }

    /// Empties the slots of an item, and hands out what the member's slot held.
    fn release(&mut self, index: usize) -> Option<Long> {
        let item =
            MemberItem::read(&self.page[self.page.len() - self.distance(index)..], P::VALUED);
        let slots = self.overflow.as_deref_mut()?;
        if let Some(Part::PageOverflow(slot)) = item.value {
            slots.remove(slot);
        }
        match item.member {
            Part::PageOverflow(slot) => Some(slots.remove(slot)),
            Part::Within(_) => None,
        }
    }

    /// Makes an item longer or shorter: what lies before it moves.
    fn resize_item(&mut self, index: usize, old_len: usize, len: usize) {
        step_count::step();
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
            let distance_there = u16::from_le_bytes(*other);
            let shift = if usize::from(distance_there) >= distance { longer } else { 0 };
            *other = distance_there.wrapping_add(shift).to_le_bytes();
        }
    }

    /// Takes a member out without looking for the earliest deadline.
    fn remove_unsettled(&mut self, index: usize) {
        step_count::step();
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
    }

    pub(super) fn count_deadline(&mut self, deadline: Option<UnixMillis>) {
        let Some(deadline) = deadline else { return };
        self.timed += 1;
        if deadline < self.earliest {
            (self.earliest, self.at_earliest) = (deadline, 0);
        }
        self.at_earliest += u16::from(deadline == self.earliest);
    }

    /// Leaves the earliest deadline to others to look for, if no member has it any more.
    fn uncount_deadline(&mut self, deadline: Option<UnixMillis>) {
        let Some(deadline) = deadline else { return };
        self.timed -= 1;
        self.at_earliest -= u16::from(deadline == self.earliest);
    }

    fn recount_deadline(&mut self, old: Option<UnixMillis>, new: Option<UnixMillis>) {
        self.uncount_deadline(old);
        self.count_deadline(new);
        self.settle_earliest();
    }

    /// Looks for the earliest deadline where no member has it any more.
    fn settle_earliest(&mut self) {
        if self.at_earliest > 0 {
            return;
        }
        let timed = if self.timed > 0 { self.len() } else { 0 };
        let deadlines = (0..timed).filter_map(|index| self.deadline(index));
        let (mut earliest, mut count) = (NEVER, 0);
        for deadline in deadlines {
            step_count::step();
            if deadline < earliest {
                (earliest, count) = (deadline, 0);
            }
            count += u16::from(deadline == earliest);
        }
        (self.earliest, self.at_earliest) = (earliest, count);
    }

    pub(super) fn make_room(&mut self, more: usize) {
        let needed = self.size() + more;
        if needed > self.page.len() {
            self.move_to(size_class(needed));
        }
    }

    /// Gives memory back when a good part of it is unused.
    fn shrink(&mut self) {
        if size_class(self.size() + self.size() / 4) < self.page.len() {
            self.trim();
        }
    }

    fn move_to(&mut self, len: usize) {
        step_count::step();
        let items = usize::from(self.items_len);
        let mut page = Vec::with_capacity(len);
        page.extend_from_slice(&self.page[..ENTRY * self.len()]);
        page.resize(len - items, 0);
        page.extend_from_slice(&self.page[self.page.len() - items..]);
        self.page = page.into_boxed_slice();
    }
}
