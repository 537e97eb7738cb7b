//! Integers of 1 to 64 bits at any bit, highest bit first, and what happens to those too large.

use std::ops::Range;

/// How a field's bits are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldType {
    signed: bool,
    width: u32,
}

/// What becomes of a number that a field cannot hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Its lowest bits are taken.
    #[default]
    Wrap,
    /// The nearest that the field can hold.
    Saturate,
    /// Nothing is written.
    Fail,
}

impl FieldType {
    /// A signed field of 1 to 64 bits, or an unsigned one of 1 to 63, whose numbers all are `i64`.
    pub fn new(signed: bool, width: u32) -> Option<FieldType> {
        let width_max = if signed { 64 } else { 63 };
        (1..=width_max).contains(&width).then_some(FieldType { signed, width })
    }

    /// How many bits the field has.
    pub fn width(self) -> u32 {
        self.width
    }

    /// What a field set to `value` holds; none where it must not be set. A negative number for an
    /// unsigned field counts as one far too large, as in Redis.
    pub fn fit(self, value: i64, overflow: Overflow) -> Option<i64> {
        let value = if self.signed { i128::from(value) } else { i128::from(value.cast_unsigned()) };
        self.bound(value, overflow)
    }

    /// What a field of `value` holds after adding; none where it must not be set.
    pub fn add(self, value: i64, increment: i64, overflow: Overflow) -> Option<i64> {
        self.bound(i128::from(value) + i128::from(increment), overflow)
    }

    fn bound(self, value: i128, overflow: Overflow) -> Option<i64> {
        let magnitude_bits = self.width - u32::from(self.signed);
        let max = (1_i128 << magnitude_bits) - 1;
        let min = if self.signed { -max - 1 } else { 0 };
        let fitting = value.clamp(min, max);
        let chosen = match overflow {
            _ if fitting == value => value,
            Overflow::Wrap => i128::from(self.interpret(value as u64)),
            Overflow::Saturate => fitting,
            Overflow::Fail => return None,
        };
        Some(i64::try_from(chosen).expect("every field's numbers are within i64"))
    }

    /// The number that the lowest bits of a word are.
    fn interpret(self, word: u64) -> i64 {
        let unused = 64 - self.width;
        let top = word << unused;
        if self.signed { top.cast_signed() >> unused } else { (top >> unused).cast_signed() }
    }
}

/// The bytes around one field, at most nine, out of a byte string of any shape.
#[derive(Clone, Copy, Debug)]
pub struct FieldWindow {
    field: FieldType,
    start: usize,
    len: usize,
    /// Bits of the window after the field.
    shift: u32,
    bytes: [u8; WINDOW],
}

/// 64 bits that begin at the last bit of a byte lie in nine bytes.
const WINDOW: usize = 9;

impl FieldWindow {
    /// The window for the field that begins at a bit, full of zeros.
    pub fn new(field: FieldType, offset: u64) -> FieldWindow {
        let lead = (offset % 8) as u32;
        let len = (lead + field.width).div_ceil(8);
        FieldWindow {
            field,
            start: (offset / 8) as usize,
            len: len as usize,
            shift: len * 8 - lead - field.width,
            bytes: [0; WINDOW],
        }
    }

    /// The bytes that belong into the window. Those past the end of the byte string are zeros.
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    /// Fills the window from its front.
    #[must_use]
    pub fn filled<'a>(mut self, chunks: impl IntoIterator<Item = &'a [u8]>) -> FieldWindow {
        let bytes = chunks.into_iter().flatten();
        for (target, byte) in self.bytes[..self.len].iter_mut().zip(bytes) {
            *target = *byte;
        }
        self
    }

    /// The field's number.
    pub fn get(&self) -> i64 {
        self.field.interpret((self.word() >> self.shift) as u64)
    }

    /// Puts a number, which the field must be able to hold, into it.
    pub fn set(&mut self, value: i64) {
        let mask = (u128::MAX >> (128 - self.field.width)) << self.shift;
        let bits = u128::from(value.cast_unsigned()) << self.shift;
        let word = self.word() & !mask | bits & mask;
        self.bytes[..self.len].copy_from_slice(&word.to_be_bytes()[16 - self.len..]);
    }

    /// The bytes to be put back.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn word(&self) -> u128 {
        self.bytes().iter().fold(0, |word, byte| word << 8 | u128::from(*byte))
    }
}
