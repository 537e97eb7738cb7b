//! Finding elements: entries are passed over by their lengths, and looked at only where their first
//! byte is one that the needle's may be.
//!
//! Invariant: an element is found in whatever form it lies, though only one is ever written here.

use base::number::parse_i64;
use base::step_count;

use super::encoding::{decode, entry_len};
use super::{Element, Entry, HEADER, Listpack};

/// The elements that equal a needle, of every so many, each with its place among those.
pub struct Search<'a, 'n> {
    listpack: Listpack<'a>,
    needle: Needle<'n>,
    stride: usize,
    /// Where the next one begins, and its place.
    offset: usize,
    place: usize,
}

/// What is looked for.
struct Needle<'n> {
    bytes: &'n [u8],
    /// The first byte of a short string of these bytes.
    head: Option<u8>,
    /// The integer whose canonical text this is.
    integer: Option<i64>,
}

impl<'n> Needle<'n> {
    fn new(bytes: &'n [u8]) -> Self {
        let head = (bytes.len() < 64).then_some(0x80 | bytes.len() as u8);
        Self { bytes, head, integer: parse_i64(bytes) }
    }

    /// Whether the entry that these bytes begin with holds it.
    #[inline]
    fn is_at(&self, entry: &[u8]) -> bool {
        match entry[0] {
            0x80..=0xBF => {
                Some(entry[0]) == self.head && {
                    let payload = entry.get(1..=self.bytes.len());
                    // The last bytes differ where the first are a common prefix.
                    payload.is_some_and(|it| it.last() == self.bytes.last() && it == self.bytes)
                }
            }
            0xE0..=0xF0 => match decode(entry) {
                Some((Element::Bytes(bytes), _)) => bytes == self.bytes,
                _ => false,
            },
            _ => match (self.integer, decode(entry)) {
                (Some(integer), Some((Element::Integer(number), _))) => integer == number,
                _ => false,
            },
        }
    }
}

impl<'a, 'n> Search<'a, 'n> {
    pub(super) fn new(listpack: Listpack<'a>, needle: &'n [u8], stride: usize) -> Self {
        Self { listpack, needle: Needle::new(needle), stride, offset: HEADER, place: 0 }
    }

    /// The same from an element on, whose place is given.
    #[must_use]
    pub(crate) fn starting_at(self, offset: usize, place: usize) -> Self {
        Self { offset: offset.max(HEADER), place, ..self }
    }

    /// The bytes from an entry on; `None` at the end.
    #[inline]
    fn bytes_at(&self, offset: usize) -> Option<&'a [u8]> {
        step_count::step();
        self.listpack.bytes.get(offset..self.listpack.end_offset()).filter(|it| !it.is_empty())
    }
}

impl<'a> Iterator for Search<'a, '_> {
    type Item = (usize, Entry<'a>);

    #[inline]
    fn next(&mut self) -> Option<(usize, Entry<'a>)> {
        loop {
            let (offset, place) = (self.offset, self.place);
            let entry = self.bytes_at(offset)?;
            self.offset += entry_len(entry)?;
            for _ in 1..self.stride {
                self.offset += self.bytes_at(self.offset).and_then(entry_len).unwrap_or(0);
            }
            self.place += 1;
            if self.needle.is_at(entry) {
                return Some((place, self.listpack.entry_at(offset)?));
            }
        }
    }
}
