//! The listpack: short byte strings and integers packed one after another, in Redis' own bytes.
//!
//! ```text
//!  0           4       6                                             bytes - 1
//!  | bytes u32 | count | entry | entry | ..                          | FF |
//!                      |
//!                      | encoding, payload | length of the two, readable from behind |
//!
//!  0xxxxxxx                    unsigned, 7 bits      F1 + 2 bytes    signed
//!  10xxxxxx + bytes            string, 6-bit length  F2 + 3 bytes    signed
//!  110xxxxx + 1 byte           signed, 13 bits       F3 + 4 bytes    signed
//!  1110xxxx + 1 byte + bytes   string, 12-bit length F4 + 8 bytes    signed
//!                                                    F0 + u32 + bytes string
//! ```
//!
//! Numbers are little-endian, those split between the encoding byte and its neighbour are not. The
//! count is 65,535 once there are as many elements or more: then only a walk can tell.
//!
//! What is written here is canonical: the text of an `i64` becomes an integer, and everything
//! takes the shortest encoding. What is read need not be, as Redis does not ask for it either.
//!
//! Bytes of unknown origin go through [`validate`] first. Reading bytes that did not is safe and
//! never panics; a malformed entry then ends the walk.
//!
//! Costs: finding an element walks the entries, from the nearer end where it is a place that is
//! asked for. An edit moves the bytes behind it once. Offsets of entries count from the first byte
//! of the listpack and hold until the next edit before them.

mod edit;
mod encoding;
mod search;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;
use std::iter::FusedIterator;

use base::number::{format_i64, parse_i64};
use base::step_count;

pub use self::edit::{
    insert, insert_from, new, push_back, push_front, remove, replace, replace_range, split_off,
    truncate,
};
pub use self::encoding::string_entry_len;
use self::encoding::{backlen, backlen_before, backlen_len, decode, encoded_len_of};
pub use self::search::Search;

/// Total bytes and count.
const HEADER: usize = 6;

/// What the bytes end with.
const END_MARK: u8 = 0xFF;

/// The count that means: walk and see.
const COUNT_UNKNOWN: u16 = u16::MAX;

/// Bytes of a listpack without elements.
pub const EMPTY_LEN: usize = HEADER + 1;

/// What a listpack holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    /// A byte string. Written as an integer where it is the canonical text of one.
    Bytes(&'a [u8]),
    /// An integer; equal to its decimal text in every respect but its bytes.
    Integer(i64),
}

impl<'a> Element<'a> {
    /// The element as a byte string, which the buffer may have to hold.
    #[inline]
    pub fn to_text<'b>(self, buffer: &'b mut [u8; 20]) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Element::Bytes(bytes) => bytes,
            Element::Integer(number) => format_i64(number, buffer),
        }
    }

    /// The element as a byte string of its own.
    pub fn to_vec(self) -> Vec<u8> {
        self.to_text(&mut [0; 20]).to_vec()
    }

    /// Bytes of the element as a byte string.
    #[inline]
    pub fn len_text(self) -> usize {
        match self {
            Element::Bytes(bytes) => bytes.len(),
            Element::Integer(number) => {
                let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
                digits + usize::from(number < 0)
            }
        }
    }

    /// The integer that the element is, or whose canonical text it is.
    #[inline]
    pub fn to_integer(self) -> Option<i64> {
        match self {
            Element::Bytes(bytes) => parse_i64(bytes),
            Element::Integer(number) => Some(number),
        }
    }

    /// Whether the element as a byte string is this one.
    #[inline]
    pub fn equals(self, text: &[u8]) -> bool {
        match self {
            Element::Bytes(bytes) => bytes == text,
            Element::Integer(number) => parse_i64(text) == Some(number),
        }
    }

    /// Compares the element as a byte string with another, byte by byte.
    #[inline]
    pub fn compare(self, text: &[u8]) -> Ordering {
        self.to_text(&mut [0; 20]).cmp(text)
    }

    /// Bytes that the element takes in a listpack.
    #[inline]
    pub fn encoded_len(self) -> usize {
        encoded_len_of(self)
    }
}

impl<'a> From<&'a [u8]> for Element<'a> {
    fn from(bytes: &'a [u8]) -> Element<'a> {
        Element::Bytes(bytes)
    }
}

impl From<i64> for Element<'_> {
    fn from(number: i64) -> Self {
        Element::Integer(number)
    }
}

/// An element and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Where the entry begins.
    pub offset: usize,
    /// Where the next entry begins, or the end mark lies.
    pub end: usize,
    /// What the entry holds.
    pub element: Element<'a>,
}

/// A listpack to be read.
#[derive(Clone, Copy)]
pub struct Listpack<'a> {
    bytes: &'a [u8],
}

impl<'a> Listpack<'a> {
    /// Reads bytes that [`validate`] has accepted or this module has written. Others read as some
    /// listpack, too.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Listpack<'a> {
        Listpack { bytes }
    }

    /// All bytes, header and end mark included.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// How many elements there are. Takes a walk from 65,535 on.
    #[inline]
    pub fn len(self) -> usize {
        match self.count() {
            Some(count) => count,
            None => self.entries().count(),
        }
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.bytes.len() <= EMPTY_LEN
    }

    /// The offset of the first entry, or of the end mark where there is none.
    #[inline]
    pub fn start_offset(self) -> usize {
        HEADER
    }

    /// The offset of the end mark: what is inserted there comes last.
    #[inline]
    pub fn end_offset(self) -> usize {
        self.bytes.len().saturating_sub(1)
    }

    /// All elements, from either end.
    #[inline]
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Element<'a>> + FusedIterator + Clone {
        self.entries().map(|entry| entry.element)
    }

    /// All elements with their places, from either end.
    #[inline]
    pub fn entries(self) -> Entries<'a> {
        Entries { listpack: self, front: HEADER, back: self.end_offset() }
    }

    /// The entries from the one at `offset` on.
    #[inline]
    pub fn entries_from(self, offset: usize) -> Entries<'a> {
        Entries { listpack: self, front: offset, back: self.end_offset() }
    }

    /// The entries before `offset`.
    #[inline]
    pub fn entries_before(self, offset: usize) -> Entries<'a> {
        Entries { listpack: self, front: HEADER, back: offset.min(self.end_offset()) }
    }

    /// Entries in groups of `N`, such as field and value, from either end. An incomplete last
    /// group is left out; from behind, the number of elements must be a multiple of `N`.
    #[inline]
    pub fn chunks<const N: usize>(self) -> EntryChunks<'a, N> {
        EntryChunks { entries: self.entries() }
    }

    /// The first element.
    #[inline]
    pub fn first(self) -> Option<Entry<'a>> {
        self.entries().next()
    }

    /// The last element.
    #[inline]
    pub fn last(self) -> Option<Entry<'a>> {
        self.entries().next_back()
    }

    /// The entry that begins at `offset`; none at the end mark.
    #[inline]
    pub fn entry_at(self, offset: usize) -> Option<Entry<'a>> {
        step_count::step();
        if offset < HEADER || offset >= self.end_offset() {
            return None;
        }
        let (element, len) = decode(self.bytes.get(offset..)?)?;
        Some(Entry { offset, end: offset + len + backlen_len(len), element })
    }

    /// The entry that ends where the one at `offset`, or the end mark, begins.
    #[inline]
    pub fn entry_before(self, offset: usize) -> Option<Entry<'a>> {
        step_count::step();
        let start = backlen_before(self.bytes, offset)?;
        if start < HEADER {
            return None;
        }
        let (element, _) = decode(self.bytes.get(start..)?)?;
        Some(Entry { offset: start, end: offset, element })
    }

    /// The element at a place, counted from the end where it is negative: -1 is the last.
    #[inline]
    pub fn get(self, index: i64) -> Option<Entry<'a>> {
        let from_front = usize::try_from(index).ok();
        let from_back = usize::try_from(!index).ok();
        // Walks from the nearer end where the count tells which that is.
        match (self.count(), from_front, from_back) {
            (Some(count), Some(place), _) if place >= count => None,
            (Some(count), Some(place), _) if place > count / 2 => {
                self.entries().nth_back(count - 1 - place)
            }
            (Some(count), _, Some(place)) if place >= count => None,
            (Some(count), _, Some(place)) if place > count / 2 => {
                self.entries().nth(count - 1 - place)
            }
            (_, Some(place), _) => self.entries().nth(place),
            (_, None, place) => self.entries().nth_back(place?),
        }
    }

    /// The first of every `stride` elements that equals the needle, beginning with the first
    /// element: with a stride of 2, fields and no values.
    #[inline]
    pub fn find(self, needle: &[u8], stride: usize) -> Option<Entry<'a>> {
        self.search(needle, stride).next().map(|(_, entry)| entry)
    }

    /// All of every `stride` elements that equal the needle, beginning with the first element, each
    /// with its place among these.
    #[inline]
    pub fn search<'n>(self, needle: &'n [u8], stride: usize) -> Search<'a, 'n> {
        Search::new(self, needle, stride)
    }

    /// The count as the header has it, unless that says that it does not know.
    #[inline]
    fn count(self) -> Option<usize> {
        let count = header_count(self.bytes)?;
        (count != COUNT_UNKNOWN).then_some(usize::from(count))
    }
}

impl<'a> IntoIterator for Listpack<'a> {
    type Item = Entry<'a>;
    type IntoIter = Entries<'a>;

    fn into_iter(self) -> Entries<'a> {
        self.entries()
    }
}

impl fmt::Debug for Listpack<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

/// The entries of a listpack.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    listpack: Listpack<'a>,
    front: usize,
    back: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        let entry = if self.front < self.back { self.listpack.entry_at(self.front) } else { None };
        self.front = entry.map_or(self.back, |entry| entry.end);
        entry
    }
}

impl DoubleEndedIterator for Entries<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = if self.front < self.back {
            self.listpack.entry_before(self.back).filter(|entry| entry.offset >= self.front)
        } else {
            None
        };
        self.back = entry.map_or(self.front, |entry| entry.offset);
        entry
    }
}

impl FusedIterator for Entries<'_> {}

/// The entries of a listpack in groups of equal size.
#[derive(Clone, Debug)]
pub struct EntryChunks<'a, const N: usize> {
    entries: Entries<'a>,
}

impl<'a, const N: usize> Iterator for EntryChunks<'a, N> {
    type Item = [Entry<'a>; N];

    #[inline]
    fn next(&mut self) -> Option<[Entry<'a>; N]> {
        let mut group = [self.entries.next()?; N];
        for entry in group.iter_mut().skip(1) {
            *entry = self.entries.next()?;
        }
        Some(group)
    }
}

impl<const N: usize> DoubleEndedIterator for EntryChunks<'_, N> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let mut group = [self.entries.next_back()?; N];
        for entry in group.iter_mut().rev().skip(1) {
            *entry = self.entries.next_back()?;
        }
        Some(group)
    }
}

impl<const N: usize> FusedIterator for EntryChunks<'_, N> {}

/// Why bytes are no listpack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListpackDamage {
    /// Too short, or of another length than the header says.
    Length,
    /// The last byte is not the end mark.
    EndMark,
    /// The entry at this offset is none, reaches past the end, or has a wrong length behind it.
    Entry(usize),
    /// There are more or fewer elements than the header says.
    Count,
}

impl fmt::Display for ListpackDamage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListpackDamage::Length => formatter.write_str("a listpack of a wrong length"),
            ListpackDamage::EndMark => formatter.write_str("a listpack without an end mark"),
            ListpackDamage::Entry(offset) => {
                write!(formatter, "a damaged listpack entry at {offset}")
            }
            ListpackDamage::Count => formatter.write_str("a listpack with a wrong count"),
        }
    }
}

impl std::error::Error for ListpackDamage {}

/// Whether bytes of unknown origin are a listpack: every length, every length behind an entry, the
/// end mark and the count, as `sanitize-dump-payload` asks for.
pub fn validate(bytes: &[u8]) -> Result<(), ListpackDamage> {
    let said = bytes.first_chunk().map(|said| u32::from_le_bytes(*said));
    if bytes.len() < EMPTY_LEN || said.map(u64::from) != Some(bytes.len() as u64) {
        return Err(ListpackDamage::Length);
    }
    if bytes.last() != Some(&END_MARK) {
        return Err(ListpackDamage::EndMark);
    }
    let listpack = Listpack::new(bytes);
    let (mut offset, mut count) = (HEADER, 0);
    while offset < listpack.end_offset() {
        let entry = listpack.entry_at(offset).ok_or(ListpackDamage::Entry(offset))?;
        let is_told = |(len, width)| width == backlen_len(len) && len + width == entry.end - offset;
        let behind = backlen(bytes, entry.end);
        if entry.end > listpack.end_offset() || !behind.is_some_and(is_told) {
            return Err(ListpackDamage::Entry(offset));
        }
        offset = entry.end;
        count += 1;
    }
    match listpack.count() {
        Some(said) if said != count => Err(ListpackDamage::Count),
        _ => Ok(()),
    }
}

#[inline]
fn header_count(bytes: &[u8]) -> Option<u16> {
    let field = bytes.get(4..HEADER)?;
    Some(u16::from_le_bytes([field[0], field[1]]))
}
