//! The intset: distinct integers in rising order, all of one width, in Redis' own bytes.
//!
//! ```text
//!  0           4           8
//!  | width u32 | count u32 | value | value | ..       2, 4 or 8 bytes each, signed
//! ```
//!
//! All little-endian. The width is the least that the widest value ever added needs; removing
//! makes nothing narrower, as in Redis.
//!
//! Bytes of unknown origin go through [`validate`] first. Reading others is safe and never panics.
//!
//! Costs: a look-up is a binary search; an edit moves the values behind it once, and writes all of
//! them anew where the width grows.

#[cfg(test)]
mod tests;

use std::fmt;

use base::step_count;

/// Width and count.
const HEADER: usize = 8;

/// Whole integers, sorted.
#[derive(Clone, Copy)]
pub struct Intset<'a> {
    width: Width,
    values: &'a [u8],
}

/// Bytes of each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Width {
    Two = 2,
    Four = 4,
    Eight = 8,
}

impl Width {
    fn of(value: i64) -> Width {
        if i16::try_from(value).is_ok() {
            Width::Two
        } else if i32::try_from(value).is_ok() {
            Width::Four
        } else {
            Width::Eight
        }
    }

    fn read(bytes: &[u8]) -> Option<Width> {
        match u32::from_le_bytes(*bytes.first_chunk()?) {
            2 => Some(Width::Two),
            4 => Some(Width::Four),
            8 => Some(Width::Eight),
            _ => None,
        }
    }
}

impl<'a> Intset<'a> {
    /// Reads bytes that [`validate`] has accepted or this module has written. Of others come
    /// some integers, or none.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Intset<'a> {
        let width = Width::read(bytes).unwrap_or(Width::Two);
        Intset { width, values: bytes.get(HEADER..).unwrap_or_default() }
    }

    /// How many integers there are.
    #[inline]
    pub fn len(self) -> usize {
        self.values.len() / self.width as usize
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The integer at a place in rising order.
    #[inline]
    pub fn get(self, index: usize) -> Option<i64> {
        (index < self.len()).then(|| self.value(index))
    }

    /// Whether a value is among them.
    pub fn contains(self, value: i64) -> bool {
        self.search(value).is_ok()
    }

    /// Where a value is, or where it would be.
    pub fn search(self, value: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        // Values tend to come in rising order.
        if high > 0 && value > self.value(high - 1) {
            return Err(high);
        }
        while low < high {
            let middle = low.midpoint(high);
            if self.value(middle) < value {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if self.get(low) == Some(value) { Ok(low) } else { Err(low) }
    }

    /// All integers in rising order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = i64> + ExactSizeIterator + Clone {
        (0..self.len()).map(move |index| self.value(index))
    }

    #[inline]
    fn value(self, index: usize) -> i64 {
        let at = &self.values[index * self.width as usize..];
        match self.width {
            Width::Two => at.first_chunk().map(|bytes| i64::from(i16::from_le_bytes(*bytes))),
            Width::Four => at.first_chunk().map(|bytes| i64::from(i32::from_le_bytes(*bytes))),
            Width::Eight => at.first_chunk().map(|bytes| i64::from_le_bytes(*bytes)),
        }
        .expect("the index is below the count")
    }
}

impl fmt::Debug for Intset<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.iter()).finish()
    }
}

/// An intset without integers.
pub fn new() -> Vec<u8> {
    vec![Width::Two as u8, 0, 0, 0, 0, 0, 0, 0]
}

/// Bytes of an intset of so many integers when this is the widest of them.
pub fn bytes_for(count: usize, widest: i64) -> usize {
    HEADER + count * Width::of(widest) as usize
}

/// An intset of integers that rise.
pub fn from_rising(values: &[i64]) -> Vec<u8> {
    let ends = [values.first(), values.last()].into_iter().flatten();
    let width = ends.map(|value| Width::of(*value)).max().unwrap_or(Width::Two);
    let mut bytes = Vec::with_capacity(HEADER + values.len() * width as usize);
    bytes.extend_from_slice(&(width as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    for value in values {
        bytes.extend_from_slice(&value.to_le_bytes()[..width as usize]);
    }
    write_count(&mut bytes);
    bytes
}

/// Adds a value; tells whether it is new. The intset must be valid, and the caller bounds its size.
pub fn insert(bytes: &mut Vec<u8>, value: i64) -> bool {
    let set = Intset::new(bytes);
    let width = set.width;
    if Width::of(value) > width {
        widen(bytes, value);
    } else {
        let Err(index) = set.search(value) else { return false };
        let (start, old_len) = (HEADER + index * width as usize, bytes.len());
        bytes.resize(old_len + width as usize, 0);
        bytes.copy_within(start..old_len, start + width as usize);
        step_count::step();
        write_value(&mut bytes[start..], width, value);
    }
    write_count(bytes);
    true
}

/// Removes a value; tells whether it was there. The intset must be valid.
pub fn remove(bytes: &mut Vec<u8>, value: i64) -> bool {
    match Intset::new(bytes).search(value) {
        Ok(index) => remove_at(bytes, index).is_some(),
        Err(_) => false,
    }
}

/// Removes and returns the value at a place in rising order. The intset must be valid.
pub fn remove_at(bytes: &mut Vec<u8>, index: usize) -> Option<i64> {
    let set = Intset::new(bytes);
    let (value, width) = (set.get(index)?, set.width as usize);
    let start = HEADER + index * width;
    bytes.drain(start..start + width);
    write_count(bytes);
    Some(value)
}

/// Adds a value too wide for the others, hence below or above them all, and widens those.
fn widen(bytes: &mut Vec<u8>, value: i64) {
    let old = Intset::new(bytes);
    let width = Width::of(value);
    let mut wide = Vec::with_capacity(HEADER + (old.len() + 1) * width as usize);
    wide.extend_from_slice(&(width as u32).to_le_bytes());
    wide.extend_from_slice(&[0; 4]);
    let below = (value < 0).then_some(value);
    let above = (value >= 0).then_some(value);
    for value in below.into_iter().chain(old.iter()).chain(above) {
        wide.extend_from_slice(&value.to_le_bytes()[..width as usize]);
    }
    *bytes = wide;
}

fn write_value(target: &mut [u8], width: Width, value: i64) {
    let width = width as usize;
    target[..width].copy_from_slice(&value.to_le_bytes()[..width]);
}

fn write_count(bytes: &mut [u8]) {
    step_count::step();
    let count = u32::try_from(Intset::new(bytes).len()).expect("the caller bounds the size");
    bytes[4..HEADER].copy_from_slice(&count.to_le_bytes());
}

/// Why bytes are no intset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntsetDamage {
    /// No width that there is.
    Width,
    /// Too short, or of another length than width and count ask for.
    Length,
    /// Without integers.
    Empty,
    /// The value at this place is not above the one before.
    Order(usize),
}

impl fmt::Display for IntsetDamage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntsetDamage::Width => formatter.write_str("an intset of an unknown width"),
            IntsetDamage::Length => formatter.write_str("an intset of a wrong length"),
            IntsetDamage::Empty => formatter.write_str("an empty intset"),
            IntsetDamage::Order(index) => write!(formatter, "an intset out of order at {index}"),
        }
    }
}

impl std::error::Error for IntsetDamage {}

/// Whether bytes of unknown origin are an intset with at least one value, all rising, as
/// `sanitize-dump-payload` asks for.
pub fn validate(bytes: &[u8]) -> Result<(), IntsetDamage> {
    let said = bytes.get(4..HEADER).and_then(<[u8]>::first_chunk);
    let said = u64::from(u32::from_le_bytes(*said.ok_or(IntsetDamage::Length)?));
    let width = Width::read(bytes).ok_or(IntsetDamage::Width)?;
    if bytes.len() as u64 != HEADER as u64 + said * width as u64 {
        return Err(IntsetDamage::Length);
    }
    let set = Intset::new(bytes);
    if set.is_empty() {
        return Err(IntsetDamage::Empty);
    }
    match set.iter().zip(set.iter().skip(1)).position(|(before, value)| before >= value) {
        Some(index) => Err(IntsetDamage::Order(index + 1)),
        None => Ok(()),
    }
}
