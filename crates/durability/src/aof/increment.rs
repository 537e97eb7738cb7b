//! The increment that the log is written to: whole batches, and maybe padding behind them.
//!
//! To sync what makes a file longer the file system syncs its own journal first, which takes as
//! long again and as much CPU time; what is written over padding needs none of that.
//!
//! What is written over padding, and what is long, goes to the disk past the memory of the system,
//! in whole blocks: to copy it there first takes three times as long, and a sync of that a quarter
//! longer. What is long is filled up with annotations; of what is written over padding the last
//! block is written again with what comes next, over the same bytes.
//!
//! Invariants: what counts are the first `length` bytes; behind them there is padding, or nothing,
//! or what a failed write left until it is cut off; nothing is written over the last line; padding
//! begins and ends with blocks, and while there is some `blocks` holds what stands in the last one.

use std::io::{self, IoSlice};
use std::iter;
use std::ops::{Range, RangeInclusive};

use persist::aof::{PADDING_LINE, filler, filler_length, pad_lines, padding, spacer};
use persist::storage::File;

use crate::aof::aligned_buffer::{AlignedBuffer, BLOCK, blocks_of};

/// Padding that is written at once: whole blocks.
const PADDING: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// The lines of padding that are kept, to be written again and again.
const LINES: usize = 4 * BLOCK;

/// What is written over padding is at most a part of it.
pub(super) const OVER_PADDING: usize = PADDING / 4;

/// What is written without padding before the disk is asked for space again: to find that it has
/// none may take as long as writing it.
const BARE: u64 = 16 * PADDING as u64;

/// What is written behind the whole batches, with nothing over padding, is copied up to here.
const COPIED: usize = 64 << 10;

/// What is written past the memory of the system where there is no padding: less would cost more
/// than to copy it, and more has come only because the disk is slow, which the system's memory
/// makes up for.
const DIRECT: RangeInclusive<usize> =
    if cfg!(test) { 1 << 10..=64 << 10 } else { 128 << 10..=8 << 20 };

/// A file and how it stands with it.
pub(super) struct Increment {
    target: DirectTarget,
    /// Blocks on their way; over padding they begin with what is in the last one already.
    blocks: AlignedBuffer,
    /// Lines as most of padding is made of, and the block that is its last.
    lines: AlignedBuffer,
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
        // The first block and the last of what is long. The last may be two, if there is no
        // annotation as short as to fill one up.
        let blocks = AlignedBuffer::with_capacity(3 * BLOCK);
        let target = DirectTarget { file, refuses_direct: false };
        let lines = AlignedBuffer::with_capacity(0);
        Self { target, blocks, lines, length, padded: None, bare_until: 0 }
    }

    /// How much of it are whole batches.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Whether padding is missing for so many bytes, and there may be space for it.
    pub(super) fn wants_padding(&self, count: usize) -> bool {
        self.length >= self.bare_until && !self.has_room(count)
    }

    /// Whether padding is to be written over.
    pub(super) fn is_padded(&self) -> bool {
        self.padded.is_some()
    }

    fn has_room(&self, count: usize) -> bool {
        // A spacer may be put in, and the last block stays.
        let end = self.length + count as u64 + PADDING_LINE;
        let end = end.next_multiple_of(BLOCK as u64) + BLOCK as u64;
        count <= OVER_PADDING && self.padded.is_some_and(|padded| end <= padded)
    }

    /// Adds padding, which must be synced before anything is written over it. If the disk has no
    /// space for it there is none, and the disk is asked again when much was written without.
    pub(super) fn pad(&mut self, is_direct: bool) -> io::Result<()> {
        self.add_padding(is_direct).or_else(|_| {
            self.bare_until = self.length + BARE;
            self.cut_off_all()
        })
    }

    fn add_padding(&mut self, is_direct: bool) -> io::Result<()> {
        let from = match self.padded {
            // The last line is one as the others then.
            Some(padded) => padded - BLOCK as u64,
            None => {
                self.fill_block()?;
                self.blocks = AlignedBuffer::with_capacity(OVER_PADDING + 3 * BLOCK);
                self.lines = AlignedBuffer::with_capacity(LINES + BLOCK);
                self.lines.extend(&padding(0, LINES + BLOCK));
                self.length
            }
        };
        let (lines, last) = self.lines.bytes().split_at(LINES);
        let all: Vec<_> = iter::repeat_n(lines, PADDING / LINES).chain([last]).collect();
        self.target.write_blocks(from, &all, is_direct)?;
        self.padded = Some(from + (PADDING + BLOCK) as u64);
        Ok(())
    }

    /// Writes a batch, whose beginning is in `piece`, over padding if there is room; past the
    /// memory of the system if that can be and is wanted. After an error any part of it may be
    /// written.
    pub(super) fn write<'a>(
        &mut self,
        piece: &mut Vec<u8>,
        rest: impl Iterator<Item = &'a [u8]> + Clone,
        is_direct: bool,
    ) -> io::Result<()> {
        let length = rest.clone().map(<[u8]>::len).sum::<usize>();
        let count = piece.len() + length;
        if self.has_room(count) {
            return self.write_over_padding(piece, rest, is_direct);
        }
        self.cut_off()?;
        let is_direct = is_direct && DIRECT.contains(&length) && !self.target.refuses_direct;
        if let Some((blocks, left)) = blocks_of(rest.clone()).filter(|_| is_direct) {
            return self.write_filled(piece, blocks, left);
        }
        self.write_behind(piece, length, rest)?;
        self.length += count as u64;
        Ok(())
    }

    /// Writes the last block again, with what follows.
    fn write_over_padding<'a>(
        &mut self,
        begin: &[u8],
        rest: impl Iterator<Item = &'a [u8]> + Clone,
        is_direct: bool,
    ) -> io::Result<()> {
        let block = self.length - self.blocks.len() as u64;
        let count = rest.clone().fold(begin.len(), |count, slice| count + slice.len());
        // Annotations may stand before what is in it already.
        self.blocks.extend(spacer(self.length + count as u64));
        self.blocks.extend(begin);
        rest.for_each(|slice| self.blocks.extend(slice));
        let used = self.blocks.len();
        let end = block + used as u64;
        self.blocks.extend(&pad_lines(end, BLOCK));
        self.target.write_blocks(block, &[self.blocks.bytes()], is_direct)?;
        self.blocks.keep(used - used % BLOCK..used);
        self.length = end;
        Ok(())
    }

    /// Writes whole blocks: what begins a batch at the end of the first, the rest as it lies in
    /// memory, and annotations.
    fn write_filled(&mut self, begin: &[u8], blocks: Vec<&[u8]>, left: &[u8]) -> io::Result<()> {
        self.fill_block()?;
        self.blocks.clear();
        self.blocks.extend(&filler(BLOCK - begin.len()));
        self.blocks.extend(begin);
        self.blocks.extend(left);
        self.blocks.extend(&filler(filler_length(self.blocks.len() as u64, BLOCK)));
        let (first, last) = self.blocks.bytes().split_at(BLOCK);
        let all: Vec<_> = iter::once(first).chain(blocks).chain(iter::once(last)).collect();
        self.target.write_blocks(self.length, &all, true)?;
        self.length += all.iter().map(|slice| slice.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Adds annotations up to the end of the last block.
    fn fill_block(&mut self) -> io::Result<()> {
        let filler = filler(filler_length(self.length, BLOCK));
        self.target.file.write_at(self.length, &filler)?;
        self.length += filler.len() as u64;
        Ok(())
    }

    fn write_behind<'a>(
        &mut self,
        piece: &mut Vec<u8>,
        length: usize,
        rest: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<()> {
        let (file, mut at) = (&mut self.target.file, self.length);
        if length <= COPIED {
            rest.for_each(|slice| piece.extend_from_slice(slice));
            return file.write_at(at, piece);
        }
        file.write_at(at, piece)?;
        at += piece.len() as u64;
        for slice in rest {
            file.write_at(at, slice)?;
            at += slice.len() as u64;
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
        self.target.file.truncate(self.length)?;
        self.padded = None;
        self.blocks.clear();
        Ok(())
    }

    /// Has the disk keep what was written.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.target.file.sync()
    }

    /// Has the disk begin with that.
    pub(super) fn begin_sync(&mut self, range: Range<u64>) {
        self.target.file.begin_sync(range);
    }
}

/// Where an increment is written.
struct DirectTarget {
    file: Box<dyn File>,
    /// Whether the file system writes nothing past the memory of the system.
    refuses_direct: bool,
}

impl DirectTarget {
    /// Writes whole blocks, past the memory of the system if that is wanted and can be.
    fn write_blocks(&mut self, mut at: u64, all: &[&[u8]], is_direct: bool) -> io::Result<()> {
        if is_direct && !self.refuses_direct {
            let slices = all.iter().filter(|slice| !slice.is_empty());
            let mut slices: Vec<_> = slices.map(|slice| IoSlice::new(slice)).collect();
            if self.file.write_direct(at, &mut slices)? {
                return Ok(());
            }
            self.refuses_direct = true;
        }
        for slice in all {
            self.file.write_at(at, slice)?;
            at += slice.len() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::iter;
    use std::path::Path;

    use persist::storage::simulated::{Fault, SimulatedDisk};
    use persist::storage::{OpenMode, Storage, read_whole};

    use super::{BARE, BLOCK, DIRECT, Increment, OVER_PADDING};
    use crate::aof::aligned_buffer::AlignedBuffer;

    const PATH: &str = "/increment";

    fn open(disk: &SimulatedDisk) -> Increment {
        Increment::new(disk.open(Path::new(PATH), OpenMode::Append).unwrap(), 0)
    }

    fn read(disk: &SimulatedDisk) -> Vec<u8> {
        read_whole(disk, Path::new(PATH)).unwrap()
    }

    /// Writes a batch that lies anywhere.
    fn write(increment: &mut Increment, batch: &[u8], is_direct: bool) {
        increment.write(&mut Vec::new(), iter::once(batch), is_direct).unwrap();
    }

    #[test]
    fn a_disk_that_was_full_is_asked_for_padding_again() {
        let disk = SimulatedDisk::new();
        let mut increment = open(&disk);
        disk.fail_at(disk.calls(), Fault::Error(libc::ENOSPC));
        increment.pad(true).unwrap();
        let (batch, mut written) = ([b'x'; 100], 0);
        while !increment.wants_padding(batch.len()) {
            write(&mut increment, &batch, true);
            written += batch.len() as u64;
        }
        assert!((BARE..BARE + 100).contains(&written), "{written}");
        increment.pad(true).unwrap();
        assert!(increment.has_room(batch.len()) && !increment.wants_padding(batch.len()));
        let long = read(&disk).len();
        write(&mut increment, &batch, true);
        assert_eq!(read(&disk).len(), long);
    }

    #[test]
    fn over_padding_the_same_is_written_past_the_memory_of_the_system_and_into_it() {
        let fill = |is_direct, refuses| {
            let disk = SimulatedDisk::new();
            if refuses {
                disk.refuse_direct();
            }
            let mut increment = open(&disk);
            let mut written = b"before".to_vec();
            write(&mut increment, &written, is_direct);
            for length in (0..2 * OVER_PADDING).step_by(7) {
                let batch = vec![b'a' + (length % 26) as u8; length % OVER_PADDING];
                if increment.wants_padding(batch.len()) {
                    increment.pad(is_direct).unwrap();
                }
                let length = read(&disk).len();
                write(&mut increment, &batch, is_direct);
                assert_eq!(read(&disk).len(), length, "there was room");
                written.extend(batch);
            }
            increment.cut_off().unwrap();
            write(&mut increment, b"behind", is_direct);
            written.extend(b"behind");
            (read(&disk), written)
        };
        let (bytes, written) = fill(true, false);
        let said = String::from_utf8(bytes.clone()).unwrap();
        let said: String = said.split("\r\n").map(|line| line.split('#').next().unwrap()).collect();
        assert_eq!(said.into_bytes(), written, "between annotations");
        assert!(fill(false, false).0 == bytes && fill(true, true).0 == bytes);
    }

    #[test]
    fn what_is_long_fills_whole_blocks_past_the_memory_of_the_system() {
        for (more, refuses) in [(0, false), (1, false), (BLOCK - 1, false), (5, true)] {
            let disk = SimulatedDisk::new();
            if refuses {
                disk.refuse_direct();
            }
            let mut increment = open(&disk);
            let mut batch = AlignedBuffer::with_capacity(DIRECT.start() + more);
            batch.extend(&vec![b'x'; batch.room()]);
            write(&mut increment, b"before", true);
            for _ in 0..3 {
                let rest = iter::once(batch.bytes());
                increment.write(&mut b"begin".to_vec(), rest, true).unwrap();
            }
            write(&mut increment, b"behind", true);
            let bytes = read(&disk);
            assert_eq!(bytes.len() as u64, increment.length());
            let text = String::from_utf8(bytes).unwrap();
            let whole = format!("begin{}", "x".repeat(batch.len()));
            let begins = text.match_indices(&whole).map(|(at, _)| at + 5);
            let in_place = begins.filter(|at| at.is_multiple_of(BLOCK)).count();
            // The first write shows whether the disk refuses what goes past the memory of the
            // system.
            assert_eq!(in_place, if refuses { 1 } else { 3 });
            let rest = text.replace(&whole, "").replace("before", "").replace("behind", "");
            let is_filler = |line: &str| line.trim_end_matches('.') == "#";
            assert!(rest.split_terminator("\r\n").all(is_filler), "{rest}");
        }
    }

    #[test]
    fn what_is_long_and_lies_anywhere_is_written_as_ever() {
        let disk = SimulatedDisk::new();
        let mut batch = AlignedBuffer::with_capacity(2 * DIRECT.start());
        batch.extend(&vec![b'x'; batch.room()]);
        write(&mut open(&disk), &batch.bytes()[1..], true);
        assert_eq!(read(&disk), batch.bytes()[1..]);
    }
}
