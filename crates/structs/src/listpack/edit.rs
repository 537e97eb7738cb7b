//! Changes of a listpack's bytes: each moves the bytes behind it once and leaves header and end
//! mark true.
//!
//! All ask for a listpack that is valid, and for offsets of its entries or of its end mark. The
//! caller bounds the sizes: nothing may grow to 4 GB, which is where these panic.

use std::ops::Range;

use base::step_count;

use super::encoding::Encoded;
use super::{COUNT_UNKNOWN, EMPTY_LEN, END_MARK, Element, HEADER, Listpack, header_count};

/// A listpack without elements.
pub fn new() -> Vec<u8> {
    vec![EMPTY_LEN as u8, 0, 0, 0, 0, 0, END_MARK]
}

/// Adds an element after the last.
pub fn push_back(bytes: &mut Vec<u8>, element: Element<'_>) {
    let end = Listpack::new(bytes).end_offset();
    insert(bytes, end, [element]);
}

/// Adds an element before the first.
pub fn push_front(bytes: &mut Vec<u8>, element: Element<'_>) {
    insert(bytes, HEADER, [element]);
}

/// Inserts elements, in their order, before the entry at `offset` or the end mark.
pub fn insert<const N: usize>(bytes: &mut Vec<u8>, offset: usize, elements: [Element<'_>; N]) {
    exchange(bytes, offset..offset, 0, elements);
}

/// Puts an element in the place of the one at `offset`.
pub fn replace(bytes: &mut Vec<u8>, offset: usize, element: Element<'_>) {
    if let Some(entry) = Listpack::new(bytes).entry_at(offset) {
        exchange(bytes, offset..entry.end, 1, [element]);
    }
}

/// Puts elements in the place of all entries that a range of offsets spans.
pub fn replace_range<const N: usize>(
    bytes: &mut Vec<u8>,
    range: Range<usize>,
    elements: [Element<'_>; N],
) {
    let removed = count_in(Listpack::new(bytes), &range);
    exchange(bytes, range, removed, elements);
}

/// Removes elements from the one at `offset` on, as far as there are so many, and tells how many
/// it were.
pub fn remove(bytes: &mut Vec<u8>, offset: usize, count: usize) -> usize {
    let entries = Listpack::new(bytes).entries_from(offset).take(count);
    let (removed, end) = entries.fold((0, offset), |(so_far, _), entry| (so_far + 1, entry.end));
    exchange(bytes, offset..end, removed, []);
    removed
}

/// Removes the element at `offset` and all behind it.
pub fn truncate(bytes: &mut Vec<u8>, offset: usize) {
    let end = Listpack::new(bytes).end_offset();
    replace_range(bytes, offset..end, []);
}

/// Moves the element at `offset` and all behind it into a new listpack.
pub fn split_off(bytes: &mut Vec<u8>, offset: usize) -> Vec<u8> {
    let listpack = Listpack::new(bytes);
    let mut upper = new();
    insert_from(&mut upper, HEADER, listpack, offset..listpack.end_offset());
    truncate(bytes, offset);
    upper
}

/// Inserts the entries that a range of offsets spans in another listpack, before the entry at
/// `offset` or the end mark.
pub fn insert_from(bytes: &mut Vec<u8>, offset: usize, source: Listpack<'_>, range: Range<usize>) {
    let added = count_in(source, &range);
    let entries = &source.bytes()[range];
    open(bytes, &(offset..offset), entries.len()).copy_from_slice(entries);
    write_header(bytes, 0, added);
}

fn exchange<const N: usize>(
    bytes: &mut Vec<u8>,
    range: Range<usize>,
    removed: usize,
    elements: [Element<'_>; N],
) {
    let elements = elements.map(Encoded::new);
    let len = elements.iter().map(Encoded::len).sum();
    let mut gap = open(bytes, &range, len);
    for element in &elements {
        gap = element.write(gap);
    }
    write_header(bytes, removed, N);
}

/// Makes a range so many bytes long, to be written.
fn open<'a>(bytes: &'a mut Vec<u8>, range: &Range<usize>, len: usize) -> &'a mut [u8] {
    step_count::step();
    let old_len = bytes.len();
    let gap_end = range.start + len;
    if gap_end > range.end {
        bytes.resize(old_len + (gap_end - range.end), 0);
        bytes.copy_within(range.end..old_len, gap_end);
    } else if gap_end < range.end {
        bytes.copy_within(range.end..old_len, gap_end);
        bytes.truncate(old_len - (range.end - gap_end));
    }
    &mut bytes[range.start..gap_end]
}

fn write_header(bytes: &mut [u8], removed: usize, added: usize) {
    step_count::step();
    let len = u32::try_from(bytes.len()).expect("the caller bounds the length");
    bytes[..4].copy_from_slice(&len.to_le_bytes());
    let count = header_count(bytes).expect("a listpack has a header");
    // An unknown count stays so, as in Redis: only a walk could tell.
    if count != COUNT_UNKNOWN {
        let count = (usize::from(count) + added).saturating_sub(removed);
        let count = u16::try_from(count).unwrap_or(COUNT_UNKNOWN);
        bytes[4..HEADER].copy_from_slice(&count.to_le_bytes());
    }
}

fn count_in(listpack: Listpack<'_>, range: &Range<usize>) -> usize {
    if range.start <= HEADER && range.end >= listpack.end_offset() {
        return listpack.len();
    }
    listpack.entries_from(range.start).take_while(|entry| entry.offset < range.end).count()
}
