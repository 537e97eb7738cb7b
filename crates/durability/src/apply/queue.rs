//! Bytes of a stream on their way to the thread that applies them.
//!
//! Invariant: what is taken goes on where what was taken before ended, or is the first; bytes count
//! as queued until they are applied.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// About so many bytes are taken at once, if there are so many.
const PIECE: usize = 256 << 10;

/// Whole units of a stream that follow each other.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) bytes: Arc<Vec<u8>>,
    /// The offset behind them.
    pub(super) end: u64,
    /// The database that is selected before them.
    pub(super) database: usize,
}

impl Piece {
    /// The offset of its first byte.
    pub(super) fn begin(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    /// The bytes between two offsets.
    pub(super) fn between(&self, from: u64, to: u64) -> &[u8] {
        let place = |offset: u64| (offset - self.begin()) as usize;
        &self.bytes[place(from)..place(to)]
    }
}

/// The queue.
#[derive(Default)]
pub(super) struct PieceQueue {
    pieces: Mutex<Waiting>,
    arrived: Condvar,
    /// Bytes that are not applied.
    bytes: AtomicUsize,
}

#[derive(Default)]
struct Waiting {
    pieces: VecDeque<Piece>,
    is_closed: bool,
}

impl PieceQueue {
    /// Adds what comes next.
    pub(super) fn push(&self, piece: Piece) {
        self.bytes.fetch_add(piece.bytes.len(), Ordering::Relaxed);
        self.lock().pieces.push_back(piece);
        self.arrived.notify_one();
    }

    /// Bytes that are not applied.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// So many bytes are applied.
    pub(super) fn note_applied(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Release);
    }

    /// Waits for what comes next; `None` when nothing does any more.
    pub(super) fn take(&self) -> Option<Piece> {
        let mut waiting = self.lock();
        let mut piece = loop {
            if waiting.is_closed {
                return None;
            }
            if let Some(piece) = waiting.pieces.pop_front() {
                break piece;
            }
            waiting = self.arrived.wait(waiting).expect("no critical section here panics");
        };
        while piece.bytes.len() < PIECE
            && let Some(next) = waiting.pieces.pop_front_if(|next| next.begin() == piece.end)
        {
            // Nobody else has it yet.
            Arc::make_mut(&mut piece.bytes).extend_from_slice(&next.bytes);
            piece.end = next.end;
        }
        Some(piece)
    }

    /// Nothing is taken any more.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        let forgotten = std::mem::take(&mut waiting.pieces);
        drop(waiting);
        drop(forgotten);
        self.arrived.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.pieces.lock().expect("no critical section here panics")
    }
}
