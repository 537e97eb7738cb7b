//! One connection: its socket, what it still has to send, and the requests that wait for replies.
//! Invariant: replies come in the order of `inflight`, so the front request owns the next reply.

use std::collections::VecDeque;
use std::io::{self, Write};

use super::dial::Socket;
use super::replies::Replies;
use crate::options::Protocol;
use crate::workload::Sent;

/// What is written first is dropped from an outbox in pieces of at least this many bytes.
const COMPACT: usize = 1 << 16;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// There is none: not begun yet, or waiting for its next attempt.
    Closed,
    /// The network is at work.
    Connecting,
    /// So many replies of the greeting have come.
    Greeting(usize),
    /// Requests may be sent.
    Open,
}

/// A request whose reply is awaited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// What was asked.
    pub(super) sent: Sent,
    /// From when it is timed, in nanoseconds of the run; `UNSTAMPED` until it is written.
    pub(super) at: u64,
    /// Bytes of the request.
    pub(super) length: u32,
    /// Whether the request is the ASKING before a redirected one, which nobody counts.
    pub(super) is_asking: bool,
    /// How often it was sent on to another node.
    pub(super) redirections: u16,
}

/// The time of a request that was not written yet.
pub(super) const UNSTAMPED: u64 = u64::MAX;

/// A request that waits for a place on its connection.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) pending: Pending,
    pub(super) bytes: Vec<u8>,
    /// Whether the request follows an ASK.
    pub(super) asks: bool,
}

/// One connection of a client to a node.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: Option<Socket>,
    pub(super) state: State,
    pub(super) out: Outbox,
    pub(super) scanner: Replies,
    pub(super) inflight: VecDeque<Pending>,
    pub(super) parked: VecDeque<Parked>,
    /// How many of the last in `inflight` were not handed to the system yet.
    pub(super) fresh: usize,
    /// Requests since it was made, for `--reconnect-interval`.
    pub(super) issued: u64,
    /// Attempts since it last stood.
    pub(super) attempts: usize,
    /// Since when it has not stood, in nanoseconds of the run.
    pub(super) down_since: u64,
    /// Whether the link is on the list of those that have something to write.
    pub(super) is_dirty: bool,
}

impl Link {
    /// A connection that is not made yet. `retains` keeps what was sent until its reply came;
    /// `keeps_values` the text of replies.
    pub(super) fn new(protocol: Protocol, retains: bool, keeps_values: bool) -> Self {
        Self {
            socket: None,
            state: State::Closed,
            out: Outbox::new(retains),
            scanner: Replies::new(protocol, keeps_values),
            inflight: VecDeque::new(),
            parked: VecDeque::new(),
            fresh: 0,
            issued: 0,
            attempts: 0,
            down_since: 0,
            is_dirty: false,
        }
    }

    /// Whether the link stands and has greeted.
    pub(super) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Whether one more request may be sent now.
    #[inline]
    pub(super) fn has_room(&self, pipeline: usize, reconnect_interval: u64) -> bool {
        self.state == State::Open
            && self.inflight.len() < pipeline
            && self.issued < reconnect_interval
    }

    /// Adds a request whose bytes are already in the outbox.
    #[inline]
    pub(super) fn push(&mut self, pending: Pending) {
        self.inflight.push_back(pending);
        self.fresh += 1;
        self.issued += 1;
    }

    /// Hands what is unsent to the system. Whatever it does not take goes when the socket says
    /// that there is room again.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        match socket.flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            flushed => flushed?,
        }
        while !self.out.unsent().is_empty() {
            match socket.write(self.out.unsent()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => self.out.advance(taken),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Times the requests that are written now, unless they are timed from earlier.
    #[inline]
    pub(super) fn stamp(&mut self, now: u64) {
        let first = self.inflight.len() - self.fresh.min(self.inflight.len());
        for pending in self.inflight.range_mut(first..) {
            if pending.at == UNSTAMPED {
                pending.at = now;
            }
        }
        self.fresh = 0;
    }

    /// Forgets the socket and everything under way; gives back the requests without a reply.
    pub(super) fn reset(&mut self) -> VecDeque<Pending> {
        if let Some(socket) = self.socket.take() {
            socket.close();
        }
        self.state = State::Closed;
        self.out.clear();
        self.scanner.reset();
        self.fresh = 0;
        self.issued = 0;
        std::mem::take(&mut self.inflight)
    }
}

/// Bytes on their way out.
#[derive(Debug)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// Everything before is with the system.
    sent: usize,
    /// Everything before is answered (only followed where `retains`).
    answered: usize,
    retains: bool,
}

impl Outbox {
    fn new(retains: bool) -> Self {
        Self { bytes: Vec::new(), sent: 0, answered: 0, retains }
    }

    /// Where to append requests.
    #[inline]
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What the system has not taken.
    #[inline]
    pub(super) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    fn advance(&mut self, taken: usize) {
        self.sent += taken;
        if !self.retains {
            self.drop_front(self.sent);
        }
    }

    /// The bytes of the oldest unanswered request, which is answered now: needed to send it again
    /// elsewhere. Without `retains` there are none.
    #[inline]
    pub(super) fn answer(&mut self, length: u32) -> Option<&[u8]> {
        if !self.retains {
            return None;
        }
        self.drop_front(self.answered);
        let start = self.answered;
        self.answered += length as usize;
        self.bytes.get(start..self.answered)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
        self.answered = 0;
    }

    /// Lets the first `length` bytes go, when it is worth the move of the rest.
    fn drop_front(&mut self, length: usize) {
        if length == self.bytes.len() {
            self.clear();
        } else if length >= COMPACT && length * 2 >= self.bytes.len() {
            self.bytes.drain(..length);
            self.sent -= length;
            self.answered = self.answered.saturating_sub(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Outbox;

    #[test]
    fn an_outbox_that_retains_gives_each_request_once_more() {
        let mut out = Outbox::new(true);
        let mut expected = std::collections::VecDeque::new();
        for round in 0..10_000_u32 {
            let request = vec![round as u8; 1 + round as usize % 97];
            out.end().extend_from_slice(&request);
            expected.push_back(request);
            let unsent = out.unsent().len();
            out.advance(unsent / 2);
            out.advance(unsent - unsent / 2);
            if round >= 40 {
                let request: Vec<u8> = expected.pop_front().expect("forty are under way");
                assert_eq!(out.answer(request.len() as u32), Some(&request[..]));
            }
        }
        assert!(out.bytes.capacity() < 1 << 19, "what is answered goes");
    }

    #[test]
    fn an_outbox_that_does_not_retain_is_empty_once_sent() {
        let mut out = Outbox::new(false);
        out.end().extend_from_slice(b"abc");
        out.advance(2);
        assert_eq!(out.unsent(), b"c");
        out.advance(1);
        assert!(out.unsent().is_empty() && out.bytes.is_empty());
        assert_eq!(out.answer(3), None);
    }
}
