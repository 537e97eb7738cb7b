//! The increment that the log is written to: whole batches, and maybe padding behind them.
//!
//! To sync what makes a file longer the file system syncs its own journal first, which takes as
//! long again and as much CPU time; what is written over padding needs none of that.
//!
//! What is long and need not be synced at once goes to the disk past the memory of the system, in
//! whole blocks filled up with annotations: to copy it there takes three times as long.
//!
//! Invariants: what counts are the first `length` bytes; behind them there is padding, or nothing,
//! or what a failed write left until it is cut off; nothing is written over the last line.

use std::io::{self, IoSlice};
use std::iter;
use std::ops::{Range, RangeInclusive};

use persist::aof::{PADDING_LINE, filler, filler_length, line_end, pad_line, padding, spacer};
use persist::storage::{BLOCK, File, write_all};

use super::aligned::{Aligned, blocks_of};

/// Padding that is written at once.
const PADDING: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// What is written over padding is at most a part of it.
pub(super) const OVER_PADDING: usize = PADDING / 4;

/// What is written without padding before the disk is asked for space again: to find that it has
/// none may take as long as writing it.
const BARE: u64 = 16 * PADDING as u64;

/// What is written behind the whole batches, with nothing over padding, is copied up to here.
const COPIED: usize = 64 << 10;

/// What is written past the memory of the system: less would cost more than to copy it, and more
/// has come only because the disk is slow, which the system's memory makes up for.
pub(super) const DIRECT: RangeInclusive<usize> =
    if cfg!(test) { 1 << 10..=64 << 10 } else { 128 << 10..=8 << 20 };

/// A file and how it stands with it.
pub(super) struct Increment {
    file: Box<dyn File>,
    /// The first block and the last of what goes past the memory of the system. The last may be
    /// two, if there is no annotation as short as to fill one up.
    ends: Aligned,
    /// Whether the file system has no such way.
    refuses_direct: bool,
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
        let ends = Aligned::with_capacity(3 * BLOCK);
        Self { file, ends, refuses_direct: false, length, padded: None, bare_until: 0 }
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

    /// The same, past the memory of the system if that can be.
    pub(super) fn write_direct<'a>(
        &mut self,
        piece: &mut Vec<u8>,
        rest: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> io::Result<()> {
        self.cut_off()?;
        match self.write_blocks(piece, rest.clone())? {
            true => Ok(()),
            false => self.write(piece, rest),
        }
    }

    /// Writes whole blocks: what begins a batch at the end of the first, the rest as it lies in
    /// memory, and annotations. Whether it could.
    fn write_blocks<'a>(
        &mut self,
        begin: &[u8],
        rest: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<bool> {
        let found = if self.refuses_direct { None } else { blocks_of(rest) };
        let Some((blocks, left)) = found else { return Ok(false) };
        let gap = filler(filler_length(self.length, BLOCK));
        write_all(&mut *self.file, &gap)?;
        self.length += gap.len() as u64;
        self.ends.clear();
        self.ends.extend(&filler(BLOCK - begin.len()));
        self.ends.extend(begin);
        self.ends.extend(left);
        self.ends.extend(&filler(filler_length(self.ends.len() as u64, BLOCK)));
        let (first, last) = self.ends.bytes().split_at(BLOCK);
        let slices = iter::once(first).chain(blocks).chain(iter::once(last));
        let slices = slices.filter(|slice| !slice.is_empty());
        let mut slices: Vec<_> = slices.map(IoSlice::new).collect();
        let count = slices.iter().map(|slice| slice.len()).sum::<usize>();
        self.refuses_direct = !self.file.write_direct(&mut slices)?;
        if !self.refuses_direct {
            self.length += count as u64;
        }
        Ok(!self.refuses_direct)
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
    use persist::storage::{BLOCK, How, Storage, read_whole};

    use super::{BARE, Increment};
    use crate::aof::aligned::Aligned;

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

    /// A batch of so many bytes that begin where a block does.
    fn batch(length: usize) -> Aligned {
        let mut batch = Aligned::with_capacity(length);
        batch.extend(&vec![b'x'; length]);
        batch
    }

    #[test]
    fn what_goes_past_the_memory_of_the_system_fills_whole_blocks() {
        let path = Path::new("/increment");
        for (length, refuses) in
            [2 * BLOCK, 2 * BLOCK + 1, 3 * BLOCK - 1].into_iter().zip([false, false, true])
        {
            let disk = Disk::new();
            if refuses {
                disk.refuse_direct();
            }
            let mut increment = Increment::new(disk.open(path, How::Append).unwrap(), 0);
            let batch = batch(length);
            increment.write(&mut b"before".to_vec(), iter::once(&b"."[..])).unwrap();
            for _ in 0..2 {
                let rest = iter::once(batch.bytes());
                increment.write_direct(&mut b"begin".to_vec(), rest).unwrap();
            }
            increment.write(&mut b"behind".to_vec(), iter::once(&b"."[..])).unwrap();
            let bytes = read_whole(&disk, path).unwrap();
            assert_eq!(bytes.len() as u64, increment.length());
            let text = String::from_utf8(bytes).unwrap();
            let whole = format!("begin{}", "x".repeat(length));
            let begins: Vec<_> = text.match_indices(&whole).map(|(at, _)| at + 5).collect();
            assert_eq!(begins.len(), 2);
            let is_block = |at: &usize| at.is_multiple_of(BLOCK);
            assert_eq!(begins.iter().all(is_block), !refuses, "{begins:?}");
            let rest = text.replace(&whole, "").replace("before.", "").replace("behind.", "");
            let is_filler =
                |line: &str| line.starts_with('#') && line[1..].bytes().all(|b| b == b'.');
            assert!(rest.split_terminator("\r\n").all(is_filler), "{rest}");
        }
    }

    #[test]
    fn what_lies_anywhere_is_written_as_ever() {
        let (disk, path) = (Disk::new(), Path::new("/increment"));
        let mut increment = Increment::new(disk.open(path, How::Append).unwrap(), 0);
        let batch = batch(2 * BLOCK);
        let slices = batch.bytes().split_at(5);
        let rest = [slices.0, slices.1].into_iter();
        increment.write_direct(&mut b"begin".to_vec(), rest).unwrap();
        let expected = [b"begin", batch.bytes()].concat();
        assert_eq!(read_whole(&disk, path).unwrap(), expected);
    }
}
