//! The small form: a listpack of numbers and elements.
//!
//! ```text
//!  next | ring | index | element | index | element | ..
//! ```
//!
//! Invariants: the first two are there even when no element is; indexes rise as unsigned numbers
//! of 64 bits, whose bits are stored as those of signed ones.

use std::ops::RangeInclusive;

use crate::listpack::{self, Element, Entry, EntryChunks, Listpack};
use crate::members::Text;
use crate::packing::{Packed, PackedRef, Packing};

/// Bytes that a listpack may put around an element: its encoding, and its length behind it.
const ENTRY_MAX: usize = 10;

/// Bytes of an index, at most.
const INDEX_MAX: usize = 10;

/// No elements, nothing appended, no ring.
pub(super) fn new() -> Packed {
    let mut bytes = listpack::new();
    listpack::insert(&mut bytes, listpack::EMPTY_LEN - 1, [Element::Integer(0); 2]);
    Packed { packing: Packing::Sparse, bytes }
}

/// The index at which the next element is appended, and the size of the ring.
pub(super) fn state(packed: PackedRef<'_>) -> (u64, u64) {
    let [next, ring] = state_entries(packed.bytes);
    (number(next.element), number(ring.element))
}

/// Sets what [`state`] tells.
pub(super) fn set_state(packed: &mut Packed, next: u64, ring: u64) {
    let [first, second] = state_entries(&packed.bytes);
    let range = first.offset..second.end;
    let numbers = [next, ring].map(|number| Element::Integer(number as i64));
    listpack::replace_range(&mut packed.bytes, range, numbers);
}

/// The number of elements.
pub(super) fn count(packed: PackedRef<'_>) -> u64 {
    (Listpack::new(packed.bytes).len() / 2 - 1) as u64
}

/// Bytes with one more element, at most.
pub(super) fn len_with(packed: &Packed, text: Text<'_>) -> usize {
    packed.bytes.len() + INDEX_MAX + text.len() + ENTRY_MAX
}

/// Bytes with another [`state`], at most.
pub(super) fn len_with_state(packed: &Packed) -> usize {
    let [first, second] = state_entries(&packed.bytes);
    packed.bytes.len() - (second.end - first.offset) + 2 * INDEX_MAX
}

/// The elements whose indexes lie in a range, from either end.
pub(super) fn items(packed: PackedRef<'_>, range: RangeInclusive<u64>) -> PackedArrayIter<'_> {
    PackedArrayIter { chunks: chunks(packed.bytes), range }
}

/// The element with an index.
pub(super) fn get<'a>(packed: PackedRef<'a>, index: u64) -> Option<Text<'a>> {
    items(packed, index..=index).next().map(|(_, text)| text)
}

/// Puts an element under an index; tells whether there was none.
pub(super) fn set(packed: &mut Packed, index: u64, text: Text<'_>) -> bool {
    let behind = chunks(&packed.bytes).find(|[entry, _]| number(entry.element) >= index);
    let found = behind.filter(|[entry, _]| number(entry.element) == index).map(|[_, value]| value);
    let mut buffer = Vec::new();
    let element = match text {
        Text::Integer(number) => Element::Integer(number),
        text => Element::Bytes(text.as_bytes(&mut buffer)),
    };
    if let Some(value) = found {
        let offset = value.offset;
        listpack::replace(&mut packed.bytes, offset, element);
        return false;
    }
    let end = Listpack::new(&packed.bytes).end_offset();
    let offset = behind.map_or(end, |[entry, _]| entry.offset);
    listpack::insert(&mut packed.bytes, offset, [Element::Integer(index as i64), element]);
    true
}

/// Takes the elements whose indexes lie in a range out; tells how many.
pub(super) fn remove_range(packed: &mut Packed, range: RangeInclusive<u64>) -> u64 {
    let mut gone =
        chunks(&packed.bytes).filter(|[entry, _]| range.contains(&number(entry.element)));
    let Some(offset) = gone.next().map(|[entry, _]| entry.offset) else { return 0 };
    let count = 1 + gone.count();
    listpack::remove(&mut packed.bytes, offset, 2 * count);
    count as u64
}

/// Elements of a range of indexes, from either end.
#[derive(Clone)]
pub(super) struct PackedArrayIter<'a> {
    chunks: EntryChunks<'a, 2>,
    range: RangeInclusive<u64>,
}

impl<'a> Iterator for PackedArrayIter<'a> {
    type Item = (u64, Text<'a>);

    fn next(&mut self) -> Option<(u64, Text<'a>)> {
        let range = &self.range;
        let [index, element] =
            self.chunks.find(|[entry, _]| number(entry.element) >= *range.start())?;
        let index = number(index.element);
        range.contains(&index).then(|| (index, element.element.into()))
    }
}

impl DoubleEndedIterator for PackedArrayIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let range = &self.range;
        let [index, element] =
            self.chunks.rfind(|[entry, _]| number(entry.element) <= *range.end())?;
        let index = number(index.element);
        range.contains(&index).then(|| (index, element.element.into()))
    }
}

/// Indexes and elements.
fn chunks(bytes: &[u8]) -> EntryChunks<'_, 2> {
    let mut chunks = Listpack::new(bytes).chunks();
    chunks.next();
    chunks
}

fn state_entries(bytes: &[u8]) -> [Entry<'_>; 2] {
    Listpack::new(bytes).chunks().next().expect("the state comes before all elements")
}

/// The number that an element tells; only numbers are asked.
fn number(element: Element<'_>) -> u64 {
    element.to_integer().map_or(0, |number| number as u64)
}
