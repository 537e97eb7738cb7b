//! The increment that the log is written to: whole batches, and maybe padding behind them.
//!
//! To sync what makes a file longer the file system syncs its own journal first, which takes as
//! long again and as much CPU time; what is written over padding needs none of that.
//!
//! Invariants: what counts are the first `length` bytes; behind them there is padding, or nothing,
//! or what a failed write left until it is cut off; nothing is written over the last line.

use std::io;
use std::ops::Range;

use persist::aof::{PADDING_LINE, line_end, pad_line, padding, spacer};
use persist::storage::{File, write_all};

/// Padding that is written at once.
const PADDING: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// What is written over padding is at most a part of it.
pub(super) const OVER_PADDING: usize = PADDING / 4;

/// What is written without padding before the disk is asked for space again: to find that it has
/// none may take as long as writing it.
const BARE: u64 = 16 * PADDING as u64;

/// What is written behind the whole batches, with nothing over padding, is copied up to here.
const COPIED: usize = 64 << 10;

/// A file and how it stands with it.
pub(super) struct Increment {
    file: Box<dyn File>,
    /// How much of it are whole batches.
    length: u64,
    /// Where the padding ends that is behind them.
    padded: Option<u64>,
    /// How long it is to be before there is padding again; so long the disk had no space for it.
    bare_until: u64,
}

impl Increment {
    /// A file of whole batches.
    pub(super) fn new(file: Box<dyn File>, length: u64) -> Self {
        Self { file, length, padded: None, bare_until: 0 }
    }

    /// How much of it are whole batches.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Whether padding is missing for so many bytes, and there may be space for it.
    pub(super) fn wants_padding(&self, count: usize) -> bool {
        self.length >= self.bare_until && !self.has_room(count)
    }

    fn has_room(&self, count: usize) -> bool {
        // A spacer may be put in, and the last line stays.
        let end = line_end(self.length + count as u64) + 2 * PADDING_LINE;
        self.padded.is_some_and(|padded| end <= padded)
    }

    /// Adds padding, which must be synced before anything is written over it. If the disk has no
    /// space for it there is none, and the disk is asked again when much was written without.
    pub(super) fn pad(&mut self) -> io::Result<()> {
        let space = if self.padded.is_none() { spacer(self.length) } else { b"" };
        // What was the last line is one as the others then.
        let from = self.padded.map_or(self.length, |padded| padded - PADDING_LINE);
        let begin = from + space.len() as u64;
        let lines = [space, &padding(begin, PADDING)].concat();
        match self.file.write_at(from, &lines) {
            Ok(()) => {
                self.length += space.len() as u64;
                self.padded = Some(from + lines.len() as u64);
                Ok(())
            }
            Err(_) => {
                self.bare_until = self.length + BARE;
                self.cut_off_all()
            }
        }
    }

    /// Writes a batch, whose beginning is in `piece`; over padding if there is room. After an error
    /// any part of it may be written.
    pub(super) fn write<'a>(
        &mut self,
        piece: &mut Vec<u8>,
        rest: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> io::Result<()> {
        let length = rest.clone().map(<[u8]>::len).sum::<usize>();
        let count = piece.len() + length;
        if self.has_room(count) {
            // Annotations may stand before what is in it already.
            piece.splice(..0, spacer(self.length + count as u64).iter().copied());
            rest.for_each(|slice| piece.extend_from_slice(slice));
            let end = self.length + piece.len() as u64;
            pad_line(end, piece);
            self.file.write_at(self.length, piece)?;
            self.length = end;
        } else {
            self.cut_off()?;
            self.write_behind(piece, length, rest)?;
            self.length += count as u64;
        }
        Ok(())
    }

    fn write_behind<'a>(
        &mut self,
        piece: &mut Vec<u8>,
        length: usize,
        rest: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<()> {
        if length <= COPIED {
            rest.for_each(|slice| piece.extend_from_slice(slice));
            return write_all(&mut *self.file, piece);
        }
        write_all(&mut *self.file, piece)?;
        for slice in rest {
            write_all(&mut *self.file, slice)?;
        }
        Ok(())
    }

    /// Cuts the padding off, if there is any.
    pub(super) fn cut_off(&mut self) -> io::Result<()> {
        match self.padded {
            Some(_) => self.cut_off_all(),
            None => Ok(()),
        }
    }

    /// Cuts off all that is behind whole batches, as a failed write may have left something there.
    pub(super) fn cut_off_all(&mut self) -> io::Result<()> {
        self.file.truncate(self.length)?;
        self.padded = None;
        Ok(())
    }

    /// Has the disk keep what was written.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    /// Has the disk begin with that.
    pub(super) fn begin_sync(&mut self, range: Range<u64>) {
        self.file.begin_sync(range);
    }
}

#[cfg(test)]
mod tests {
    use std::iter;
    use std::path::Path;

    use persist::storage::simulated::{Disk, Fault};
    use persist::storage::{How, Storage};

    use super::{BARE, Increment};

    #[test]
    fn a_disk_that_was_full_is_asked_for_padding_again() {
        let (disk, path) = (Disk::new(), Path::new("/increment"));
        let mut increment = Increment::new(disk.open(path, How::Append).unwrap(), 0);
        disk.fail_at(disk.calls(), Fault::Error(libc::ENOSPC));
        increment.pad().unwrap();
        let (batch, mut written) = ([b'x'; 100], 0);
        while !increment.wants_padding(batch.len()) {
            increment.write(&mut Vec::new(), iter::once(&batch[..])).unwrap();
            written += batch.len() as u64;
        }
        assert!((BARE..BARE + 100).contains(&written), "{written}");
        increment.pad().unwrap();
        assert!(increment.has_room(batch.len()) && !increment.wants_padding(batch.len()));
        let long = disk.open(path, How::Read).unwrap().length().unwrap();
        increment.write(&mut Vec::new(), iter::once(&batch[..])).unwrap();
        assert_eq!(disk.open(path, How::Read).unwrap().length().unwrap(), long);
    }
}
