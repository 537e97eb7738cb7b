//! The first word of an entry: what kind of block this is, in 64 bits.
//!
//! ```text
//! bit  0..4   kind        4..8   encoding
//!      8      DEADLINE: an i64 follows      9  WIDE: two u32 lengths follow
//!      10..13 snapshot marks, one per walk  13..16 spare
//!      16..40 access clock (24 bits)
//!      40..52 key length   52..64 value length   (both unused with WIDE)
//! ```
//!
//! Invariant: a header is only ever replaced as a whole word, so a reader sees one of two states.

/// The type of a value, as `TYPE` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A byte string or an integer.
    String,
}

/// How a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A signed integer in 1, 2, 4 or 8 bytes.
    Integer,
    /// A short string that was stored in one piece and never modified.
    Embedded,
    /// Any other string in the block.
    Raw,
    /// A string too long for the block: a shared tree.
    Blob,
}

/// Lengths from this on need the WIDE form.
pub(super) const NARROW_LIMIT: usize = 1 << 12;

const ENCODING_SHIFT: u32 = 4;
const DEADLINE: u64 = 1 << 8;
const WIDE: u64 = 1 << 9;
const MARKS_SHIFT: u32 = 10;
const MARKS_MASK: u64 = 0b111 << MARKS_SHIFT;
const CLOCK_SHIFT: u32 = 16;
const CLOCK_MASK: u64 = 0xff_ffff << CLOCK_SHIFT;
const KEY_SHIFT: u32 = 40;
const VALUE_SHIFT: u32 = 52;
const LENGTH_MASK: u64 = NARROW_LIMIT as u64 - 1;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Header(u64);

impl Kind {
    /// The name that `TYPE` replies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
        }
    }
}

impl Encoding {
    /// The name that `OBJECT ENCODING` replies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "int",
            Self::Embedded => "embstr",
            Self::Raw | Self::Blob => "raw",
        }
    }
}

impl Header {
    pub(super) fn new(kind: Kind, encoding: Encoding) -> Self {
        let kind = match kind {
            Kind::String => 0,
        };
        Self(kind).with_encoding(encoding)
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn kind(self) -> Kind {
        debug_assert_eq!(self.0 & 0xf, 0, "only strings exist yet");
        Kind::String
    }

    pub(super) fn encoding(self) -> Encoding {
        match (self.0 >> ENCODING_SHIFT) & 0xf {
            0 => Encoding::Integer,
            1 => Encoding::Embedded,
            2 => Encoding::Raw,
            _ => Encoding::Blob,
        }
    }

    pub(super) fn with_encoding(self, encoding: Encoding) -> Self {
        let code = match encoding {
            Encoding::Integer => 0,
            Encoding::Embedded => 1,
            Encoding::Raw => 2,
            Encoding::Blob => 3,
        };
        Self(self.0 & !(0xf << ENCODING_SHIFT) | code << ENCODING_SHIFT)
    }

    pub(super) fn has_deadline(self) -> bool {
        self.0 & DEADLINE != 0
    }

    pub(super) fn with_deadline(self) -> Self {
        Self(self.0 | DEADLINE)
    }

    pub(super) fn is_wide(self) -> bool {
        self.0 & WIDE != 0
    }

    pub(super) fn with_wide(self) -> Self {
        Self(self.0 | WIDE)
    }

    pub(super) fn marks(self) -> u8 {
        ((self.0 & MARKS_MASK) >> MARKS_SHIFT) as u8
    }

    pub(super) fn with_marks(self, marks: u8) -> Self {
        Self(self.0 & !MARKS_MASK | (u64::from(marks) << MARKS_SHIFT) & MARKS_MASK)
    }

    pub(super) fn access_clock(self) -> u32 {
        ((self.0 & CLOCK_MASK) >> CLOCK_SHIFT) as u32
    }

    pub(super) fn with_access_clock(self, clock: u32) -> Self {
        Self(self.0 & !CLOCK_MASK | (u64::from(clock) << CLOCK_SHIFT) & CLOCK_MASK)
    }

    pub(super) fn narrow_key_len(self) -> usize {
        (self.0 >> KEY_SHIFT & LENGTH_MASK) as usize
    }

    pub(super) fn narrow_value_len(self) -> usize {
        (self.0 >> VALUE_SHIFT & LENGTH_MASK) as usize
    }

    pub(super) fn with_narrow_lens(self, key: usize, value: usize) -> Self {
        debug_assert!(key < NARROW_LIMIT && value < NARROW_LIMIT);
        let kept = self.0 & ((1 << KEY_SHIFT) - 1);
        Self(kept | (key as u64) << KEY_SHIFT | (value as u64) << VALUE_SHIFT)
    }
}

/// Bytes that `number` takes: 1, 2, 4 or 8.
pub(super) fn integer_width(number: i64) -> usize {
    if i8::try_from(number).is_ok() {
        1
    } else if i16::try_from(number).is_ok() {
        2
    } else if i32::try_from(number).is_ok() {
        4
    } else {
        8
    }
}

/// Writes `number` in `room.len()` bytes, little-endian.
pub(super) fn write_integer(number: i64, room: &mut [u8]) {
    let width = room.len();
    room.copy_from_slice(&number.to_le_bytes()[..width]);
}

/// Reads an integer of 1, 2, 4 or 8 bytes.
pub(super) fn read_integer(bytes: &[u8]) -> i64 {
    match *bytes {
        [a] => i64::from(i8::from_le_bytes([a])),
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => unreachable!("integers are stored in 1, 2, 4 or 8 bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Encoding, Header, Kind};

    #[test]
    fn fields_do_not_overlap() {
        let header = Header::new(Kind::String, Encoding::Raw)
            .with_narrow_lens(4095, 4094)
            .with_access_clock(0xff_fffe)
            .with_marks(0b101)
            .with_deadline();
        assert_eq!(header.narrow_key_len(), 4095);
        assert_eq!(header.narrow_value_len(), 4094);
        assert_eq!(header.access_clock(), 0xff_fffe);
        assert_eq!(header.marks(), 0b101);
        assert!(header.has_deadline() && !header.is_wide());
        assert_eq!(header.with_encoding(Encoding::Blob).encoding(), Encoding::Blob);
        assert_eq!(header.with_marks(0).access_clock(), 0xff_fffe);
    }
}
