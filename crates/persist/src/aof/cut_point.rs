//! Where a journal may be cut off, and how.
//!
//! A batch that is cut off within is not as its check line says any more, so a cut line behind what
//! is left of it says what it is now.
//!
//! Invariant: what was whole before a cut is read after it, whatever is written behind.

use std::io;
use std::path::Path;

use super::check_line::CheckLine;
use crate::storage::{OpenMode, Storage, write_all};

/// The end of a whole unit, or of a file.
#[derive(Clone, Copy, Debug)]
pub struct CutPoint {
    pub(super) offset: u64,
    /// Where the batch begins that has more to come, by its check line.
    pub(super) batch: Option<u64>,
}

impl CutPoint {
    /// Where in the file that is.
    #[must_use]
    pub fn offset(self) -> u64 {
        self.offset
    }

    /// Whether the cut is in the middle of a batch, by the check line of that.
    #[must_use]
    pub fn is_within_batch(self) -> bool {
        self.batch.is_some()
    }

    /// Cuts the file off here and has that on disk; how long it is then.
    pub fn cut(self, storage: &dyn Storage, path: &Path) -> io::Result<u64> {
        let line = match self.batch {
            Some(begin) => {
                let mut file = storage.open(path, OpenMode::Read)?;
                CheckLine::of_part(&mut *file, begin, self.offset)?.cut_line()
            }
            None => Vec::new(),
        };
        let mut file = storage.open(path, OpenMode::Append)?;
        file.truncate(self.offset)?;
        write_all(&mut *file, &line)?;
        file.sync()?;
        Ok(self.offset + line.len() as u64)
    }
}
