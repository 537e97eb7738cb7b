//! Bits of byte strings: counting, searching, combining, and integers of any width between them.
//!
//! Bit 0 is the highest of byte 0, as SETBIT counts. No function keeps state or needs the bytes in
//! one piece: those that read take chunks, those that combine ask for chunks by offset, so that
//! values in leaves are worked on where they lie. Offsets of bits are `u64`, which holds eight
//! times any length.

mod combine;
mod field;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use self::combine::{BLOCK, Operation, combine};
pub use self::field::{FieldType, FieldWindow, Overflow};

/// Bits from one to before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRange {
    /// The first bit.
    pub start: u64,
    /// The bit after the last; not below `start`.
    pub end: u64,
}

impl BitRange {
    /// The bytes that hold these bits.
    pub fn bytes(self) -> Range<usize> {
        (self.start / 8) as usize..self.end.div_ceil(8) as usize
    }

    fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// The bits of the first byte that are in the range, unless it ends there.
    fn first_mask(self) -> u8 {
        0xFF >> (self.start % 8)
    }

    /// The bits of the last byte that are in the range, unless it begins there.
    fn last_mask(self) -> u8 {
        0xFF << ((8 - self.end % 8) % 8)
    }
}

/// The bit at `offset`, of the byte that holds it.
pub fn bit_of(byte: u8, offset: u64) -> bool {
    byte & mask_of(offset) != 0
}

/// The byte that holds the bit at `offset` with that bit set or cleared.
#[must_use]
pub fn with_bit(byte: u8, offset: u64, bit: bool) -> u8 {
    if bit { byte | mask_of(offset) } else { byte & !mask_of(offset) }
}

fn mask_of(offset: u64) -> u8 {
    0x80 >> (offset % 8)
}

/// How many bits are set.
pub fn count_ones(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has just been found to have what the function is compiled for.
        return unsafe { count_ones_avx2(bytes) };
    }
    count_ones_anywhere(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn count_ones_avx2(bytes: &[u8]) -> u64 {
    count_ones_anywhere(bytes)
}

/// Compiled twice: for any processor, and for those of today.
#[inline(always)]
fn count_ones_anywhere(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let whole: u64 =
        words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    whole + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// How many bits of a range are set, given the chunks of exactly the bytes that hold it.
pub fn count_ones_in<'a>(chunks: impl IntoIterator<Item = &'a [u8]>, range: BitRange) -> u64 {
    if range.is_empty() {
        return 0;
    }
    let (mut ones, mut first, mut last) = (0, None, 0);
    for chunk in chunks {
        ones += count_ones(chunk);
        first = first.or(chunk.first().copied());
        last = chunk.last().copied().unwrap_or(last);
    }
    let outside = (first.unwrap_or(0) & !range.first_mask()).count_ones()
        + (last & !range.last_mask()).count_ones();
    ones - u64::from(outside)
}

/// The first bit of a range that is set, or clear, given the chunks of the bytes that hold it.
/// What BITPOS makes of none is the caller's.
pub fn find_bit<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
    range: BitRange,
    bit: bool,
) -> Option<u64> {
    if range.is_empty() {
        return None;
    }
    let flip = if bit { 0 } else { 0xFF };
    let mut offset = range.start - range.start % 8;
    let mut mask = range.first_mask();
    for chunk in chunks {
        let Some((first, rest)) = chunk.split_first() else { continue };
        let masked = (first ^ flip) & mask;
        mask = 0xFF;
        let found = if masked != 0 {
            Some(u64::from(masked.leading_zeros()))
        } else {
            first_one(rest, flip).map(|place| 8 + place)
        };
        if let Some(found) = found {
            return Some(offset + found).filter(|found| *found < range.end);
        }
        offset += chunk.len() as u64 * 8;
    }
    None
}

/// The first bit that is set after each byte has been combined with `flip`.
fn first_one(bytes: &[u8], flip: u8) -> Option<u64> {
    let word_flip = u64::from_be_bytes([flip; 8]);
    let (words, rest) = bytes.as_chunks::<8>();
    for (place, word) in words.iter().enumerate() {
        let word = u64::from_be_bytes(*word) ^ word_flip;
        if word != 0 {
            return Some(place as u64 * 64 + u64::from(word.leading_zeros()));
        }
    }
    let place = rest.iter().position(|byte| byte ^ flip != 0)?;
    let bytes_before = (words.len() * 8 + place) as u64;
    Some(bytes_before * 8 + u64::from((rest[place] ^ flip).leading_zeros()))
}
