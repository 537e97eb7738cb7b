//! Bytes from a primary, whatever they are at the time.
//!
//! Invariant: what the bytes mean does not depend on how they are cut.

use super::action::{
    LoadMode, LoadOrder, PrimaryChannel, RdbFraming, ReplicaAction, StreamCommands,
};
use super::channel::{ChannelEnd, MainChannelState};
use super::handover::Handover;
use super::handshake::HandshakeEnd;
use super::line::{HEADER_MAX, Line, REPLY_MAX};
use super::link::{LoadOutcome, ReplicaLink, SocketState};
use super::phase::Phase;
use super::transfer::{Header, Transfer};
use crate::history::SavedHistory;
use crate::ids::ReplicationId;

impl ReplicaLink {
    /// Says how data are taken in that come now: what is there may have changed since the
    /// directives were told.
    pub fn set_load(&mut self, mode: LoadMode) {
        self.settings.load = mode;
    }

    /// Whether to read from the primary: not while its data is being loaded, and of the stream
    /// beside them not more than may be held.
    pub fn is_reading(&self, wire: PrimaryChannel) -> bool {
        match (wire, &self.beside) {
            (PrimaryChannel::Main, Some(beside)) => {
                beside.main != MainChannelState::Held || self.held.size < self.settings.held_max
            }
            (PrimaryChannel::Main, None) => self.phase.is_reading(),
            (PrimaryChannel::Rdb, Some(_)) => self.phase.is_reading(),
            (PrimaryChannel::Rdb, None) => false,
        }
    }

    /// Whether the stream comes while its data do, or are being loaded.
    pub fn is_holding(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.main == MainChannelState::Held)
    }

    /// So many bytes that were held are shown again.
    pub fn released(&mut self, count: u64) {
        self.held.size = self.held.size.saturating_sub(count);
        if self.held.size == 0 && self.held.flowing > 0 {
            self.out.notice(format!(
                "MASTER <-> REPLICA sync: Successfully streamed replication buffer into the db \
                 ({} bytes in total)",
                std::mem::take(&mut self.held.flowing)
            ));
        }
    }

    /// Bytes have come, or may be taken now. `buf` begins with the first byte of the connection
    /// that is not done with, and holds what came since. Returns how many bytes are done with when
    /// the actions are.
    pub fn received(&mut self, wire: PrimaryChannel, buf: &[u8], now_ms: u64) -> usize {
        // A look at what was there before is no word from the primary, and the stream beside data
        // says nothing of these.
        let is_awaited = self.beside.is_none() == (wire == PrimaryChannel::Main);
        if buf.len() > self.left[wire as usize] && is_awaited && self.phase.is_reading() {
            self.clocks.heard_ms = now_ms;
        }
        let done = self.take_in(wire, buf, now_ms);
        self.left[wire as usize] = buf.len() - done;
        done
    }

    fn take_in(&mut self, wire: PrimaryChannel, buf: &[u8], now_ms: u64) -> usize {
        let mut done = 0;
        while let Some(taken) = self.step(wire, buf, done, now_ms) {
            done += taken;
        }
        match self.phase {
            Phase::Loading { .. } => done,
            _ if self.phase.is_reading() => done,
            _ if self.beside.is_some() => done,
            // The connection is closed: nothing of what is left counts.
            _ => buf.len(),
        }
    }

    /// Takes the next thing in; `None` if that needs more bytes, or none are wanted.
    fn step(
        &mut self,
        wire: PrimaryChannel,
        buf: &[u8],
        begin: usize,
        now_ms: u64,
    ) -> Option<usize> {
        match (wire, &self.beside) {
            (PrimaryChannel::Main, Some(_)) => return self.take_beside(buf, begin, now_ms),
            (PrimaryChannel::Rdb, None) => return None,
            (PrimaryChannel::Main, None) | (PrimaryChannel::Rdb, Some(_)) => {}
        }
        match &mut self.phase {
            Phase::Shaking { .. } => self.take_reply(&buf[begin..], now_ms),
            Phase::ShakingChannel { .. } => self.take_channel_reply(&buf[begin..], now_ms),
            Phase::Announced(of) => {
                let of = *of;
                self.take_header(of, &buf[begin..], now_ms)
            }
            Phase::Receiving { order, transfer } => {
                let received = transfer.take(&buf[begin..]);
                let (order, read) = (*order, transfer.read());
                let data = begin..begin + received.data;
                if !data.is_empty() {
                    self.out.push(ReplicaAction::Rdb(data));
                }
                match received.end {
                    Some(mark) => {
                        self.out.push(ReplicaAction::EndOfRdb);
                        if order.mode == LoadMode::Disk {
                            self.discard_cached();
                        }
                        self.phase = Phase::Loading { order, read, is_lost: false };
                        self.close_channel();
                        Some(received.data + mark)
                    }
                    None => (received.data > 0).then_some(received.data),
                }
            }
            Phase::Streaming(_) => self.take_units(buf, begin, now_ms),
            Phase::Unlinked
            | Phase::Waiting { .. }
            | Phase::Connecting
            | Phase::OpeningChannel
            | Phase::Loading { .. } => None,
        }
    }

    /// The first connection, while the data come on the second one.
    fn take_beside(&mut self, buf: &[u8], begin: usize, now_ms: u64) -> Option<usize> {
        let beside = self.beside.as_mut().expect("the data come on a second connection");
        let rest = &buf[begin..];
        if beside.main == MainChannelState::Held {
            if rest.is_empty() {
                return None;
            }
            self.held.add(rest.len() as u64);
            self.out.push(ReplicaAction::Hold(begin..buf.len()));
            return Some(rest.len());
        }
        let fault = match Line::first(rest, REPLY_MAX) {
            Line::Partial => return None,
            Line::TooLong => format!("A reply of MASTER is longer than {REPLY_MAX} bytes"),
            Line::Whole(line, taken) => match beside.line(line, now_ms, &mut self.out) {
                Ok(()) => {
                    if let Some(database) =
                        beside.loaded.filter(|_| beside.main == MainChannelState::Held)
                    {
                        self.loaded(LoadOutcome::Loaded { database }, now_ms);
                    }
                    return Some(taken);
                }
                Err(fault) => fault,
            },
        };
        self.out.warning(fault);
        self.reconnect(now_ms, SocketState::Open);
        None
    }

    fn take_channel_reply(&mut self, buf: &[u8], now_ms: u64) -> Option<usize> {
        let Phase::ShakingChannel { handshake, since_ms } = &mut self.phase else { return None };
        let (line, taken) = match Line::first(buf, REPLY_MAX) {
            Line::Whole(line, taken) => (line, taken),
            Line::Partial => return None,
            Line::TooLong => {
                self.out.warning(format!("A reply of MASTER is longer than {REPLY_MAX} bytes"));
                self.reconnect(now_ms, SocketState::Open);
                return None;
            }
        };
        *since_ms = now_ms;
        match handshake.line(line, &mut self.out) {
            None => {}
            Some(ChannelEnd::Failed) => {
                self.reconnect(now_ms, SocketState::Open);
                return None;
            }
            Some(ChannelEnd::Full(id, offset)) => {
                self.out.notice("Starting to receive RDB and replication stream in parallel.");
                self.phase = Phase::Announced(Some((id, offset)));
            }
            Some(ChannelEnd::Numbered(id, offset, client)) => {
                let position = SavedHistory { id, offset, database: 0, second: None };
                let beside = self.beside.as_mut().expect("these are words of its connection");
                beside.name_channel(client, position, now_ms, &mut self.out);
                self.phase = Phase::Announced(Some((id, offset)));
            }
        }
        Some(taken)
    }

    fn take_reply(&mut self, buf: &[u8], now_ms: u64) -> Option<usize> {
        let Phase::Shaking { handshake, since_ms } = &mut self.phase else { return None };
        let (line, taken) = match Line::first(buf, REPLY_MAX) {
            Line::Whole(line, taken) => (line, taken),
            Line::Partial => return None,
            Line::TooLong => {
                self.out.warning(format!("A reply of MASTER is longer than {REPLY_MAX} bytes"));
                self.fail(now_ms);
                return None;
            }
        };
        *since_ms = now_ms;
        let stands = (self.position, self.handover);
        let end = handshake.line(line, &self.settings, stands, &mut self.out);
        match end {
            None if handshake.has_asked() => self.handover = self.handover.asked(),
            None | Some(HandshakeEnd::Failed) => {}
            Some(HandshakeEnd::Refused) => self.handover = Handover::Refused,
            Some(HandshakeEnd::Promoted) => {
                self.handover = Handover::None;
                handshake.ask(self.position, self.handover, &mut self.out);
            }
            // The peer that lets us go on, or gives us data, is the primary now.
            _ => self.handover = Handover::None,
        }
        match end {
            None | Some(HandshakeEnd::Promoted) => {}
            Some(HandshakeEnd::Failed | HandshakeEnd::Refused) => self.fail(now_ms),
            Some(HandshakeEnd::Full(of)) => self.phase = Phase::Announced(of),
            Some(HandshakeEnd::DualChannel(dialect)) => self.open_channel(dialect, now_ms),
            Some(HandshakeEnd::Legacy) => self.phase = Phase::Announced(None),
            Some(HandshakeEnd::Continue(id)) => self.resume(id, now_ms),
        }
        Some(taken)
    }

    /// The primary goes on from our position.
    fn resume(&mut self, id: Option<ReplicationId>, now_ms: u64) {
        let position =
            self.position.as_mut().expect("a primary goes on only where it was asked to");
        if let Some(id) = id.filter(|id| *id != position.id) {
            position.id = id;
            self.out.notice(format!("Master replication ID changed to {id}"));
            self.out.push(ReplicaAction::Follow { id, at: position.offset });
        }
        let (offset, database) = (position.offset, position.database);
        self.out.notice("MASTER <-> REPLICA sync: Master accepted a Partial Resynchronization.");
        self.flow(offset, database, now_ms);
    }

    fn take_header(
        &mut self,
        of: Option<(ReplicationId, u64)>,
        buf: &[u8],
        now_ms: u64,
    ) -> Option<usize> {
        let fault = match Line::first(buf, HEADER_MAX) {
            Line::Partial => return None,
            Line::TooLong => "Bad protocol from MASTER: a header of data does not end".to_owned(),
            Line::Whole(line, taken) => match Header::parse(line) {
                Header::KeepAlive => return Some(taken),
                Header::Fault(line) => line,
                Header::Data(transfer) => {
                    self.begin_load(of, transfer);
                    return Some(taken);
                }
            },
        };
        self.out.warning(fault);
        self.reconnect(now_ms, SocketState::Open);
        None
    }

    fn begin_load(&mut self, of: Option<(ReplicationId, u64)>, transfer: Transfer) {
        let (framing, mode) = (transfer.framing(), self.settings.load);
        let ours = self.position.map(|position| position.id);
        let is_our_history = ours.is_some() && ours == of.map(|(id, _)| id);
        self.is_confirmed &= is_our_history;
        let order = LoadOrder { framing, of, mode, is_our_history };
        let place = if mode == LoadMode::Disk { "to disk" } else { "to parser" };
        self.out.notice(match framing {
            RdbFraming::Length(length) => {
                format!("MASTER <-> REPLICA sync: receiving {length} bytes from master {place}")
            }
            RdbFraming::Marked => format!(
                "MASTER <-> REPLICA sync: receiving streamed RDB from master with EOF {place}"
            ),
        });
        self.out.push(ReplicaAction::BeginLoad(order));
        if mode == LoadMode::Flush {
            // What is there goes now, so that there is nothing to go on from.
            self.discard_cached();
            self.position = None;
        }
        self.phase = Phase::Receiving { order, transfer };
    }

    fn take_units(&mut self, buf: &[u8], begin: usize, now_ms: u64) -> Option<usize> {
        let Phase::Streaming(stream) = &mut self.phase else { return None };
        let database = stream.parser.database();
        let (mut end, mut commands) = (begin, StreamCommands::default());
        let fault = loop {
            match stream.parser.advance(&buf[end..]) {
                Ok(Some(unit)) => {
                    if unit.wants_ack {
                        stream.ask();
                    }
                    stream.offset += unit.len as u64;
                    commands.count += unit.commands.count;
                    commands.last = unit.commands.last.map(|at| end - begin + at).or(commands.last);
                    end += unit.len;
                }
                Ok(None) => break None,
                Err(fault) => break Some(fault),
            }
        };
        stream.partial = buf.len() - end;
        if end > begin {
            if let Some(position) = &mut self.position {
                position.offset = stream.offset;
                position.database = stream.parser.database();
            }
            let (range, end) = (begin..end, stream.offset);
            let databases = [database, stream.parser.database()];
            self.out.push(ReplicaAction::Stream { range, end, databases, commands });
            self.answer_asked(now_ms);
        }
        if let Some(fault) = fault {
            self.out.warning(format!("Protocol error from MASTER: {fault}"));
            // Where the two ends parted is unknown.
            self.position = None;
            self.reconnect(now_ms, SocketState::Open);
            return None;
        }
        (end > begin).then_some(end - begin)
    }
}
