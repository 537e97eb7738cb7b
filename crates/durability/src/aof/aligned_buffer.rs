//! Memory that begins where a block of the disk may be written from.
//!
//! Invariants: the first byte stands where [`BLOCK`] divides the address, for as long as no more is
//! put in than there is room for, so that the bytes are never moved; what all of it takes is known.

use std::ops::Range;

use engine::limits::log_buffers;

/// The length of a block; in tests smaller than any is, so that small files have many.
pub(crate) const BLOCK: usize = if cfg!(test) { 256 } else { persist::storage::BLOCK };

/// Bytes with a bound.
pub(crate) struct AlignedBuffer {
    buffer: Vec<u8>,
    /// How many bytes of the buffer lie before the first place that is aligned.
    start: usize,
    /// What the buffer was made for.
    capacity: usize,
}

impl AlignedBuffer {
    /// Takes a block's length more memory than it has room.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let mut buffer: Vec<u8> = Vec::with_capacity(capacity + BLOCK);
        let start = buffer.as_ptr().align_offset(BLOCK).min(BLOCK);
        buffer.resize(start, 0);
        log_buffers::note_taken(buffer.capacity());
        Self { buffer, start, capacity }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    pub(crate) fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// How many more bytes it takes.
    pub(crate) fn room(&self) -> usize {
        self.capacity - self.len()
    }

    /// Appends bytes, for which there must be room.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.room(), "else all would be moved");
        self.buffer.extend_from_slice(bytes);
    }

    pub(crate) fn clear(&mut self) {
        self.buffer.truncate(self.start);
    }

    /// Keeps these bytes alone, which then are the first.
    pub(crate) fn keep(&mut self, range: Range<usize>) {
        let length = range.len();
        self.buffer.copy_within(self.start + range.start..self.start + range.end, self.start);
        self.buffer.truncate(self.start + length);
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // The buffer never grows.
        log_buffers::note_freed(self.buffer.capacity());
    }
}

/// Slices in a row as whole blocks, and what is left at their end; `None` if they cannot be.
pub(crate) fn blocks_of<'a>(
    slices: impl Iterator<Item = &'a [u8]>,
) -> Option<(Vec<&'a [u8]>, &'a [u8])> {
    let (mut blocks, mut rest): (Vec<_>, &[u8]) = (Vec::new(), &[]);
    for slice in slices {
        if !rest.is_empty() || !slice.as_ptr().addr().is_multiple_of(BLOCK) {
            return None;
        }
        let (whole, behind) = slice.split_at(slice.len() - slice.len() % BLOCK);
        blocks.push(whole);
        rest = behind;
    }
    Some((blocks, rest))
}

#[cfg(test)]
mod tests {
    use super::{AlignedBuffer, BLOCK, blocks_of};

    fn aligned(len: usize) -> AlignedBuffer {
        let mut aligned = AlignedBuffer::with_capacity(2 * BLOCK);
        (0..len).for_each(|_| aligned.extend(b"x"));
        aligned
    }

    #[test]
    fn an_aligned_buffer_begins_at_a_block_and_stays_there() {
        let mut full = aligned(2 * BLOCK);
        let place = full.bytes().as_ptr().addr();
        assert_eq!((place % BLOCK, full.len(), full.room()), (0, 2 * BLOCK, 0));
        full.clear();
        full.extend(b"abcde");
        full.keep(1..4);
        assert_eq!((full.bytes(), full.bytes().as_ptr().addr()), (&b"bcd"[..], place));
    }

    #[test]
    fn only_the_end_of_the_last_slice_may_be_less_than_a_block() {
        let (whole, ragged) = (aligned(2 * BLOCK), aligned(BLOCK + 5));
        let [whole, ragged] = [whole.bytes(), ragged.bytes()];
        let (blocks, rest) = blocks_of([whole, ragged].into_iter()).unwrap();
        assert_eq!((blocks, rest), (vec![whole, &ragged[..BLOCK]], &ragged[BLOCK..]));
        assert_eq!(blocks_of([whole].into_iter()), Some((vec![whole], &[][..])));
        assert_eq!(blocks_of([ragged, whole].into_iter()), None);
        assert_eq!(blocks_of([&whole[1..]].into_iter()), None);
    }
}
