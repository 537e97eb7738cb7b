//! The RDB format: what snapshots, DUMP payloads and full syncs are written in.
//!
//! Source: the format as published in the Redis documentation and in the tools that read it;
//! checked against real servers.
//!
//! Invariant: a value is written so that the oldest version of Redis which has its type can read
//! it; [`VERSION`] says which that is.

pub mod length;
pub mod string;

/// The format that is written: Redis 7.0 and everything since reads it.
pub const VERSION: u16 = 10;

/// Whether a version is one that can be read: Redis to 8.12, Valkey 9.
#[must_use]
pub fn is_readable(version: u16) -> bool {
    matches!(version, 1..=16 | 80 | 81)
}

/// The types of values, as the byte before each says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ValueType {
    /// A string in one of its encodings.
    String = 0,
}

impl ValueType {
    /// The type that a byte stands for, if it is one that can be read.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        (byte == Self::String as u8).then_some(Self::String)
    }
}

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Takes bytes from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether all bytes are taken.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes, however large a number a stranger claims.
    pub fn take(&mut self, count: u64) -> Result<&'a [u8], Malformed> {
        let count = usize::try_from(count).map_err(|_| Malformed)?;
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next bytes, as many as the array holds.
    pub fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }
}
