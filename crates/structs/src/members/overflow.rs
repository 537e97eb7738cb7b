//! What is too long for a page, in numbered slots beside it.
//!
//! Invariant: a slot that an item of the page names is full, and named by no other.

use super::text::Long;

/// The long members and values of a page.
#[derive(Clone, Default)]
pub(super) struct PageOverflow {
    slots: Vec<Option<OverflowItem>>,
    /// Heap bytes of what the slots hold.
    bytes: usize,
}

#[derive(Clone)]
struct OverflowItem {
    /// Of the member, so that a long one is hashed once.
    hash: u64,
    long: Long,
}

impl PageOverflow {
    /// Fills a slot, and tells which.
    pub(super) fn add(&mut self, long: Long, hash: u64) -> u16 {
        self.bytes += long.memory();
        let slot = Some(OverflowItem { hash, long });
        let empty = self.slots.iter().position(Option::is_none);
        let number = empty.unwrap_or(self.slots.len());
        match self.slots.get_mut(number) {
            Some(place) => *place = slot,
            None => {
                // Pages are many: no doubling.
                self.slots.reserve_exact(1 + number / 8);
                self.slots.push(slot);
            }
        }
        u16::try_from(number).expect("a page has fewer items than bytes")
    }

    /// Empties a slot that an item names.
    pub(super) fn remove(&mut self, number: u16) -> Long {
        let slot = self.slots[usize::from(number)].take().expect("an item's slot is full");
        self.bytes -= slot.long.memory();
        slot.long
    }

    /// What a slot holds that an item names.
    pub(super) fn get(&self, number: u16) -> &Long {
        &self.slot(number).long
    }

    /// The hash of the member that the slot belongs to.
    pub(super) fn hash(&self, number: u16) -> u64 {
        self.slot(number).hash
    }

    /// The same with none but these slots full; `None` if there are none.
    pub(super) fn only(&self, numbers: impl Iterator<Item = u16>) -> Option<PageOverflow> {
        let mut only = PageOverflow::default();
        for number in numbers {
            let index = usize::from(number);
            if only.slots.len() <= index {
                only.slots.resize(index + 1, None);
            }
            let slot = self.slot(number).clone();
            only.bytes += slot.long.memory();
            only.slots[index] = Some(slot);
        }
        (!only.slots.is_empty()).then_some(only)
    }

    /// Heap bytes, this included.
    pub(super) fn memory(&self) -> usize {
        size_of::<PageOverflow>()
            + self.slots.capacity() * size_of::<Option<OverflowItem>>()
            + self.bytes
    }

    fn slot(&self, number: u16) -> &OverflowItem {
        self.slots[usize::from(number)].as_ref().expect("an item's slot is full")
    }

    /// The numbers of the full slots.
    #[cfg(test)]
    pub(super) fn full(&self) -> Vec<u16> {
        let held: usize = self.slots.iter().flatten().map(|slot| slot.long.memory()).sum();
        assert_eq!(self.bytes, held);
        (0..)
            .zip(&self.slots)
            .filter(|(_, slot)| slot.is_some())
            .map(|(number, _)| number)
            .collect()
    }
}
