//! Hash slots of which whatever is here is known to be a copy: another node has those keys, or took
//! the slot with all that was in it. Only of these slots are keys ever dropped.
//!
//! Invariants: a slot is noted while nothing of it is here, or when another node has claimed it; it
//! is not noted any more before a key may come that is nowhere else. The notes are with the data:
//! what changes them is in the journal in front of the keys, and a snapshot tells them.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard};

use base::hash_slot::HASH_SLOTS;
use keyspace::PartitionIndex;

/// The notes.
#[derive(Default)]
pub struct CopiedSlots(Mutex<BTreeSet<PartitionIndex>>);

impl CopiedSlots {
    /// Whether a slot is noted.
    pub fn contain(&self, slot: PartitionIndex) -> bool {
        self.lock().contains(&slot)
    }

    /// All that are noted.
    pub fn all(&self) -> Vec<PartitionIndex> {
        self.lock().iter().copied().collect()
    }

    /// The notes as a text, which is empty if there are none.
    pub fn text(&self) -> String {
        text_of(&self.lock())
    }

    /// Notes what a text says in place of what was noted. A text that is none says nothing.
    pub fn replace(&self, text: &[u8]) {
        *self.lock() = parse(text).unwrap_or_default();
    }

    /// Changes the notes, and has the new ones told before anybody else sees or changes them.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut BTreeSet<PartitionIndex>) -> bool,
        tell: impl FnOnce(&str),
    ) {
        let mut slots = self.lock();
        if change(&mut slots) {
            tell(&text_of(&slots));
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<PartitionIndex>> {
        self.0.lock().expect("no critical section here panics")
    }
}

/// Ranges of slots, as `1-3,7`.
fn text_of(slots: &BTreeSet<PartitionIndex>) -> String {
    let mut ranges: Vec<(PartitionIndex, PartitionIndex)> = Vec::new();
    for &slot in slots {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == slot => *last = slot,
            _ => ranges.push((slot, slot)),
        }
    }
    let mut text = String::new();
    for (first, last) in ranges {
        let comma = if text.is_empty() { "" } else { "," };
        write!(text, "{comma}{first}-{last}").expect("a String takes everything");
    }
    text
}

fn parse(text: &[u8]) -> Option<BTreeSet<PartitionIndex>> {
    let text = str::from_utf8(text).ok()?;
    let slot = |text: &str| text.parse().ok().filter(|slot: &PartitionIndex| *slot < HASH_SLOTS);
    let mut slots = BTreeSet::new();
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-')?;
        slots.extend(slot(first)?..=slot(last)?);
    }
    Some(slots)
}

#[cfg(test)]
mod tests {
    use super::CopiedSlots;

    #[test]
    fn a_text_comes_back_and_nothing_else_is_one() {
        let slots = CopiedSlots::default();
        for text in ["", "0-0", "1-3,7-7", "0-16383"] {
            slots.replace(text.as_bytes());
            assert_eq!(slots.text(), text);
        }
        for text in ["1", "x-y", "1-16384", "1-2;3-4", "-1-2"] {
            slots.replace(text.as_bytes());
            assert_eq!(slots.text(), "", "{text}");
        }
    }

    #[test]
    fn a_change_is_told_once_and_nothing_is_where_nothing_changes() {
        let (slots, mut told) = (CopiedSlots::default(), Vec::new());
        slots.change(|all| all.insert(5), |text| told.push(text.to_owned()));
        slots.change(|all| all.insert(5), |text| told.push(text.to_owned()));
        slots.change(|all| all.remove(&5), |text| told.push(text.to_owned()));
        assert_eq!(told, ["5-5", ""]);
        assert!(!slots.contain(5) && slots.all().is_empty());
    }
}
