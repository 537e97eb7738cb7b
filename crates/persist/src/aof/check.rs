//! Check lines: annotations that tell length and CRC-64 of the bytes that follow.
//!
//! ```text
//!  #CHECK:117:0123456789abcdef
//! ```
//!
//! Other servers pass over annotations, in manifests as among commands.

use base::crc::crc64;

/// What bytes are to be, by the line before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Check {
    /// How many bytes.
    pub(super) len: u64,
    sum: u64,
}

const MARK: &str = "#CHECK:";

impl Check {
    /// That of some bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { len: bytes.len() as u64, sum: crc64(0, bytes) }
    }

    /// Whether a line is meant to be a check line.
    pub(super) fn is_meant(line: &[u8]) -> bool {
        line.starts_with(MARK.as_bytes())
    }

    /// The check in such a line, which is without its end.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let (len, sum) = str::from_utf8(line).ok()?.strip_prefix(MARK)?.split_once(':')?;
        Some(Self { len: len.parse().ok()?, sum: u64::from_str_radix(sum, 16).ok()? })
    }

    /// The line, without its end.
    pub(super) fn line(self) -> String {
        let Self { len, sum } = self;
        format!("{MARK}{len}:{sum:016x}")
    }

    /// Whether these are the bytes.
    pub(super) fn admits(self, bytes: &[u8]) -> bool {
        self == Self::of(bytes)
    }
}

/// The line to write before a batch of commands.
#[must_use]
pub fn check_line(batch: &[u8]) -> Vec<u8> {
    let mut line = Check::of(batch).line().into_bytes();
    line.extend_from_slice(b"\r\n");
    line
}
