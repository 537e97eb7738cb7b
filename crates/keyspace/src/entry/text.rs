//! A string as commands see it and as they store it.
//!
//! Invariant: what is inline is at most [`INLINE_MAX`] bytes; a longer string is a tree.

use structs::blob::Blob;

use super::block::Block;
use super::header::{self, Encoding};

/// Strings up to this many bytes lie in the entry's own block; longer ones are a shared tree.
pub const INLINE_MAX: usize = 64 * 1024;

/// Longest string that `OBJECT ENCODING` calls `embstr`.
const EMBEDDED_MAX: usize = 44;

/// A string value as a command sees it.
#[derive(Clone, Copy)]
pub enum Text<'a> {
    /// Stored as a number; printed in decimal.
    Integer(i64),
    /// At most [`INLINE_MAX`] bytes, in the entry's block.
    Inline(&'a [u8]),
    /// A shared tree of pages.
    Large(&'a Blob),
}

/// A value to be stored as a string.
#[derive(Clone)]
pub enum NewText<'a> {
    /// An integer, stored in as few bytes as it needs.
    Integer(i64),
    /// Bytes that are not checked for being an integer; `raw` if they were modified in place.
    Bytes {
        /// The value.
        bytes: &'a [u8],
        /// Whether `OBJECT ENCODING` says `raw` however short the value is.
        raw: bool,
    },
    /// A tree, for values over [`INLINE_MAX`].
    Large(Blob),
}

impl<'a> NewText<'a> {
    /// The value a client's `SET` stores: an integer where the bytes are one, else the bytes.
    #[must_use]
    pub fn from_client(bytes: &'a [u8]) -> Self {
        // No i64 has more than 20 characters, so longer strings need no look.
        if bytes.len() <= 20
            && let Some(number) = base::number::parse_i64(bytes)
        {
            return Self::Integer(number);
        }
        Self::from_bytes(bytes, false)
    }

    /// The bytes as they are: inline or as a tree by their length.
    #[must_use]
    pub fn from_bytes(bytes: &'a [u8], raw: bool) -> Self {
        if bytes.len() > INLINE_MAX {
            Self::Large(Blob::from_slice(bytes))
        } else {
            Self::Bytes { bytes, raw }
        }
    }

    /// Whether the value lies in the entry's block.
    pub(crate) fn is_inline(&self) -> bool {
        !matches!(self, Self::Large(_))
    }

    /// Bytes that this value takes inside the block.
    pub(super) fn inline_len(&self) -> usize {
        match self {
            Self::Integer(number) => header::integer_width(*number),
            Self::Bytes { bytes, .. } => bytes.len(),
            Self::Large(_) => 0,
        }
    }

    pub(super) fn encoding(&self) -> Encoding {
        match self {
            Self::Integer(_) => Encoding::Integer,
            Self::Bytes { raw: false, bytes } if bytes.len() <= EMBEDDED_MAX => Encoding::Embedded,
            Self::Bytes { .. } => Encoding::Raw,
            Self::Large(_) => Encoding::Object,
        }
    }
}

impl<'a> Text<'a> {
    /// Length in bytes of the string form.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Integer(number) => base::number::format_i64(*number, &mut [0; 20]).len(),
            Self::Inline(bytes) => bytes.len(),
            Self::Large(blob) => blob.len(),
        }
    }

    /// Whether the string is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number the string spells, by the strict rules of the integer commands.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Inline(bytes) => base::number::parse_i64(bytes),
            Self::Large(_) => None,
        }
    }

    /// The bytes in one piece; copies a tree, formats a number into `scratch`.
    #[must_use]
    pub fn contiguous<'s>(&self, scratch: &'s mut Vec<u8>) -> &'s [u8]
    where
        'a: 's,
    {
        match *self {
            Self::Integer(number) => {
                scratch.clear();
                scratch.extend_from_slice(base::number::format_i64(number, &mut [0; 20]));
                scratch
            }
            Self::Inline(bytes) => bytes,
            Self::Large(blob) => {
                scratch.clear();
                scratch.reserve_exact(blob.len());
                blob.chunks(0..blob.len()).for_each(|chunk| scratch.extend_from_slice(chunk));
                scratch
            }
        }
    }

    /// Whether the string equals `other`, byte for byte.
    #[must_use]
    pub fn equals(&self, other: &[u8]) -> bool {
        match self {
            Self::Integer(number) => base::number::format_i64(*number, &mut [0; 20]) == other,
            Self::Inline(bytes) => *bytes == other,
            Self::Large(blob) => **blob == *other,
        }
    }
}

/// # Safety
/// `block` must have room for the value's inline form and no other borrow may be alive.
pub(super) unsafe fn write_value(block: Block, value: &NewText<'_>) {
    // SAFETY: by the caller's promise.
    let room = unsafe { block.value_mut() };
    match value {
        NewText::Integer(number) => header::write_integer(*number, room),
        NewText::Bytes { bytes, .. } => room.copy_from_slice(bytes),
        NewText::Large(_) => {}
    }
}
