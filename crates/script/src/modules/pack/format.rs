//! The formats of `struct`: one item after the other, with its width.
//!
//! Invariant: no width of an integer exceeds [`INTEGER_MAX`], and sums are checked.

use std::fmt;

/// The widest integer.
pub(super) const INTEGER_MAX: usize = 32;
/// What a lone `!` aligns to.
const ALIGNMENT_MAX: usize = 8;

/// What is wrong with a format.
#[derive(Clone, Copy, Debug)]
pub(super) enum FormatError {
    /// A number in it is too large.
    Overflow,
    Alignment(usize),
    Width(usize),
    /// A sign that means nothing.
    Unknown(u8),
}

impl fmt::Display for FormatError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overflow => formatter.write_str("integral size overflow"),
            Self::Alignment(bytes) => {
                write!(formatter, "alignment {bytes} is not a power of 2")
            }
            Self::Width(bytes) => {
                write!(formatter, "integral size {bytes} is larger than limit of {INTEGER_MAX}")
            }
            Self::Unknown(sign) => {
                write!(formatter, "invalid format option '{}'", sign.escape_ascii())
            }
        }
    }
}

/// One item of a format, with its width.
#[derive(Clone, Copy)]
pub(super) enum Item {
    Integer {
        signed: bool,
    },
    Float,
    Double,
    Padding,
    /// So many bytes; of width zero where the length comes from elsewhere.
    Bytes,
    /// A string with a zero behind it.
    Text,
    /// A letter that means nothing.
    Unknown(u8),
}

/// Reads a format, item by item, and keeps what its settings say.
pub(super) struct Format<'a> {
    rest: &'a [u8],
    pub(super) big_endian: bool,
    alignment: usize,
}

impl<'a> Format<'a> {
    pub(super) fn new(text: &'a [u8]) -> Format<'a> {
        Format { rest: text, big_endian: cfg!(target_endian = "big"), alignment: 1 }
    }

    /// The next item with its width.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(Item, usize)>, FormatError> {
        while let Some((&letter, rest)) = self.rest.split_first() {
            self.rest = rest;
            let signed = letter.is_ascii_lowercase();
            let found = match letter {
                b'b' | b'B' => (Item::Integer { signed }, 1),
                b'h' | b'H' => (Item::Integer { signed }, 2),
                b'l' | b'L' => (Item::Integer { signed }, 8),
                b'T' => (Item::Integer { signed: false }, 8),
                b'i' | b'I' => (Item::Integer { signed }, self.integer_width()?),
                b'f' => (Item::Float, 4),
                b'd' => (Item::Double, 8),
                b'x' => (Item::Padding, 1),
                b'c' => (Item::Bytes, self.count(1)?),
                b's' => (Item::Text, 0),
                letter if letter.is_ascii_alphanumeric() => (Item::Unknown(letter), 0),
                _ => {
                    self.setting(letter)?;
                    continue;
                }
            };
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// Whether what comes next is no item.
    #[inline]
    pub(super) fn is_at_setting(&self) -> bool {
        self.rest.first().is_some_and(|sign| !sign.is_ascii_alphanumeric())
    }

    fn setting(&mut self, letter: u8) -> Result<(), FormatError> {
        match letter {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let alignment = self.count(ALIGNMENT_MAX)?;
                if !alignment.is_power_of_two() {
                    return Err(FormatError::Alignment(alignment));
                }
                self.alignment = alignment;
            }
            other => return Err(FormatError::Unknown(other)),
        }
        Ok(())
    }

    /// The digits that come next, or `default` if there are none.
    fn count(&mut self, default: usize) -> Result<usize, FormatError> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let (text, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let mut count = 0_i32;
        for digit in text {
            let next =
                count.checked_mul(10).and_then(|count| count.checked_add(i32::from(digit - b'0')));
            count = next.ok_or(FormatError::Overflow)?;
        }
        Ok(count as usize)
    }

    fn integer_width(&mut self) -> Result<usize, FormatError> {
        let width = self.count(4)?;
        if width > INTEGER_MAX {
            return Err(FormatError::Width(width));
        }
        Ok(width)
    }

    /// How many bytes come before an item at `position`.
    pub(super) fn gap(&self, item: Item, width: usize, position: usize) -> usize {
        if width == 0 || matches!(item, Item::Bytes | Item::Text) {
            return 0;
        }
        let unit = width.min(self.alignment);
        // Widths that are no powers of two have this formula's odd gaps, as in Redis.
        unit.wrapping_sub(position & (unit - 1)) & (unit - 1)
    }
}
