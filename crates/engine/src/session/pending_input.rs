//! What a client sends while a request waits or runs elsewhere, beyond what fits the input: bytes
//! in pieces, which nobody copies as they become more. The bytes come to the input piece by piece,
//! as if they were read then.
//!
//! Invariant: no piece is empty, and while there are pieces nothing is read into the input.

use std::collections::VecDeque;
use std::io;
use std::task::{Poll, ready};

/// The room of a piece, which is added to the input within one turn.
const PIECE: usize = 256 * 1024;

/// A piece with less room takes nothing more.
const ROOM_LEAST: usize = 512;

/// Bytes for later.
#[derive(Default)]
pub struct PendingInput {
    pieces: VecDeque<Vec<u8>>,
    /// How much of the first one has gone.
    gone: usize,
    /// What has not gone of all.
    bytes: usize,
}

impl PendingInput {
    /// Has more read, by a function that appends to a vector with room.
    pub fn take_in(
        &mut self,
        read: impl FnOnce(&mut Vec<u8>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let has_room = |piece: &Vec<u8>| piece.capacity() - piece.len() >= ROOM_LEAST;
        if !self.pieces.back().is_some_and(has_room) {
            self.pieces.push_back(Vec::with_capacity(PIECE));
        }
        let piece = self.pieces.back_mut().expect("it was just added");
        let before = piece.len();
        let read = read(piece);
        self.bytes += piece.len() - before;
        if piece.is_empty() {
            self.pieces.pop_back();
        }
        Poll::Ready(ready!(read))
    }

    /// Adds to an input what of the next piece it has room for; how much that is.
    pub fn add_to(&mut self, input: &mut Vec<u8>) -> usize {
        let Some(piece) = self.pieces.front() else { return 0 };
        let rest = &piece[self.gone..];
        let count = rest.len().min(input.capacity() - input.len());
        input.extend_from_slice(&rest[..count]);
        self.bytes -= count;
        self.gone += count;
        if self.gone == piece.len() {
            self.gone = 0;
            self.pieces.pop_front();
        }
        count
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// How many bytes of memory they take.
    pub fn room(&self) -> usize {
        self.pieces.len() * PIECE
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::task::Poll;

    use super::{PIECE, PendingInput, ROOM_LEAST};

    #[test]
    fn what_comes_in_pieces_comes_out_in_order_and_lies_where_it_was_read() {
        let (mut later, mut sent, mut places) = (PendingInput::default(), Vec::new(), Vec::new());
        for number in 0..3000_usize {
            let bytes = vec![number as u8; 1 + number % 400];
            let read = later.take_in(|piece| {
                assert!(piece.capacity() - piece.len() >= ROOM_LEAST);
                piece.extend_from_slice(&bytes);
                places.push(piece.as_ptr());
                Poll::Ready(Ok(bytes.len()))
            });
            assert!(matches!(read, Poll::Ready(Ok(count)) if count == bytes.len()));
            sent.extend(bytes);
            assert!(later.len() == sent.len() && later.room() < sent.len() * 101 / 100 + PIECE);
        }
        places.dedup();
        assert!(later.pieces.iter().map(Vec::as_ptr).eq(places), "none was moved");
        let mut came = Vec::new();
        for room in (1..).map(|number| number * 1009 % 100_000) {
            let mut input = Vec::with_capacity(room);
            let count = later.add_to(&mut input);
            assert!(input.len() == count && input.capacity() == room, "it does not grow");
            came.extend(input);
            assert_eq!(later.len(), sent.len() - came.len());
            if count == 0 {
                break;
            }
        }
        assert!(came == sent && later.room() == 0);
    }

    #[test]
    fn a_read_that_brings_nothing_leaves_no_piece() {
        let mut later = PendingInput::default();
        let error = || io::Error::from(io::ErrorKind::ConnectionReset);
        for read in [Poll::Pending, Poll::Ready(Ok(0)), Poll::Ready(Err(error()))] {
            let _ = later.take_in(|_| read);
            assert!(later.room() == 0 && later.add_to(&mut Vec::with_capacity(1)) == 0);
        }
    }
}
