//! Bytes in pieces of one size, which are used again.
//!
//! A buffer that grows in one piece is copied when it grows, and one that is given back when it is
//! large has to be had from the system anew, page by page, each time a disk is slow for a moment.
//!
//! Invariants: all pieces but the last are full; each is whole blocks of the disk, aligned as its
//! blocks are; the piece that was filled last, which the processor's cache may have still, is the
//! first to be used again.

use structs::prefetch;

use crate::aof::aligned_buffer::{AlignedBuffer, BLOCK};

/// Bytes in a piece, for which it takes 256 KB.
const PIECE: usize = (256 << 10) - BLOCK;

/// As many bytes as most records have are asked for ahead.
const AHEAD: usize = 512;

/// Some bytes in a row.
#[derive(Default)]
pub(super) struct Pieces {
    pieces: Vec<AlignedBuffer>,
    len: usize,
}

impl Pieces {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends bytes, in pieces out of `spare` as far as there are some.
    #[inline]
    pub(super) fn append(&mut self, mut bytes: &[u8], spare: &mut Vec<AlignedBuffer>) {
        self.len += bytes.len();
        loop {
            let room = self.pieces.last().map_or(0, AlignedBuffer::room);
            if bytes.len() <= room
                && let Some(last) = self.pieces.last_mut()
            {
                last.extend(bytes);
                // The next record's bytes are stored while its lock is held, and they must all be
                // in the cache before it can be released.
                let end = last.bytes().as_ptr_range().end;
                prefetch::span_to_write(end, 0..AHEAD.min(last.room()));
                return;
            }
            bytes = self.begin_piece(bytes, room, spare);
        }
    }

    /// Fills the last piece, and begins the next one; what did not fit.
    #[cold]
    fn begin_piece<'a>(
        &mut self,
        bytes: &'a [u8],
        room: usize,
        spare: &mut Vec<AlignedBuffer>,
    ) -> &'a [u8] {
        let (fitting, rest) = bytes.split_at(room.min(bytes.len()));
        if let Some(last) = self.pieces.last_mut() {
            last.extend(fitting);
        }
        self.pieces.push(spare.pop().unwrap_or_else(|| AlignedBuffer::with_capacity(PIECE)));
        rest
    }

    /// The bytes between two places, in order.
    pub(super) fn slices(&self, from: usize, to: usize) -> impl Iterator<Item = &[u8]> + Clone {
        let starts = (0..).step_by(PIECE);
        self.pieces.iter().zip(starts).filter_map(move |(piece, start)| {
            let (first, end) = (from.max(start), to.min(start + piece.len()));
            (first < end).then(|| &piece.bytes()[first - start..end - start])
        })
    }

    /// Gives the pieces back to be filled again.
    pub(super) fn recycle(self, spare: &mut Vec<AlignedBuffer>) {
        spare.extend(self.pieces.into_iter().map(|mut piece| {
            piece.clear();
            piece
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE, Pieces};

    #[test]
    fn bytes_come_out_as_they_were_put_in() {
        let (mut pieces, mut spare) = (Pieces::default(), Vec::new());
        let mut all = Vec::new();
        for length in [1, 0, PIECE - 1, 1, PIECE, 3 * PIECE + 5, 100, 2 * PIECE - 105, 7] {
            let bytes: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            pieces.append(&bytes, &mut spare);
            all.extend_from_slice(&bytes);
            assert_eq!(pieces.len(), all.len());
        }
        for (from, to) in [(0, all.len()), (5, PIECE), (PIECE, PIECE + 1), (9, 9), (1, 4 * PIECE)] {
            assert_eq!(pieces.slices(from, to).collect::<Vec<_>>().concat(), all[from..to]);
            assert!(pieces.slices(from, to).all(|slice| !slice.is_empty()));
        }
    }

    #[test]
    fn pieces_are_used_again() {
        let (mut pieces, mut spare) = (Pieces::default(), Vec::new());
        pieces.append(&vec![1; 2 * PIECE], &mut spare);
        let last = pieces.slices(PIECE, PIECE + 1).next().unwrap().as_ptr();
        pieces.recycle(&mut spare);
        assert_eq!(spare.len(), 2);
        let mut next = Pieces::default();
        next.append(b"abc", &mut spare);
        assert_eq!(spare.len(), 1);
        let found = next.slices(0, 3).next().unwrap();
        assert_eq!((found, found.as_ptr()), (&b"abc"[..], last));
    }
}
