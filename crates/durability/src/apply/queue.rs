//! Bytes of a stream on their way to the thread that applies them.
//!
//! What comes joins the last piece that waits, so that a thread that is behind takes much at once;
//! buffers are used again, as fresh pages cost more than the copy.
//!
//! Invariant: what is taken goes on where what was taken before ended, or is the first; bytes count
//! as queued until they are applied.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// A piece of so many bytes grows no more.
const PIECE: usize = 256 << 10;

/// Buffers that are kept for pieces to come: one is filled while another is applied.
const SPARE_MOST: usize = 2;

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
    spare: Vec<Vec<u8>>,
    is_closed: bool,
}

impl PieceQueue {
    /// Adds units, behind which the stream has this offset.
    pub(super) fn push(&self, units: &[u8], end: u64, database: usize) {
        self.bytes.fetch_add(units.len(), Ordering::Relaxed);
        self.lock().push(units, end, database);
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
        while !waiting.is_closed {
            if let Some(piece) = waiting.pieces.pop_front() {
                return Some(piece);
            }
            waiting = self.arrived.wait(waiting).expect("no critical section here panics");
        }
        None
    }

    /// A piece is applied: its buffer may be used again.
    pub(super) fn give_back(&self, piece: Piece) {
        if let Ok(mut buffer) = Arc::try_unwrap(piece.bytes)
            && buffer.capacity() <= 2 * PIECE
        {
            buffer.clear();
            let mut waiting = self.lock();
            if waiting.spare.len() < SPARE_MOST {
                waiting.spare.push(buffer);
            }
        }
    }

    /// Whether nothing is taken any more.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
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

impl Waiting {
    fn push(&mut self, units: &[u8], end: u64, database: usize) {
        let begin = end - units.len() as u64;
        let last = self.pieces.back_mut();
        if let Some(last) = last.filter(|last| last.end == begin && last.bytes.len() < PIECE) {
            let bytes = Arc::get_mut(&mut last.bytes).expect("nobody else has what waits");
            bytes.extend_from_slice(units);
            last.end = end;
            return;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(units);
        self.pieces.push_back(Piece { bytes: Arc::new(bytes), end, database });
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE, PieceQueue, SPARE_MOST};

    #[test]
    fn what_follows_joins_what_waits_and_nothing_is_lost() {
        let queue = PieceQueue::default();
        let units = vec![b'u'; PIECE / 2];
        let mut end = 0;
        for _ in 0..5 {
            end += units.len() as u64;
            queue.push(&units, end, 0);
        }
        // Another stream begins elsewhere.
        queue.push(b"other", 5, 3);
        assert_eq!(queue.bytes(), 5 * units.len() + 5);
        let taken: Vec<_> = (0..4).map(|_| queue.take().expect("it waits")).collect();
        let lengths: Vec<_> = taken.iter().map(|piece| piece.bytes.len()).collect();
        assert_eq!(lengths, [PIECE, PIECE, PIECE / 2, 5]);
        assert_eq!(taken[1].begin(), taken[0].end);
        assert_eq!((&taken[3].bytes[..], taken[3].database), (&b"other"[..], 3));
        taken.into_iter().for_each(|piece| queue.give_back(piece));
        assert_eq!(queue.lock().spare.len(), SPARE_MOST);
        queue.push(b"next", end + 4, 1);
        let next = queue.take().expect("it waits");
        assert_eq!((&next.bytes[..], next.database), (&b"next"[..], 1));
        queue.close();
        assert!(queue.take().is_none());
    }
}
