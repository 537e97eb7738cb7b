//! Where an item ends, found without making a value of it.
//!
//! Each type of value has a layout, a list of parts; passing over a value is passing over them.
//!
//! Invariant: bytes that end too early are told apart from bytes that can never be right: only the
//! former may become whole when more of the file is read.

use LayoutPart::{Bytes, Lengths, Many, ManyAfter, Score, Text};

use crate::rdb::length::{Length, read_length_or_encoding};
use crate::rdb::string::COMPRESSED;
use crate::rdb::{Reader, ValueType};

/// Why an item does not end within the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// At least so many more bytes are needed.
    More(u64),
    /// No bytes that follow make it right.
    Malformed,
}

/// A part of a value.
#[derive(Clone, Copy, Debug)]
enum LayoutPart {
    /// So many bytes.
    Bytes(u64),
    /// So many lengths in a row.
    Lengths(u64),
    /// A string in any encoding.
    Text,
    /// A score as text, or one byte that stands for what has none.
    Score,
    /// A length, and these as often as it says.
    Many(&'static [LayoutPart]),
    /// A length, so many more lengths, and these as often as the first says.
    ManyAfter(u64, &'static [LayoutPart]),
}

/// From this on, what stands where the length of a score's text is due is the score.
const SCORES_WITHOUT_TEXT: u8 = 253;

const NODES: LayoutPart = Many(&[Text, Text]);
const PENDING: LayoutPart = Many(&[Bytes(16 + 8), Lengths(1)]);
const IDS: LayoutPart = Many(&[Bytes(16)]);
/// Consumers that were seen.
const CONSUMERS: LayoutPart = Many(&[Text, Bytes(8), IDS]);
/// Consumers that were seen, and active.
const CONSUMERS_ACTIVE: LayoutPart = Many(&[Text, Bytes(8 + 8), IDS]);
/// Length and last ID.
const FEW_COUNTERS: LayoutPart = Lengths(3);
/// The same with the first ID, the greatest deleted ID and the number of entries added.
const COUNTERS: LayoutPart = Lengths(8);
/// What producers sent.
const SENT: LayoutPart = Many(&[Text, Many(&[Text, Lengths(2)])]);

/// What a value of this type consists of, its type not counted.
fn layout(value_type: ValueType) -> &'static [LayoutPart] {
    match value_type {
        ValueType::String
        | ValueType::ListZiplist
        | ValueType::SetIntset
        | ValueType::SetListpack
        | ValueType::SortedSetZiplist
        | ValueType::SortedSetListpack
        | ValueType::HashZipmap
        | ValueType::HashZiplist
        | ValueType::HashListpack
        | ValueType::HashListpackTimedCandidate => &[Text],
        ValueType::List | ValueType::ListZiplists | ValueType::Set => &[Many(&[Text])],
        ValueType::ListNodes => &[Many(&[Lengths(1), Text])],
        ValueType::SetTimed | ValueType::SortedSet => &[Many(&[Text, Bytes(8)])],
        ValueType::SortedSetText => &[Many(&[Text, Score])],
        ValueType::SortedSetTimed => &[Many(&[Text, Bytes(8 + 8)])],
        ValueType::Hash => &[Many(&[Text, Text])],
        ValueType::HashTimed => &[Bytes(8), Many(&[Lengths(1), Text, Text])],
        ValueType::HashTimedCandidate => &[Many(&[Lengths(1), Text, Text])],
        ValueType::HashTimedValkey => &[Many(&[Text, Text, Bytes(8)])],
        ValueType::HashListpackTimed => &[Bytes(8), Text],
        ValueType::StreamRedis5 => {
            &[NODES, FEW_COUNTERS, Many(&[Text, Lengths(2), PENDING, CONSUMERS])]
        }
        ValueType::StreamRedis70 => {
            &[NODES, COUNTERS, Many(&[Text, Lengths(3), PENDING, CONSUMERS])]
        }
        ValueType::StreamRedis72 => {
            &[NODES, COUNTERS, Many(&[Text, Lengths(3), PENDING, CONSUMERS_ACTIVE])]
        }
        ValueType::StreamRedis86 => &[
            NODES,
            COUNTERS,
            Many(&[Text, Lengths(3), PENDING, CONSUMERS_ACTIVE]),
            Lengths(2),
            SENT,
            Lengths(2),
        ],
        ValueType::StreamRedis88 => &[
            NODES,
            COUNTERS,
            Many(&[Text, Lengths(3), PENDING, CONSUMERS_ACTIVE, IDS]),
            Lengths(2),
            SENT,
            Lengths(2),
        ],
        ValueType::Array => &[ManyAfter(2, &[Lengths(1), Text])],
    }
}

/// A layout with a part that is there many times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    head: &'static [LayoutPart],
    /// Lengths behind the one that tells how many elements there are.
    lengths: u64,
    element: &'static [LayoutPart],
    rest: &'static [LayoutPart],
}

impl Shape {
    /// That of a type of value, if it is such a one.
    pub(super) fn of(value_type: ValueType) -> Option<Self> {
        let parts = layout(value_type);
        parts.iter().enumerate().find_map(|(index, part)| {
            let (head, rest) = (&parts[..index], &parts[index + 1..]);
            match *part {
                Many(element) => Some(Self { head, lengths: 0, element, rest }),
                ManyAfter(lengths, element) => Some(Self { head, lengths, element, rest }),
                _ => None,
            }
        })
    }
}

/// The most bytes that a length takes.
const LENGTH_BYTES_MAX: usize = 9;

/// What follows in a module's value or note, by number.
const MODULE_END: u64 = 0;
const MODULE_INTEGERS: [u64; 2] = [1, 2];
const MODULE_FLOAT: u64 = 3;
const MODULE_DOUBLE: u64 = 4;
const MODULE_TEXT: u64 = 5;

/// A place in bytes.
#[derive(Clone, Copy)]
pub(super) struct SkipCursor<'a> {
    bytes: &'a [u8],
    /// How many are passed over.
    pub(super) at: usize,
}

impl<'a> SkipCursor<'a> {
    /// At the beginning of bytes.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Passes over so many bytes.
    pub(super) fn take(&mut self, count: u64) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let missing = || Stop::More(count - rest.len() as u64);
        let count_here = usize::try_from(count).ok().filter(|count| *count <= rest.len());
        let count = count_here.ok_or_else(missing)?;
        self.at += count;
        Ok(&rest[..count])
    }

    /// Passes over as many bytes as the array holds.
    pub(super) fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Stop> {
        let bytes = self.take(COUNT as u64)?;
        Ok(bytes.try_into().expect("as many were taken"))
    }

    /// Passes over a byte.
    pub(super) fn byte(&mut self) -> Result<u8, Stop> {
        self.array().map(|[byte]| byte)
    }

    /// Passes over a length.
    pub(super) fn length(&mut self) -> Result<u64, Stop> {
        match self.length_or_encoding()? {
            Length::Plain(length) => Ok(length),
            Length::Encoding(_) => Err(Stop::Malformed),
        }
    }

    /// Passes over a length, or the number of an encoding.
    pub(super) fn length_or_encoding(&mut self) -> Result<Length, Stop> {
        let rest = &self.bytes[self.at..];
        let mut reader = Reader::new(rest);
        let length = read_length_or_encoding(&mut reader).map_err(|_| {
            match LENGTH_BYTES_MAX.checked_sub(rest.len()) {
                None | Some(0) => Stop::Malformed,
                Some(missing) => Stop::More(missing as u64),
            }
        })?;
        self.at += rest.len() - reader.remaining();
        Ok(length)
    }

    /// Passes over a string; its bytes as they are written.
    pub(super) fn text(&mut self) -> Result<&'a [u8], Stop> {
        let start = self.at;
        match self.length_or_encoding()? {
            Length::Plain(length) => self.take(length)?,
            Length::Encoding(width @ 0..=2) => self.take(1 << width)?,
            Length::Encoding(COMPRESSED) => {
                let packed = self.length()?;
                self.length()?;
                self.take(packed)?
            }
            Length::Encoding(_) => return Err(Stop::Malformed),
        };
        Ok(&self.bytes[start..self.at])
    }

    /// Passes over a value of this type.
    pub(super) fn value(&mut self, value_type: ValueType) -> Result<(), Stop> {
        self.parts(layout(value_type))
    }

    /// Passes over what stands before the elements, and gives it.
    pub(super) fn head(&mut self, shape: &Shape) -> Result<&'a [u8], Stop> {
        let start = self.at;
        self.parts(shape.head)?;
        self.part(Lengths(1 + shape.lengths))?;
        Ok(&self.bytes[start..self.at])
    }

    /// Passes over an element.
    pub(super) fn element(&mut self, shape: &Shape) -> Result<(), Stop> {
        self.parts(shape.element)
    }

    /// Passes over what stands behind the elements.
    pub(super) fn rest(&mut self, shape: &Shape) -> Result<(), Stop> {
        self.parts(shape.rest)
    }

    fn parts(&mut self, parts: &[LayoutPart]) -> Result<(), Stop> {
        parts.iter().try_for_each(|part| self.part(*part))
    }

    fn part(&mut self, part: LayoutPart) -> Result<(), Stop> {
        match part {
            Bytes(count) => _ = self.take(count)?,
            Lengths(count) => (0..count).try_for_each(|_| self.length().map(drop))?,
            Text => _ = self.text()?,
            Score => match self.byte()? {
                SCORES_WITHOUT_TEXT.. => {}
                length => _ = self.take(length.into())?,
            },
            Many(parts) => self.part(ManyAfter(0, parts))?,
            ManyAfter(lengths, parts) => {
                let count = self.length()?;
                self.part(Lengths(lengths))?;
                for _ in 0..count {
                    self.parts(parts)?;
                }
            }
        }
        Ok(())
    }

    /// Passes over what a module wrote, whatever it means.
    pub(super) fn module(&mut self) -> Result<(), Stop> {
        loop {
            match self.length()? {
                MODULE_END => return Ok(()),
                integer if MODULE_INTEGERS.contains(&integer) => _ = self.length()?,
                MODULE_FLOAT => _ = self.take(4)?,
                MODULE_DOUBLE => _ = self.take(8)?,
                MODULE_TEXT => _ = self.text()?,
                _ => return Err(Stop::Malformed),
            }
        }
    }
}
