//! The row of pieces, from the oldest byte that is kept to the end of the stream.
//!
//! Invariants: every sealed piece has the same length, so that an offset finds its piece by one
//! division; tips lie side by side from the beginning of the open piece.
//!
//! An offset is the number of bytes before it: 0 is the beginning of the stream, and a client that
//! asks for byte K stands at K - 1. `end` is the LSN.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use super::piece::{Account, PIECE_LEN, Piece, StreamSlice};
use super::place::{Place, Places};
use crate::history::KeptRange;

/// The smallest backlog there is; a smaller size is read as this one.
pub const SIZE_MIN: u64 = 16 * 1024;

/// The memory of a full piece.
pub const PIECE_BYTES: usize = PIECE_LEN + Piece::HEAD;

/// In how many pieces the last `len` bytes of a stream lie, where they begin with a piece: the open
/// one is there in any case.
pub fn pieces_of(len: u64) -> usize {
    usize::try_from(len / PIECE_LEN as u64).unwrap_or(usize::MAX).saturating_add(1)
}

/// The last part of the stream; its owner's lock orders appends and reads.
#[derive(Debug)]
pub struct Backlog {
    size: u64,
    /// The offset of the first piece.
    start: u64,
    sealed: VecDeque<Arc<Piece>>,
    open: Vec<u8>,
    /// Copies of the open piece's beginning, for readers.
    tips: Vec<Tip>,
    places: Places,
    account: Account,
}

/// A copy of some of the open piece.
#[derive(Debug)]
struct Tip {
    /// Up to where in the open piece.
    end: usize,
    piece: Arc<Piece>,
}

impl Backlog {
    /// An empty one at this offset of the stream, which keeps `size` bytes without need.
    pub fn new(offset: u64, size: u64) -> Backlog {
        Backlog {
            size: size.max(SIZE_MIN),
            start: offset,
            sealed: VecDeque::new(),
            open: Vec::new(),
            tips: Vec::new(),
            places: Places::default(),
            account: Account::default(),
        }
    }

    /// Goes on with these bytes of the stream.
    pub fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.open.capacity() == 0 {
                self.open.reserve_exact(PIECE_LEN);
                self.account.add(self.open.capacity());
            }
            let room = PIECE_LEN - self.open.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.open.extend_from_slice(now);
            bytes = later;
            if self.open.len() == PIECE_LEN {
                self.seal();
            }
        }
    }

    /// The end of the stream: how many bytes there have been.
    pub fn end(&self) -> u64 {
        self.open_start() + self.open.len() as u64
    }

    /// What a link may begin with: bytes kept without need, and what some place still needs.
    pub fn range(&self) -> KeptRange {
        let end = self.end();
        let wanted = end.saturating_sub(self.size);
        let first = self.places.lowest().map_or(wanted, |lowest| lowest.min(wanted));
        KeptRange { first: first.max(self.start), end }
    }

    /// Bytes that are kept without need.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Keeps so many bytes without need from now on.
    pub fn resize(&mut self, size: u64) {
        self.size = size.max(SIZE_MIN);
        self.trim();
    }

    /// A place at this offset, which must be within the range that is kept.
    pub fn place_at(&mut self, offset: u64) -> Option<Place> {
        let range = self.range();
        (range.first <= offset && offset <= range.end).then(|| self.places.insert(offset))
    }

    /// What a link at this place has still to receive: the charge that its output-buffer limit
    /// applies to.
    pub fn charge(&self, place: &Place) -> u64 {
        if self.places.has(place) { self.end().saturating_sub(place.offset()) } else { 0 }
    }

    /// The stream from this place on, of `most` bytes or less; `None` if the stream that the place
    /// was in has ended, so that its link must be closed.
    pub fn read(&mut self, place: &Place, most: usize) -> Option<Vec<StreamSlice>> {
        let offset = place.offset();
        if !self.places.has(place) || offset < self.start || offset > self.end() {
            return None;
        }
        let most = most.min(usize::try_from(self.end() - offset).unwrap_or(usize::MAX));
        Some(self.slices(offset, most))
    }

    /// The last bytes there are, as many as this or fewer.
    pub fn last(&self, most: usize) -> Vec<u8> {
        let range = self.range();
        let len = most.min(usize::try_from(range.len()).unwrap_or(usize::MAX));
        let open = len.min(self.open.len());
        let mut parts = vec![&self.open[self.open.len() - open..]];
        let mut left = len - open;
        for piece in self.sealed.iter().rev() {
            let taken = left.min(piece.len());
            parts.push(&piece.bytes()[piece.len() - taken..]);
            left -= taken;
        }
        parts.reverse();
        parts.concat()
    }

    /// Bytes that are kept for the sake of places only.
    pub fn kept_for_places(&self) -> u64 {
        self.range().len().saturating_sub(self.size)
    }

    /// Lets go of what is needed no more: for a second's tick, since a place that moves on or is
    /// dropped takes no lock.
    pub fn trim(&mut self) {
        self.places.sweep();
        let first = self.range().first;
        while self.start + PIECE_LEN as u64 <= first && self.sealed.pop_front().is_some() {
            self.start += PIECE_LEN as u64;
        }
        if self.sealed.capacity() > 64 && self.sealed.len() < self.sealed.capacity() / 4 {
            self.sealed.shrink_to(self.sealed.len() * 2);
        }
    }

    /// Begins anew and empty at another offset: that of another stream. All places end.
    pub fn restart(&mut self, offset: u64) {
        self.start = offset;
        self.sealed = VecDeque::new();
        self.tips = Vec::new();
        self.account.subtract(self.open.capacity());
        self.open = Vec::new();
        self.places.clear();
    }

    /// All memory that is allocated for the backlog, what readers still hold included.
    pub fn memory(&self) -> usize {
        self.account.bytes()
            + self.sealed.capacity() * size_of::<Arc<Piece>>()
            + self.tips.capacity() * size_of::<Tip>()
            + self.places.memory()
    }

    fn open_start(&self) -> u64 {
        self.start + (self.sealed.len() * PIECE_LEN) as u64
    }

    /// The open piece is full: readers get itself from now on, and not its tips.
    fn seal(&mut self) {
        self.account.subtract(self.open.capacity());
        self.sealed.push_back(Piece::new(mem::take(&mut self.open), &self.account));
        self.tips.clear();
        self.trim();
    }

    /// Handles of `len` bytes from `offset` on, all of which are kept.
    fn slices(&mut self, offset: u64, len: usize) -> Vec<StreamSlice> {
        let (mut slices, mut left) = (Vec::new(), len);
        let mut at = usize::try_from(offset - self.start).expect("the row is in memory");
        while left > 0 && at / PIECE_LEN < self.sealed.len() {
            let begin = at % PIECE_LEN;
            let taken = left.min(PIECE_LEN - begin);
            slices.push(StreamSlice::new(&self.sealed[at / PIECE_LEN], begin..begin + taken));
            (at, left) = (at + taken, left - taken);
        }
        if left > 0 {
            self.tip_slices(at - self.sealed.len() * PIECE_LEN, left, &mut slices);
        }
        slices
    }

    fn tip_slices(&mut self, mut at: usize, mut left: usize, slices: &mut Vec<StreamSlice>) {
        let copied = self.tips.last().map_or(0, |tip| tip.end);
        if copied < at + left {
            let piece = Piece::new(self.open[copied..].to_vec(), &self.account);
            self.tips.push(Tip { end: self.open.len(), piece });
        }
        let first = self.tips.partition_point(|tip| tip.end <= at);
        for tip in &self.tips[first..] {
            let begin = at - (tip.end - tip.piece.len());
            let taken = left.min(tip.end - at);
            slices.push(StreamSlice::new(&tip.piece, begin..begin + taken));
            (at, left) = (at + taken, left - taken);
            if left == 0 {
                return;
            }
        }
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.account.subtract(self.open.capacity());
    }
}
