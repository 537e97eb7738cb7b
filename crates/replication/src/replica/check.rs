//! What must hold for any bytes at all, as functions for fuzzers.
//!
//! Invariant: a function returns if all is well, and panics if not.

use super::action::{PrimaryChannel, ReplicaAction};
use super::link::{LoadOutcome, ReplicaLink};
use super::settings::{PrimaryAddress, ReplicaSettings};
use super::stream::StreamParser;

/// How long a unit may be here.
const UNIT_MAX: usize = 1 << 12;

/// Any bytes are a stream or a fault, the same whole as byte by byte.
pub fn check_stream(bytes: &[u8]) {
    let units = |step: usize| {
        let mut parser = StreamParser::new(0, 16, UNIT_MAX);
        let (mut units, mut begin, mut end) = (Vec::new(), 0, 0);
        loop {
            match parser.advance(&bytes[begin..end]) {
                Ok(Some(unit)) => {
                    begin += unit.len;
                    units.push((unit, parser.database()));
                }
                Ok(None) if end == bytes.len() => return (units, begin, false),
                Ok(None) => end = bytes.len().min(end + step),
                Err(_) => return (units, begin, true),
            }
            assert!(end - begin <= UNIT_MAX + step, "half a unit is bounded");
        }
    };
    assert_eq!(units(1), units(bytes.len().max(1)));
}

/// Any bytes of a primary, cut by their own first byte, leave a bounded rest, ranges that lie in
/// what was shown, and offsets without a gap.
pub fn check_link(bytes: &[u8]) {
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let settings = ReplicaSettings { unit_len_max: UNIT_MAX, ..ReplicaSettings::default() };
    let mut link = ReplicaLink::new(settings);
    let primary = PrimaryAddress { host: "primary".to_owned(), port: 1 };
    link.replicaof(primary, None, None, 0);
    link.connected(PrimaryChannel::Main, 0);
    let (mut rest, mut offset) = (Vec::new(), 0);
    for piece in bytes.chunks(usize::from(*cut) + 1) {
        rest.extend_from_slice(piece);
        loop {
            let done = link.received(PrimaryChannel::Main, &rest, 0);
            let mut is_whole = false;
            for action in link.take_actions() {
                match action {
                    ReplicaAction::Rdb(range) => assert!(range.end <= done),
                    ReplicaAction::EndOfRdb => is_whole = true,
                    ReplicaAction::Stream { range, end, .. } => {
                        assert!(range.end <= done);
                        assert_eq!(end - range.len() as u64, offset);
                        offset = end;
                    }
                    _ => {}
                }
            }
            rest.drain(..done);
            if !is_whole {
                break;
            }
            link.loaded(LoadOutcome::Loaded { database: 0 }, 0);
            offset = link.position().map_or(0, |position| position.offset);
        }
        assert!(rest.len() <= UNIT_MAX + piece.len(), "what stays is bounded");
    }
}

/// Any bytes on the two connections of a full sync, in pieces that begin with a byte which says on
/// which one, and how long they are, or that it ends: what stays is bounded, ranges lie in what was
/// shown, what is held is accounted for, and offsets have no gap.
pub fn check_channels(bytes: &[u8]) {
    let settings = ReplicaSettings {
        unit_len_max: UNIT_MAX,
        rdb_channel: true,
        dual_channel: true,
        ..ReplicaSettings::default()
    };
    let mut pair = LinkPair {
        link: ReplicaLink::new(settings),
        rests: [Vec::new(), Vec::new()],
        is_open: [false, false],
        is_whole: false,
        held: 0,
        offset: 0,
        now_ms: 0,
    };
    let primary = PrimaryAddress { host: "primary".to_owned(), port: 1 };
    pair.link.replicaof(primary, None, None, 0);
    pair.run_actions(PrimaryChannel::Main, 0);
    let mut rest = bytes;
    while let Some((control, behind)) = rest.split_first() {
        let wire = if control & 1 == 0 { PrimaryChannel::Main } else { PrimaryChannel::Rdb };
        let len = behind.len().min(usize::from(control >> 1));
        pair.now_ms += 10;
        match len {
            0 => pair.end(wire),
            _ => pair.receive(wire, &behind[..len]),
        }
        rest = &behind[len..];
        pair.link.tick(pair.now_ms);
        pair.run_actions(wire, 0);
    }
}

/// A link and its driver.
struct LinkPair {
    link: ReplicaLink,
    rests: [Vec<u8>; 2],
    is_open: [bool; 2],
    is_whole: bool,
    /// Bytes of the stream that are held.
    held: u64,
    /// Where the stream stands.
    offset: u64,
    now_ms: u64,
}

impl LinkPair {
    fn end(&mut self, wire: PrimaryChannel) {
        if std::mem::take(&mut self.is_open[wire as usize]) {
            self.link.closed(wire, self.now_ms);
            self.rests[wire as usize].clear();
            self.run_actions(wire, 0);
        }
    }

    fn receive(&mut self, wire: PrimaryChannel, bytes: &[u8]) {
        if !self.is_open[wire as usize] || !self.link.is_reading(wire) {
            return;
        }
        self.rests[wire as usize].extend_from_slice(bytes);
        self.show(wire);
        let rest = self.rests[wire as usize].len();
        assert!(rest <= UNIT_MAX + bytes.len(), "what stays is bounded");
        if std::mem::take(&mut self.is_whole) {
            self.link.loaded(LoadOutcome::Loaded { database: 0 }, self.now_ms);
            self.run_actions(wire, 0);
            self.show(PrimaryChannel::Main);
        }
    }

    fn show(&mut self, wire: PrimaryChannel) {
        let done = self.link.received(wire, &self.rests[wire as usize], self.now_ms);
        self.run_actions(wire, done);
        let rest = &mut self.rests[wire as usize];
        rest.drain(..done.min(rest.len()));
    }

    /// Acts until nothing is left to do: what connects has something to say at once.
    fn run_actions(&mut self, wire: PrimaryChannel, done: usize) {
        loop {
            let actions = self.link.take_actions();
            if actions.is_empty() {
                return self.account();
            }
            actions.into_iter().for_each(|action| self.perform(action, wire, done));
        }
    }

    fn perform(&mut self, action: ReplicaAction, wire: PrimaryChannel, done: usize) {
        match action {
            ReplicaAction::Connect { wire, .. } => {
                self.is_open[wire as usize] = true;
                self.rests[wire as usize].clear();
                self.link.connected(wire, self.now_ms);
            }
            ReplicaAction::Close { wire } => {
                self.is_open[wire as usize] = false;
                self.rests[wire as usize].clear();
                self.held = if wire == PrimaryChannel::Main { 0 } else { self.held };
            }
            ReplicaAction::Send { wire, .. } => {
                assert!(self.is_open[wire as usize], "nothing is said on what is closed");
            }
            ReplicaAction::Rdb(range) => {
                assert!(range.end <= done && !self.is_whole);
            }
            ReplicaAction::EndOfRdb => self.is_whole = true,
            ReplicaAction::AbortLoad => self.is_whole = false,
            ReplicaAction::Hold(range) => {
                assert!(
                    wire == PrimaryChannel::Main && range.end <= done && self.link.is_holding()
                );
                self.held += range.len() as u64;
            }
            ReplicaAction::SetHistory(of) => self.offset = of.map_or(0, |of| of.offset),
            ReplicaAction::Stream { range, end, .. } => {
                assert!(wire == PrimaryChannel::Main && range.end <= done);
                assert_eq!(end - range.len() as u64, self.offset, "no gap");
                self.offset = end;
            }
            _ => {}
        }
    }

    fn account(&mut self) {
        let is_holding = self.link.is_holding();
        let told = self.link.report(self.now_ms).map_or(0, |report| report.held.size);
        if is_holding {
            assert_eq!(told, self.held, "what is held is accounted for");
        } else if self.held > 0 {
            // A driver would show it again; here it is forgotten with its connection.
            self.link.released(self.held);
            self.held = 0;
        }
    }
}
