//! The bytes of a member or value: in the page, or beside it when they are many.
//!
//! Invariant: what lies beside a page never changes, and is shared by reference count, so a page is
//! copied, and a reply sent, without copying it.

use std::fmt;
use std::sync::Arc;

use base::SharedBytes;
use base::number::{format_i64, parse_i64};

use crate::blob::{ARC_COUNTERS, Blob};
use crate::listpack::Element;

/// Up to so many bytes beside a page are one allocation; more are a blob, so that nothing ever
/// asks for one long stretch of memory.
const ONE_PIECE_MAX: usize = 64 * 1024;

/// Many bytes beside a page; a clone shares them.
#[derive(Clone)]
pub struct Long(Pieces);

#[derive(Clone)]
enum Pieces {
    One(Arc<[u8]>),
    Many(Arc<Blob>),
}

/// The bytes of a member or value, as they lie.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    /// In one piece.
    Bytes(&'a [u8]),
    /// The decimal text of an integer.
    Integer(i64),
    /// Beside a page.
    Long(&'a Long),
}

impl Long {
    /// Copies the bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        if bytes.len() <= ONE_PIECE_MAX {
            Self(Pieces::One(Arc::from(bytes)))
        } else {
            Self(Pieces::Many(Arc::new(Blob::from_slice(bytes))))
        }
    }

    /// Heap bytes; what clones share is counted in each of them.
    #[must_use]
    pub fn memory(&self) -> usize {
        ARC_COUNTERS
            + match &self.0 {
                Pieces::One(bytes) => bytes.len(),
                Pieces::Many(blob) => size_of::<Blob>() + blob.memory(),
            }
    }

    /// The bytes if they are in one piece.
    #[must_use]
    pub fn as_slice(&self) -> Option<&[u8]> {
        match &self.0 {
            Pieces::One(bytes) => Some(bytes),
            Pieces::Many(_) => None,
        }
    }
}

impl fmt::Debug for Long {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes", SharedBytes::len(self))
    }
}

impl SharedBytes for Long {
    fn len(&self) -> usize {
        match &self.0 {
            Pieces::One(bytes) => bytes.len(),
            Pieces::Many(blob) => blob.len(),
        }
    }

    fn chunk_at(&self, offset: usize) -> &[u8] {
        match &self.0 {
            Pieces::One(bytes) => bytes.get(offset..).unwrap_or_default(),
            Pieces::Many(blob) => blob.chunk_at(offset),
        }
    }
}

impl<'a> Text<'a> {
    /// The number of bytes.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Integer(number) => Element::Integer(number).len_text(),
            Self::Long(long) => SharedBytes::len(long),
        }
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The bytes in one piece: where they lie, or put into the buffer.
    #[must_use]
    #[inline]
    pub fn as_bytes<'b>(self, buffer: &'b mut Vec<u8>) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Long(Long(Pieces::One(bytes))) => bytes,
            Self::Integer(_) | Self::Long(_) => {
                buffer.clear();
                self.append_to(buffer);
                buffer
            }
        }
    }

    /// Appends the bytes to others.
    pub fn append_to(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Bytes(these) => bytes.extend_from_slice(these),
            Self::Integer(number) => bytes.extend_from_slice(format_i64(number, &mut [0; 20])),
            Self::Long(long) => chunks(long).for_each(|chunk| bytes.extend_from_slice(chunk)),
        }
    }

    /// A copy in one piece.
    #[must_use]
    pub fn to_vec(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.append_to(&mut bytes);
        bytes
    }

    /// The integer whose canonical text this is.
    #[must_use]
    pub fn to_integer(self) -> Option<i64> {
        match self {
            Self::Bytes(bytes) => parse_i64(bytes),
            Self::Integer(number) => Some(number),
            Self::Long(long) => long.as_slice().and_then(parse_i64),
        }
    }

    /// The bytes as they lie beside a page: shared where they already do.
    pub(crate) fn to_long(self) -> Long {
        match self {
            Self::Bytes(bytes) => Long::new(bytes),
            Self::Integer(number) => Long::new(format_i64(number, &mut [0; 20])),
            Self::Long(long) => long.clone(),
        }
    }
}

impl<'a> From<&'a [u8]> for Text<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<i64> for Text<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl<'a> From<Element<'a>> for Text<'a> {
    fn from(element: Element<'a>) -> Self {
        match element {
            Element::Bytes(bytes) => Self::Bytes(bytes),
            Element::Integer(number) => Self::Integer(number),
        }
    }
}

/// Equal are those whose bytes are the same.
impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::Bytes(these), Self::Bytes(those)) => these == those,
            (Self::Integer(this), Self::Integer(that)) => this == that,
            (Self::Integer(number), text) | (text, Self::Integer(number)) => {
                text.to_integer() == Some(number)
            }
            (Self::Long(long), Self::Bytes(bytes)) | (Self::Bytes(bytes), Self::Long(long)) => {
                SharedBytes::len(long) == bytes.len() && holds(long, 0, bytes)
            }
            (Self::Long(this), Self::Long(that)) => {
                let mut offset = 0;
                SharedBytes::len(this) == SharedBytes::len(that)
                    && chunks(this).all(|chunk| {
                        offset += chunk.len();
                        holds(that, offset - chunk.len(), chunk)
                    })
            }
        }
    }
}

impl Eq for Text<'_> {}

/// The pieces of long bytes; none is empty.
fn chunks(long: &Long) -> impl Iterator<Item = &[u8]> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let chunk = long.chunk_at(offset);
        offset += chunk.len();
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// Whether these bytes lie at `offset`.
fn holds(long: &Long, offset: usize, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        let chunk = long.chunk_at(offset + bytes.len() - rest.len());
        let (these, later) = rest.split_at(rest.len().min(chunk.len()));
        if these.is_empty() || !chunk.starts_with(these) {
            return false;
        }
        rest = later;
    }
    true
}
