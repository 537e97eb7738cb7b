//! A file that is read from its beginning to its end, in pieces that someone else cuts.
//!
//! Invariant: memory grows with the bytes that come, not with what they claim.

use std::io;

use super::{File, read_full};

/// Bytes that are read at once.
const BLOCK: usize = if cfg!(test) { 50 } else { 512 * 1024 };

/// What was read of a file and not taken.
pub(crate) struct Window<'f> {
    file: &'f mut dyn File,
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    /// Where in the file they begin.
    pub(crate) offset: u64,
}

impl<'f> Window<'f> {
    /// At the beginning of a file.
    pub(crate) fn new(file: &'f mut dyn File) -> Self {
        Self::at(file, 0, Vec::new())
    }

    /// At a place in a file, some of which was read beyond it.
    pub(crate) fn at(file: &'f mut dyn File, offset: u64, bytes: Vec<u8>) -> Self {
        Self { file, bytes, offset }
    }

    /// Where in the file what was read ends.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Takes the first bytes, and tells where in the file they began.
    pub(crate) fn take(&mut self, count: usize) -> (u64, Vec<u8>) {
        let rest = self.bytes.split_off(count);
        let offset = self.offset;
        self.offset += count as u64;
        (offset, std::mem::replace(&mut self.bytes, rest))
    }

    /// Forgets the first bytes.
    pub(crate) fn skip(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.offset += count as u64;
    }

    /// Reads a block, or more where more is needed or much is there already, but at most as much
    /// again as there is; whether anything came.
    pub(crate) fn fill(&mut self, needed: u64) -> io::Result<bool> {
        let filled = self.bytes.len();
        let needed = usize::try_from(needed).unwrap_or(usize::MAX);
        // What is needed next may be little and not the last: a reader that looks at all of it
        // again each time must not do so often.
        let step = needed.max(filled / 2).min(filled).max(BLOCK);
        self.bytes.reserve_exact(step);
        self.bytes.resize(filled + step, 0);
        let result = read_full(self.file, &mut self.bytes[filled..]);
        self.bytes.truncate(filled + result.as_ref().map_or(0, |count| *count));
        result.map(|count| count > 0)
    }
}
