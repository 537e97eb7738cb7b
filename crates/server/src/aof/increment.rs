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

/// What is written behind the whole batches, with nothing over padding, is copied up to here.
const COPIED: usize = 64 << 10;

/// A file and how it stands with it.
pub(super) struct Increment {
    file: Box<dyn File>,
    /// How much of it are whole batches.
    length: u64,
    /// Where the padding ends that is behind them.
    padded: Option<u64>,
    /// Whether the disk had space for padding when it was last asked.
    has_space: bool,
}

impl Increment {
    /// A file of whole batches.
    pub(super) fn new(file: Box<dyn File>, length: u64) -> Self {
        Self { file, length, padded: None, has_space: true }
    }

    /// How much of it are whole batches.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Whether padding is missing for so many bytes, and there may be space for it.
    pub(super) fn wants_padding(&self, count: usize) -> bool {
        self.has_space && !self.has_room(count)
    }

    fn has_room(&self, count: usize) -> bool {
        // A spacer may be put in, and the last line stays.
        let end = line_end(self.length + count as u64) + 2 * PADDING_LINE;
        self.padded.is_some_and(|padded| end <= padded)
    }

    /// Adds padding, which must be synced before anything is written over it. If the disk has no
    /// space for it there is none.
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
                self.has_space = false;
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
