//! One member in a page, as bytes.
//!
//! ```text
//!  | head | length or slot | deadline | member | value head | length or slot | value |
//!
//!  head: 1....... a deadline of 6 bytes follows, milliseconds since 1970
//!        .1000000 the member lies beside the page, in the slot of the next 2 bytes
//!        .0llllll its length, up to 62
//!        .0111111 its length is in the next 2 bytes
//!  value head: its length, up to 253; 254: the length is in the next 2 bytes; 255: the slot is
//! ```
//!
//! Sets have no value, and nothing stands in its place. A deadline is 48 bits: up to the year
//! 10889. Numbers are little-endian. Only this module writes items, so what is read is sound.

use base::UnixMillis;

const TIMED: u8 = 0x80;
const BESIDE: u8 = 0x40;
const LENGTH: u8 = 0x3F;
const LENGTH_FOLLOWS: u8 = 0x3F;

const VALUE_LENGTH_FOLLOWS: u8 = 254;
const VALUE_BESIDE: u8 = 255;

/// Bytes of a deadline.
pub(super) const DEADLINE: usize = 6;

/// The latest deadline that can be told.
const DEADLINE_MAX: UnixMillis = (1 << 48) - 1;

/// Bytes of an item, or where they are.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    /// Here.
    Within(&'a [u8]),
    /// In a slot beside the page.
    PageOverflow(u16),
}

/// A member with what belongs to it.
#[derive(Clone, Copy)]
pub(super) struct MemberItem<'a> {
    pub(super) member: Part<'a>,
    /// Absent in sets.
    pub(super) value: Option<Part<'a>>,
    pub(super) deadline: Option<UnixMillis>,
}

impl<'a> MemberItem<'a> {
    /// Reads the item at the front of these bytes.
    #[inline]
    pub(super) fn read(bytes: &'a [u8], valued: bool) -> MemberItem<'a> {
        let mut reader = Reader(bytes);
        let (head, number) = reader.head();
        let deadline = (head & TIMED != 0).then(|| reader.deadline());
        let member = reader.member(head, number);
        let value = valued.then(|| match reader.byte() {
            VALUE_BESIDE => Part::PageOverflow(reader.number()),
            VALUE_LENGTH_FOLLOWS => {
                let len = reader.number();
                Part::Within(reader.take(usize::from(len)))
            }
            len => Part::Within(reader.take(usize::from(len))),
        });
        MemberItem { member, value, deadline }
    }

    /// The member of the item at the front of these bytes.
    #[inline]
    pub(super) fn read_member(bytes: &'a [u8]) -> Part<'a> {
        let mut reader = Reader(bytes);
        let (head, number) = reader.head();
        if head & TIMED != 0 {
            reader.take(DEADLINE);
        }
        reader.member(head, number)
    }

    /// The deadline of the item at the front of these bytes.
    #[inline]
    pub(super) fn read_deadline(bytes: &[u8]) -> Option<UnixMillis> {
        let mut reader = Reader(bytes);
        let (head, _) = reader.head();
        (head & TIMED != 0).then(|| reader.deadline())
    }

    /// How many bytes it takes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        let within = |part: Part<'_>| match part {
            Part::Within(bytes) => Some(bytes.len()),
            Part::PageOverflow(_) => None,
        };
        len_of(within(self.member), self.value.map(within), self.deadline.is_some())
    }

    /// Writes the item into bytes of exactly its length.
    #[inline]
    pub(super) fn write(&self, bytes: &mut [u8]) {
        let mut writer = Writer(bytes);
        let timed = if self.deadline.is_some() { TIMED } else { 0 };
        match self.member {
            Part::Within(member) if member.len() < usize::from(LENGTH_FOLLOWS) => {
                writer.put(&[timed | member.len() as u8]);
            }
            Part::Within(member) => {
                writer.put(&[timed | LENGTH_FOLLOWS]);
                writer.put(&number(member.len()));
            }
            Part::PageOverflow(slot) => {
                writer.put(&[timed | BESIDE]);
                writer.put(&slot.to_le_bytes());
            }
        }
        if let Some(deadline) = self.deadline {
            writer.put(&storable_deadline(deadline).to_le_bytes()[..DEADLINE]);
        }
        if let Part::Within(member) = self.member {
            writer.put(member);
        }
        match self.value {
            None => {}
            Some(Part::Within(value)) => {
                if value.len() < usize::from(VALUE_LENGTH_FOLLOWS) {
                    writer.put(&[value.len() as u8]);
                } else {
                    writer.put(&[VALUE_LENGTH_FOLLOWS]);
                    writer.put(&number(value.len()));
                }
                writer.put(value);
            }
            Some(Part::PageOverflow(slot)) => {
                writer.put(&[VALUE_BESIDE]);
                writer.put(&slot.to_le_bytes());
            }
        }
    }
}

/// How many bytes an item takes by the lengths of its parts, of those that lie within.
#[inline]
pub(super) fn len_of(
    member: Option<usize>,
    value: Option<Option<usize>>,
    has_deadline: bool,
) -> usize {
    let part = |len: Option<usize>, longer: u8| match len {
        Some(len) if len < usize::from(longer) => 1 + len,
        Some(len) => 3 + len,
        None => 3,
    };
    let value = value.map_or(0, |value| part(value, VALUE_LENGTH_FOLLOWS));
    part(member, LENGTH_FOLLOWS) + value + if has_deadline { DEADLINE } else { 0 }
}

/// Writes the deadline of an item that has one, or has room for it before it.
pub(super) fn set_deadline(bytes: &mut [u8], deadline: UnixMillis, room: bool) {
    if room {
        let len = head_len(bytes[DEADLINE]);
        bytes.copy_within(DEADLINE..DEADLINE + len, 0);
        bytes[0] |= TIMED;
    }
    let len = head_len(bytes[0]);
    bytes[len..len + DEADLINE]
        .copy_from_slice(&storable_deadline(deadline).to_le_bytes()[..DEADLINE]);
}

/// Takes the deadline out of an item, which then begins later by its bytes.
pub(super) fn clear_deadline(bytes: &mut [u8]) {
    let len = head_len(bytes[0]);
    bytes[0] &= !TIMED;
    bytes.copy_within(..len, DEADLINE);
}

/// A deadline as it can be told. Zero is left out: in a listpack it stands for none.
pub(crate) fn storable_deadline(deadline: UnixMillis) -> UnixMillis {
    deadline.clamp(1, DEADLINE_MAX)
}

/// Bytes of head, and length or slot.
#[inline]
fn head_len(head: u8) -> usize {
    if head & BESIDE != 0 || head & LENGTH == LENGTH_FOLLOWS { 3 } else { 1 }
}

/// The length of something that lies within a page.
fn number(len: usize) -> [u8; 2] {
    u16::try_from(len).expect("what lies within a page is short").to_le_bytes()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    #[inline]
    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    #[inline]
    fn number(&mut self) -> u16 {
        let bytes = self.take(2);
        u16::from_le_bytes([bytes[0], bytes[1]])
    }

    /// The first byte, and the member's length or slot.
    #[inline]
    fn head(&mut self) -> (u8, u16) {
        let head = self.byte();
        let number = if head_len(head) > 1 { self.number() } else { u16::from(head & LENGTH) };
        (head, number)
    }

    #[inline]
    fn member(&mut self, head: u8, number: u16) -> Part<'a> {
        if head & BESIDE != 0 {
            Part::PageOverflow(number)
        } else {
            Part::Within(self.take(usize::from(number)))
        }
    }

    #[inline]
    fn deadline(&mut self) -> UnixMillis {
        let mut bytes = [0; 8];
        bytes[..DEADLINE].copy_from_slice(self.take(DEADLINE));
        UnixMillis::from_le_bytes(bytes)
    }
}

struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let (target, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        target.copy_from_slice(bytes);
        self.0 = rest;
    }
}
