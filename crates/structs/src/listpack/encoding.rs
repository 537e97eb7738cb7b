//! Entries of a listpack as bytes: every element has one shortest form, and every form read is
//! checked against the bytes at hand.

use base::number::parse_i64;

use super::Element;

/// Reads the entry that these bytes begin with, and tells its length without that behind it. None
/// where the bytes are no entry or too few.
#[inline]
pub(super) fn decode(at: &[u8]) -> Option<(Element<'_>, usize)> {
    let first = *at.first()?;
    match first {
        0x00..=0x7F => Some((Element::Integer(i64::from(first)), 1)),
        0x80..=0xBF => string(at, 1, usize::from(first & 0x3F)),
        0xC0..=0xDF => {
            let bits = u16::from_be_bytes([first, *at.get(1)?]) << 3;
            Some((Element::Integer(i64::from(bits.cast_signed() >> 3)), 2))
        }
        0xE0..=0xEF => string(at, 2, usize::from(u16::from_be_bytes([first & 0x0F, *at.get(1)?]))),
        0xF0 => {
            let length = at.get(1..)?.first_chunk()?;
            string(at, 5, usize::try_from(u32::from_le_bytes(*length)).ok()?)
        }
        0xF1 => integer::<2>(at),
        0xF2 => integer::<3>(at),
        0xF3 => integer::<4>(at),
        0xF4 => integer::<8>(at),
        _ => None,
    }
}

/// The length of the entry that these bytes begin with, with that behind it, as its first bytes
/// tell it; `None` where they begin none.
#[inline]
pub(super) fn entry_len(at: &[u8]) -> Option<usize> {
    let first = *at.first()?;
    let told = usize::from(ENTRY_LENS[usize::from(first)]);
    if told != 0 {
        return Some(told);
    }
    let len = match first {
        0xE0..=0xEF => 2 + usize::from(u16::from_be_bytes([first & 0x0F, *at.get(1)?])),
        0xF0 => {
            let length = at.get(1..)?.first_chunk()?;
            usize::try_from(u32::from_le_bytes(*length)).ok()?.checked_add(5)?
        }
        _ => return None,
    };
    len.checked_add(backlen_len(len))
}

/// By its first byte the length of a whole entry; 0 where that does not tell.
static ENTRY_LENS: [u8; 256] = {
    let mut lens = [0; 256];
    let mut first = 0;
    while first < lens.len() {
        lens[first] = match first {
            0x00..=0x7F => 2,
            0x80..=0xBF => (first as u8 & 0x3F) + 2,
            0xC0..=0xDF => 3,
            0xF1..=0xF3 => first as u8 - 0xF1 + 4,
            0xF4 => 10,
            _ => 0,
        };
        first += 1;
    }
    lens
};

#[inline]
fn string(at: &[u8], header: usize, len: usize) -> Option<(Element<'_>, usize)> {
    let end = header.checked_add(len)?;
    Some((Element::Bytes(at.get(header..end)?), end))
}

#[inline]
fn integer<const N: usize>(at: &[u8]) -> Option<(Element<'_>, usize)> {
    let mut word = [0; 8];
    word[8 - N..].copy_from_slice(at.get(1..=N)?);
    // The sign comes down from the top.
    Some((Element::Integer(i64::from_le_bytes(word) >> (64 - 8 * N)), 1 + N))
}

/// An element as it is written: encoding (or all of an integer), payload, length.
pub(super) struct Encoded<'a> {
    head: [u8; 9],
    head_len: u8,
    backlen_len: u8,
    payload: &'a [u8],
}

impl<'a> Encoded<'a> {
    pub(super) fn new(element: Element<'a>) -> Encoded<'a> {
        match element {
            Element::Integer(number) => Encoded::integer(number),
            Element::Bytes(bytes) => match parse_i64(bytes) {
                Some(number) => Encoded::integer(number),
                None => Encoded::string(bytes),
            },
        }
    }

    /// Bytes of the whole entry.
    pub(super) fn len(&self) -> usize {
        self.len_forward() + usize::from(self.backlen_len)
    }

    /// Writes the entry to the front of `target` and returns what is left of that.
    pub(super) fn write<'t>(&self, target: &'t mut [u8]) -> &'t mut [u8] {
        let (head, rest) = target.split_at_mut(usize::from(self.head_len));
        head.copy_from_slice(&self.head[..usize::from(self.head_len)]);
        let (payload, rest) = rest.split_at_mut(self.payload.len());
        payload.copy_from_slice(self.payload);
        let (backlen, rest) = rest.split_at_mut(usize::from(self.backlen_len));
        // Seven bits a byte, the lowest last; all but the first say that more lie before them.
        let mut bits = self.len_forward();
        for byte in backlen.iter_mut().rev() {
            *byte = 0x80 | (bits & 0x7F) as u8;
            bits >>= 7;
        }
        backlen[0] &= 0x7F;
        rest
    }

    fn integer(number: i64) -> Encoded<'static> {
        let bytes = number.to_le_bytes();
        let mut head = [0; 9];
        let head_len = match number {
            0..=127 => {
                head[0] = bytes[0];
                1
            }
            -4096..=4095 => {
                head[0] = 0xC0 | (bytes[1] & 0x1F);
                head[1] = bytes[0];
                2
            }
            _ => {
                let (code, width) = match number {
                    -0x8000..=0x7FFF => (0xF1, 2),
                    -0x80_0000..=0x7F_FFFF => (0xF2, 3),
                    -0x8000_0000..=0x7FFF_FFFF => (0xF3, 4),
                    _ => (0xF4, 8),
                };
                head[0] = code;
                head[1..=width].copy_from_slice(&bytes[..width]);
                1 + width as u8
            }
        };
        Encoded { head, head_len, backlen_len: 1, payload: &[] }
    }

    fn string(payload: &'a [u8]) -> Encoded<'a> {
        let len = u32::try_from(payload.len()).expect("the caller bounds the length");
        let bytes = len.to_le_bytes();
        let mut head = [0; 9];
        let head_len = match len {
            0..=63 => {
                head[0] = 0x80 | bytes[0];
                1
            }
            64..=4095 => {
                head[0] = 0xE0 | bytes[1];
                head[1] = bytes[0];
                2
            }
            _ => {
                head[0] = 0xF0;
                head[1..5].copy_from_slice(&bytes);
                5
            }
        };
        let backlen_len = backlen_len(usize::from(head_len) + payload.len()) as u8;
        Encoded { head, head_len, backlen_len, payload }
    }

    fn len_forward(&self) -> usize {
        usize::from(self.head_len) + self.payload.len()
    }
}

/// Bytes that an element takes.
pub(super) fn encoded_len_of(element: Element<'_>) -> usize {
    Encoded::new(element).len()
}

/// Bytes that a string of so many bytes takes; those of an integer take no more.
#[inline]
pub fn string_entry_len(len: usize) -> usize {
    let header = match len {
        0..=63 => 1,
        64..=4095 => 2,
        _ => 5,
    };
    header + len + backlen_len(header + len)
}

/// How many bytes hold the length of an entry. From two bytes on Redis moves to the next width one
/// earlier than it would have to.
#[inline]
pub(super) fn backlen_len(len: usize) -> usize {
    match len {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}

/// Where the entry begins that ends before `end`.
#[inline]
pub(super) fn backlen_before(bytes: &[u8], end: usize) -> Option<usize> {
    let (len, width) = backlen(bytes, end)?;
    end.checked_sub(width + len)
}

/// The length that is told behind an entry, and in how many bytes.
#[inline]
pub(super) fn backlen(bytes: &[u8], end: usize) -> Option<(usize, usize)> {
    let mut len = 0;
    for place in 0..5 {
        let at = end.checked_sub(place + 1)?;
        let byte = *bytes.get(at)?;
        len |= usize::from(byte & 0x7F) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((len, place + 1));
        }
    }
    None
}
