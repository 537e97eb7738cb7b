//! The stream of a full sync on two connections, as far as it came before its data were loaded.
//!
//! Invariants: what comes out is what went in, in that order; memory is taken as bytes come, and
//! what is held is told to the account of memory.

use std::collections::VecDeque;

use engine::limits::log_buffers;

/// Bytes that are shown again at a time, at least.
const PIECE: usize = 256 << 10;

/// The stream.
#[derive(Default)]
pub(super) struct HeldStream {
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl HeldStream {
    /// Adds what came next.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        match self.pieces.back_mut().filter(|piece| piece.len() < PIECE) {
            Some(piece) => piece.extend_from_slice(bytes),
            None => self.pieces.push_back(bytes.to_vec()),
        }
        self.set(self.bytes + bytes.len());
    }

    /// The oldest bytes, which are held no more.
    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let piece = self.pieces.pop_front()?;
        self.set(self.bytes - piece.len());
        Some(piece)
    }

    /// The stream is wanted no more.
    pub(super) fn clear(&mut self) {
        self.pieces = VecDeque::new();
        self.set(0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    fn set(&mut self, bytes: usize) {
        self.bytes = bytes;
        log_buffers::note_held(bytes);
    }
}
