//! Check lines: annotations that tell length and CRC-64 of the bytes that follow; and cut lines,
//! which tell the same of those before them, back to the check line of a batch that was cut off.
//!
//! ```text
//!  #CHECK:117:0123456789abcdef
//!  #CUT:97:0123456789abcdef
//! ```
//!
//! Other servers pass over annotations, in manifests as among commands.

use std::io;

use base::crc::crc64;

use crate::storage::{File, read_full};

/// What bytes are to be, by a line before or behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CheckLine {
    /// How many bytes.
    pub(super) len: u64,
    sum: u64,
}

const MARK: &str = "#CHECK:";
const CUT_MARK: &str = "#CUT:";

/// Bytes that are read at once.
const STEP: usize = if cfg!(test) { 50 } else { 16 << 10 };

impl CheckLine {
    /// That of a part of a file, which is at its beginning.
    pub(super) fn of_part(file: &mut dyn File, begin: u64, end: u64) -> io::Result<Self> {
        let mut buffer = [0; STEP];
        let (mut at, mut sum) = (0, 0);
        while at < end {
            let most = usize::try_from(end - at).map_or(STEP, |left| left.min(STEP));
            let count = read_full(file, &mut buffer[..most])?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let before = usize::try_from(begin.saturating_sub(at)).unwrap_or(usize::MAX);
            sum = crc64(sum, &buffer[before.min(count)..count]);
            at += count as u64;
        }
        Ok(Self { len: end - begin, sum })
    }

    /// That of some bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self::of_slices([bytes])
    }

    /// That of some bytes in a row.
    fn of_slices<'a>(slices: impl IntoIterator<Item = &'a [u8]>) -> Self {
        slices.into_iter().fold(Self { len: 0, sum: 0 }, |Self { len, sum }, slice| Self {
            len: len + slice.len() as u64,
            sum: crc64(sum, slice),
        })
    }

    /// Whether a line is meant to be a check line.
    pub(super) fn is_meant(line: &[u8]) -> bool {
        line.starts_with(MARK.as_bytes())
    }

    /// Whether a line is meant to be a cut line.
    pub(super) fn is_cut_meant(line: &[u8]) -> bool {
        line.starts_with(CUT_MARK.as_bytes())
    }

    /// The check in a check line, which is without its end.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        Self::parse_behind(MARK, line)
    }

    /// The check in a cut line, which is without its end.
    pub(super) fn parse_cut(line: &[u8]) -> Option<Self> {
        Self::parse_behind(CUT_MARK, line)
    }

    fn parse_behind(mark: &str, line: &[u8]) -> Option<Self> {
        let (len, sum) = str::from_utf8(line).ok()?.strip_prefix(mark)?.split_once(':')?;
        Some(Self { len: len.parse().ok()?, sum: u64::from_str_radix(sum, 16).ok()? })
    }

    /// The check line, without its end.
    pub(super) fn line(self) -> String {
        let Self { len, sum } = self;
        format!("{MARK}{len}:{sum:016x}")
    }

    /// The cut line, with its end.
    pub(super) fn cut_line(self) -> Vec<u8> {
        let Self { len, sum } = self;
        format!("{CUT_MARK}{len}:{sum:016x}\r\n").into_bytes()
    }

    /// Whether these are the bytes.
    pub(super) fn admits(self, bytes: &[u8]) -> bool {
        self == Self::of(bytes)
    }
}

/// The line to write before a batch of commands.
#[must_use]
pub fn check_line(batch: &[u8]) -> Vec<u8> {
    check_line_of([batch])
}

/// The line to write before a batch of commands that lie in several places.
#[must_use]
pub fn check_line_of<'a>(batch: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut line = CheckLine::of_slices(batch).line().into_bytes();
    line.extend_from_slice(b"\r\n");
    line
}
