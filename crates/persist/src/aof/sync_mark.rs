//! Sync marks: annotations that tell how much of a file was on disk before what follows came.
//!
//! ```text
//!  #SYNC:4711:0123456789abcdef
//! ```
//!
//! A power loss may leave anything in the place of what was not synced: zeros, or whatever lay on
//! the disk, even before bytes that are whole. Such a hole cannot touch what a later mark calls
//! synced. The number at the end is the file's own and nobody is told it, so that no client can
//! store a mark.

use std::io;

use crate::storage::{File, Window};

const WORD: &str = "#SYNC:";

/// The longest mark: a word, twenty digits, sixteen, and what stands between and behind.
const LINE_MAX: usize = WORD.len() + 20 + 1 + 16 + 2;

/// A mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncMark {
    /// Everything up to here was synced.
    pub offset: u64,
    /// The file's number.
    pub file: u64,
}

impl SyncMark {
    /// The line to write.
    #[must_use]
    pub fn line(self) -> Vec<u8> {
        let Self { offset, file } = self;
        format!("{WORD}{offset}:{file:016x}\r\n").into_bytes()
    }

    /// The mark in a line, which is without its end.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let (offset, file) = str::from_utf8(line).ok()?.strip_prefix(WORD)?.split_once(':')?;
        Some(Self { offset: offset.parse().ok()?, file: u64::from_str_radix(file, 16).ok()? })
    }
}

/// Whether any mark of a file, whose number this is, calls more of it synced than up to a place.
pub fn is_synced_beyond(file: &mut dyn File, number: u64, place: u64) -> io::Result<bool> {
    let mut window = Window::new(file);
    let mut has_more = true;
    while has_more {
        has_more = window.fill(0)?;
        let bytes = &window.bytes;
        // What may be cut off is looked at again with what follows.
        let sure = if has_more { bytes.len().saturating_sub(LINE_MAX) } else { bytes.len() };
        let starts = bytes[..sure].iter().enumerate().filter(|(_, byte)| **byte == b'#');
        for (at, _) in starts {
            let rest = &bytes[at..bytes.len().min(at + LINE_MAX)];
            let line = rest.iter().position(|byte| *byte == b'\r').map(|end| &rest[..end]);
            let mark = line.and_then(SyncMark::parse);
            if mark.is_some_and(|mark| mark.file == number && mark.offset > place) {
                return Ok(true);
            }
        }
        window.take(sure);
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{SyncMark, is_synced_beyond};
    use crate::storage::simulated::SimulatedDisk;
    use crate::storage::{OpenMode, Storage};

    #[test]
    fn marks_are_found_wherever_they_lie_and_only_those_of_the_file() {
        let mark = |offset, file| SyncMark { offset, file }.line();
        for padding in 0..200 {
            let disk = SimulatedDisk::new();
            let own = mark(1000, 7);
            let bytes = [&mark(5000, 8), &vec![b'#'; padding], &*own, &[0; 200]].concat();
            disk.put(Path::new("log"), &bytes);
            let is_beyond = |number, place| {
                let mut file = disk.open(Path::new("log"), OpenMode::Read).unwrap();
                is_synced_beyond(&mut *file, number, place).unwrap()
            };
            assert!(is_beyond(7, 999) && !is_beyond(7, 1000) && !is_beyond(9, 0), "{padding}");
        }
        assert_eq!(SyncMark::parse(b"#SYNC:12"), None);
        assert_eq!(SyncMark::parse(b"#SYNC:x:1"), None);
    }
}
