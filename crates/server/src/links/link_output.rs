//! What a link has still to send, in order: lines, the body of a snapshot, and then the stream.
//!
//! Invariant: the stream comes behind all that was to be sent before it.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use keyspace::FeatureLevel;
use persist::storage::File;
use replication::backlog::{Place, StreamSlice};

use super::feed::{FeedReader, FeedStep};
use super::stream::{StreamState, locked};

/// Bytes of the stream, or of a file, that are taken at a time.
const TAKEN: usize = 256 << 10;

/// What is to be sent.
#[derive(Default)]
pub(super) struct LinkOutput {
    items: VecDeque<Piece>,
    /// Where the link stands in the stream.
    place: Option<(Place, Arc<Mutex<StreamState>>)>,
    /// Whether the stream flows.
    streams: bool,
    /// What the replica knows to hold.
    pub(super) meets: FeatureLevel,
    /// Slices of the stream that were taken, and how much of the first is sent.
    slices: VecDeque<StreamSlice>,
    sent: usize,
    /// Whether the link ends when all is sent.
    ends: bool,
}

enum Piece {
    Bytes(Vec<u8>, usize),
    Shared(Arc<[u8]>, usize),
    Feed(FeedReader),
    File(Box<dyn File>),
    /// The engine is told that all before this has been sent.
    Note,
}

/// What is next.
pub(super) enum NextBytes {
    /// There are bytes.
    There,
    /// The engine is to be told that all up to here has been sent.
    Note,
    /// Nothing now: somebody wakes the link.
    Nothing,
    /// The link is to end.
    End,
    /// The link is to end: the replica cannot hold what was written.
    Unmet(FeatureLevel),
}

impl LinkOutput {
    /// That of a replica which knows to hold what meets this.
    pub(super) fn new(meets: FeatureLevel) -> Self {
        Self { meets, ..Self::default() }
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        self.items.push_back(Piece::Bytes(bytes, 0));
    }

    pub(super) fn push_feed(&mut self, reader: FeedReader) {
        self.items.push_back(Piece::Feed(reader));
    }

    pub(super) fn push_file(&mut self, file: Box<dyn File>) {
        self.items.push_back(Piece::File(file));
    }

    /// The engine is to be told when all that was pushed so far has been sent.
    pub(super) fn note(&mut self) {
        self.items.push_back(Piece::Note);
    }

    /// The link stands here in the stream.
    pub(super) fn pin(&mut self, place: Place, stream: Arc<Mutex<StreamState>>) {
        self.place = Some((place, stream));
    }

    /// The link stands nowhere any more: what lies behind is kept for it no longer.
    pub(super) fn unpin(&mut self) {
        self.place = None;
    }

    /// The stream flows from now on.
    pub(super) fn stream(&mut self) {
        self.streams = true;
    }

    /// The link ends behind all that is to be sent.
    pub(super) fn end(&mut self) {
        self.ends = true;
    }

    /// Bytes of the stream that the link has still to get.
    pub(super) fn debt(&self) -> u64 {
        self.place.as_ref().map_or(0, |(place, stream)| locked(stream).backlog.charge(place))
    }

    /// Whether all that there is to send has been handed to the system.
    pub(super) fn is_sent(&self) -> bool {
        self.items.is_empty() && self.debt() == 0
    }

    /// Whether a snapshot is being sent.
    pub(super) fn is_in_body(&self) -> bool {
        !self.items.is_empty()
    }

    /// Makes the next bytes ready.
    pub(super) fn make_ready(&mut self, waker: &Waker) -> io::Result<NextBytes> {
        while let Some(item) = self.items.front_mut() {
            let bytes = match item {
                Piece::Bytes(bytes, sent) if *sent < bytes.len() => return Ok(NextBytes::There),
                Piece::Shared(bytes, sent) if *sent < bytes.len() => return Ok(NextBytes::There),
                Piece::Bytes(..) | Piece::Shared(..) => None,
                Piece::Feed(feed) => match feed.next(waker)? {
                    FeedStep::Bytes(bytes) => Some(Piece::Shared(bytes, 0)),
                    FeedStep::Wait => return Ok(NextBytes::Nothing),
                    FeedStep::End => None,
                },
                Piece::File(file) => {
                    let mut bytes = vec![0; TAKEN];
                    let count = persist::storage::read_full(&mut **file, &mut bytes)?;
                    bytes.truncate(count);
                    (count > 0).then_some(Piece::Bytes(bytes, 0))
                }
                Piece::Note => {
                    self.items.pop_front();
                    return Ok(NextBytes::Note);
                }
            };
            match bytes {
                Some(bytes) => self.items.push_front(bytes),
                None => _ = self.items.pop_front(),
            }
        }
        if self.ends {
            return Ok(NextBytes::End);
        }
        self.take_stream()
    }

    fn take_stream(&mut self) -> io::Result<NextBytes> {
        if !self.slices.is_empty() {
            return Ok(NextBytes::There);
        }
        let Some((place, stream)) = self.place.as_ref().filter(|_| self.streams) else {
            return Ok(NextBytes::Nothing);
        };
        let mut state = locked(stream);
        if let Some(feature_level) = state.unmet(self.meets, place.offset()) {
            return Ok(NextBytes::Unmet(feature_level));
        }
        // Another stream has begun: the replica must ask anew.
        let taken = state.backlog.read(place, TAKEN);
        self.slices = taken.ok_or(io::ErrorKind::ConnectionReset)?.into();
        Ok(if self.slices.is_empty() { NextBytes::Nothing } else { NextBytes::There })
    }

    /// The bytes that are ready, in pieces.
    pub(super) fn pieces<'a>(&'a self, pieces: &mut Vec<io::IoSlice<'a>>) {
        match self.items.front() {
            Some(Piece::Bytes(bytes, sent)) => pieces.push(io::IoSlice::new(&bytes[*sent..])),
            Some(Piece::Shared(bytes, sent)) => pieces.push(io::IoSlice::new(&bytes[*sent..])),
            Some(_) => {}
            None => {
                let mut skipped = self.sent;
                for slice in &self.slices {
                    pieces.push(io::IoSlice::new(&slice.as_ref()[skipped..]));
                    skipped = 0;
                }
            }
        }
    }

    /// So many of them are sent.
    pub(super) fn note_sent(&mut self, count: usize) {
        match self.items.front_mut() {
            Some(Piece::Bytes(_, sent) | Piece::Shared(_, sent)) => *sent += count,
            Some(_) => {}
            None => self.note_streamed(count),
        }
    }

    fn note_streamed(&mut self, count: usize) {
        if let Some((place, _)) = &mut self.place {
            place.advance(count);
        }
        self.sent += count;
        while let Some(slice) = self.slices.front()
            && self.sent >= slice.as_ref().len()
        {
            self.sent -= slice.as_ref().len();
            self.slices.pop_front();
        }
    }
}
