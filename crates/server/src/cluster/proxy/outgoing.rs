//! What a link has to send.
//!
//! Invariant: what is sent is not kept, however slow the other end is; nor is what nobody waits
//! for, unless its beginning is sent.

use std::collections::VecDeque;
use std::io::IoSlice;

/// So many pieces are written at once.
pub(super) const SLICES_MAX: usize = 32;

/// Orders' bytes, in the order in which they are sent.
#[derive(Default)]
pub(super) struct OutgoingBytes {
    /// Each with the place where it begins in all that was ever put in.
    pieces: VecDeque<(u64, Vec<u8>)>,
    /// How much of the first one is sent.
    written: usize,
    /// All bytes ever put in.
    queued: u64,
}

impl OutgoingBytes {
    /// Adds an order's bytes; where these begin in all that was ever put in.
    pub(super) fn push(&mut self, bytes: Vec<u8>) -> u64 {
        let begin = self.queued;
        self.queued += bytes.len() as u64;
        if !bytes.is_empty() {
            self.pieces.push_back((begin, bytes));
        }
        begin
    }

    /// Fills slices with what is to be sent next; how many.
    pub(super) fn io_slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        let mut from = self.written;
        for (slice, (_, piece)) in slices.iter_mut().zip(&self.pieces) {
            *slice = IoSlice::new(&piece[from..]);
            from = 0;
        }
        self.pieces.len().min(SLICES_MAX)
    }

    /// So many bytes are sent.
    pub(super) fn consume(&mut self, count: usize) {
        self.written += count;
        while let Some(first) = self.pieces.front()
            && first.1.len() <= self.written
        {
            self.written -= first.1.len();
            self.pieces.pop_front();
        }
    }

    /// The place up to which all was sent, or taken back.
    pub(super) fn sent(&self) -> u64 {
        self.pieces.front().map_or(self.queued, |first| first.0 + self.written as u64)
    }

    /// Takes back the bytes that begin at this place, if none of them was sent; whether it did.
    pub(super) fn take_back(&mut self, begin: u64) -> bool {
        let Ok(place) = self.pieces.binary_search_by_key(&begin, |piece| piece.0) else {
            return false;
        };
        if place == 0 && self.written > 0 {
            return false;
        }
        self.pieces.remove(place);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::{OutgoingBytes, SLICES_MAX};

    /// What the bytes take that are not sent, and what was written next, up to so many bytes.
    fn write(outgoing: &mut OutgoingBytes, most: usize) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let filled = outgoing.io_slices(&mut slices);
        let mut bytes: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.to_vec()).collect();
        bytes.truncate(most);
        outgoing.consume(bytes.len());
        bytes
    }

    /// The other end takes less than comes, so the output is never empty.
    #[test]
    fn what_is_sent_is_not_kept() {
        let (mut outgoing, mut put, mut taken) = (OutgoingBytes::default(), vec![], vec![]);
        for round in 0..200_u8 {
            let bytes = vec![round; 100 + usize::from(round)];
            assert_eq!(outgoing.push(bytes.clone()), put.len() as u64);
            put.extend(bytes);
            taken.extend(write(&mut outgoing, 150));
            let kept: usize = outgoing.pieces.iter().map(|piece| piece.1.len()).sum();
            assert!(!outgoing.pieces.is_empty() || round < 51);
            assert!(kept <= put.len() - taken.len() + 300, "{kept} bytes in round {round}");
        }
        while taken.len() < put.len() {
            taken.extend(write(&mut outgoing, 1000));
        }
        assert!(taken == put && outgoing.pieces.is_empty());
        assert_eq!(outgoing.sent(), put.len() as u64);
    }

    #[test]
    fn what_has_not_begun_is_taken_back() {
        let mut outgoing = OutgoingBytes::default();
        let begins = [b"aaaa", b"bbbb", b"cccc"].map(|bytes| outgoing.push(bytes.to_vec()));
        assert_eq!(write(&mut outgoing, 1), b"a");
        let taken_back = begins.map(|begin| outgoing.take_back(begin));
        assert_eq!((taken_back, outgoing.sent()), ([false, true, true], 1));
        assert_eq!(outgoing.push(b"dddd".to_vec()), 12);
        assert_eq!(write(&mut outgoing, 4), b"aaad");
        assert_eq!(outgoing.sent(), 13);
        assert!(!outgoing.take_back(begins[1]) && !outgoing.take_back(12));
    }
}
