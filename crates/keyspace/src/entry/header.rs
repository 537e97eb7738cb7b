//! The first word of an entry: what kind of block this is, in 64 bits.
//!
//! ```text
//! bit  0..4   kind        4..7   encoding   7  READ: a memcached client has read it
//!      8      DEADLINE: an i64 follows      9  WIDE: two u32 lengths follow
//!      10..13 snapshot marks, one per walk  13 STICKY: never evicted
//!      14..16 ITEM: room for what memcached clients keep, see `item.rs`
//!      16..40 access clock (24 bits)
//!      40..52 key length   52..64 value length   (both unused with WIDE)
//! ```
//!
//! Invariant: a header is only ever replaced as a whole word, so a reader sees one of two states.

use structs::object::Kind;
use structs::packing::Packing;

use super::item::ItemRoom;

/// How a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A signed integer in 1, 2, 4 or 8 bytes.
    Integer,
    /// A short string that was stored in one piece and never modified.
    Embedded,
    /// Any other string in the block.
    Raw,
    /// A large value of any type: a shared tree.
    Object,
    /// A small container in the block.
    Packed(Packing),
}

/// Lengths from this on need the WIDE form.
pub(super) const NARROW_LIMIT: usize = 1 << 12;

const ENCODING_SHIFT: u32 = 4;
const ENCODING_MASK: u64 = 0b111;
const READ: u64 = 1 << 7;
const DEADLINE: u64 = 1 << 8;
const WIDE: u64 = 1 << 9;
const MARKS_SHIFT: u32 = 10;
const MARKS_MASK: u64 = 0b111 << MARKS_SHIFT;
const STICKY: u64 = 1 << 13;
const ITEM_SHIFT: u32 = 14;
const ITEM_MASK: u64 = 0b11 << ITEM_SHIFT;
const CLOCK_SHIFT: u32 = 16;
const CLOCK_MASK: u64 = 0xff_ffff << CLOCK_SHIFT;
const KEY_SHIFT: u32 = 40;
const VALUE_SHIFT: u32 = 52;
const LENGTH_MASK: u64 = NARROW_LIMIT as u64 - 1;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Header(u64);

/// A bit for each pair of kind and encoding, by the header's first bits.
const FORMS_WITH_MEMBER_DEADLINES: u128 = {
    const fn form(kind: Kind, encoding: Encoding) -> u128 {
        1 << (kind as u64 | encoding.number() << ENCODING_SHIFT)
    }
    form(Kind::Hash, Encoding::Packed(Packing::TimedListpack))
        | form(Kind::Hash, Encoding::Object)
        | form(Kind::Set, Encoding::Object)
        | form(Kind::SortedSet, Encoding::Object)
};

impl Encoding {
    /// Every encoding, by number.
    const ALL: [Self; 8] = [
        Self::Integer,
        Self::Embedded,
        Self::Raw,
        Self::Object,
        Self::Packed(Packing::Listpack),
        Self::Packed(Packing::TimedListpack),
        Self::Packed(Packing::Intset),
        Self::Packed(Packing::Sparse),
    ];

    /// The name that `OBJECT ENCODING` replies, where no object has a say in it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Integer => "int",
            Self::Embedded => "embstr",
            Self::Raw | Self::Object => "raw",
            Self::Packed(packing) => packing.name(),
        }
    }

    const fn number(self) -> u64 {
        match self {
            Self::Integer => 0,
            Self::Embedded => 1,
            Self::Raw => 2,
            Self::Object => 3,
            Self::Packed(Packing::Listpack) => 4,
            Self::Packed(Packing::TimedListpack) => 5,
            Self::Packed(Packing::Intset) => 6,
            Self::Packed(Packing::Sparse) => 7,
        }
    }
}

impl Header {
    pub(super) fn new(kind: Kind, encoding: Encoding) -> Self {
        Self(kind as u64).with_encoding(encoding)
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    /// The byte that says what stands before the key.
    pub(super) fn second_byte(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// A header of which nothing but the second byte is set.
    pub(super) const fn of_second_byte(byte: u8) -> Self {
        Self((byte as u64) << 8)
    }

    #[inline]
    pub(super) fn kind(self) -> Kind {
        Kind::ALL[(self.0 & 0xf) as usize]
    }

    #[inline]
    pub(super) fn encoding(self) -> Encoding {
        Encoding::ALL[(self.0 >> ENCODING_SHIFT & ENCODING_MASK) as usize]
    }

    /// Whether the value is of a form whose members may have deadlines: most are not.
    #[inline]
    pub(super) fn may_have_member_deadlines(self) -> bool {
        FORMS_WITH_MEMBER_DEADLINES >> (self.0 & 0x7f) & 1 != 0
    }

    pub(super) fn with_encoding(self, encoding: Encoding) -> Self {
        Self(self.0 & !(ENCODING_MASK << ENCODING_SHIFT) | encoding.number() << ENCODING_SHIFT)
    }

    pub(super) const fn has_deadline(self) -> bool {
        self.0 & DEADLINE != 0
    }

    pub(super) fn with_deadline(self) -> Self {
        Self(self.0 | DEADLINE)
    }

    pub(super) const fn is_wide(self) -> bool {
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

    pub(super) fn is_sticky(self) -> bool {
        self.0 & STICKY != 0
    }

    pub(super) fn with_sticky(self, is_sticky: bool) -> Self {
        Self(if is_sticky { self.0 | STICKY } else { self.0 & !STICKY })
    }

    #[inline]
    pub(super) const fn item_room(self) -> ItemRoom {
        ItemRoom::ALL[((self.0 & ITEM_MASK) >> ITEM_SHIFT) as usize]
    }

    pub(super) fn with_item_room(self, room: ItemRoom) -> Self {
        Self(self.0 & !ITEM_MASK | (room as u64) << ITEM_SHIFT)
    }

    pub(super) fn was_read(self) -> bool {
        self.0 & READ != 0
    }

    pub(super) fn with_read(self, was_read: bool) -> Self {
        Self(if was_read { self.0 | READ } else { self.0 & !READ })
    }

    /// With what `other` says about an item: the same room, and whether it was read.
    pub(super) fn as_item(self, other: Self) -> Self {
        const ITEM: u64 = ITEM_MASK | READ;
        Self(self.0 & !ITEM | other.0 & ITEM)
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
    use structs::object::Kind;

    use super::{Encoding, Header, ItemRoom};

    #[test]
    fn fields_do_not_overlap() {
        let header = Header::new(Kind::Array, Encoding::Raw)
            .with_narrow_lens(4095, 4094)
            .with_access_clock(0xff_fffe)
            .with_marks(0b101)
            .with_sticky(true)
            .with_item_room(ItemRoom::Told)
            .with_read(true)
            .with_deadline();
        assert_eq!(header.narrow_key_len(), 4095);
        assert_eq!(header.narrow_value_len(), 4094);
        assert_eq!(header.access_clock(), 0xff_fffe);
        assert_eq!(header.marks(), 0b101);
        assert!(header.is_sticky() && !header.with_sticky(false).is_sticky());
        assert_eq!(header.with_sticky(false).marks(), 0b101);
        assert!(header.has_deadline() && !header.is_wide());
        assert!(header.was_read() && !header.with_read(false).was_read());
        for room in ItemRoom::ALL {
            assert_eq!(header.with_item_room(room).item_room(), room);
        }
        assert_eq!(header.encoding(), Encoding::Raw);
        let item = Header::new(Kind::String, Encoding::Object).as_item(header);
        assert!(item.was_read() && !item.has_deadline());
        assert_eq!(item.item_room(), ItemRoom::Told);
        assert_eq!(header.with_encoding(Encoding::Object).encoding(), Encoding::Object);
        assert_eq!(header.with_marks(0).access_clock(), 0xff_fffe);
        assert_eq!(header.kind(), Kind::Array);
    }

    #[test]
    fn numbers_and_names_agree() {
        for (number, encoding) in Encoding::ALL.into_iter().enumerate() {
            assert_eq!(encoding.number(), number as u64);
        }
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }
}
