//! Pieces of the stream, and the account of their memory.
//!
//! Invariant: a piece's bytes never change, and its memory is counted exactly as long as the piece
//! lives, in the backlog or in the hands of a reader.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes in each piece but the open one.
pub(super) const PIECE_LEN: usize = 16 * 1024;

/// The memory of all pieces of one backlog.
#[derive(Clone, Debug, Default)]
pub(super) struct Account(Arc<AtomicUsize>);

impl Account {
    pub(super) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A part of the stream that is written for good.
pub(super) struct Piece {
    bytes: Vec<u8>,
    account: Account,
}

impl Piece {
    /// What a piece costs beside its bytes: itself, and the two counts in front of it.
    pub(super) const HEAD: usize = size_of::<Piece>() + 2 * size_of::<usize>();

    /// Counts the whole piece; bytes that are counted already are the caller's to subtract.
    pub(super) fn new(bytes: Vec<u8>, account: &Account) -> Arc<Piece> {
        account.add(bytes.capacity() + Self::HEAD);
        Arc::new(Piece { bytes, account: account.clone() })
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.account.subtract(self.bytes.capacity() + Self::HEAD);
    }
}

/// Bytes of the stream that a reader keeps alive while they are sent.
#[derive(Clone)]
pub struct StreamSlice {
    piece: Arc<Piece>,
    range: Range<usize>,
}

impl StreamSlice {
    pub(super) fn new(piece: &Arc<Piece>, range: Range<usize>) -> StreamSlice {
        debug_assert!(range.start <= range.end && range.end <= piece.len());
        StreamSlice { piece: Arc::clone(piece), range }
    }
}

impl AsRef<[u8]> for StreamSlice {
    fn as_ref(&self) -> &[u8] {
        &self.piece.bytes[self.range.clone()]
    }
}

impl fmt::Debug for StreamSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.range.len())
    }
}
