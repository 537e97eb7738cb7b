//! Streams of replication: in order, or broken.

use cluster::NodeId;

use super::super::machine::{Inbound, Outbound, Record, StreamId};
use super::{Happening, Queued, World};
use crate::member::Event;
use crate::position::{Offset, Term};

/// A stream that is silent for so long is given up.
const SILENCE: u64 = 400;

impl World {
    pub(super) fn take_stream(
        &mut self,
        machine: usize,
        primary: NodeId,
        term: Term,
        generation: Option<u64>,
    ) {
        self.streams += 1;
        let (stream, primary, heard) = (self.streams, self.machine_of(primary), self.now);
        let Some(process) = self.process(machine) else { return };
        let start = generation.is_none().then_some(process.log.len());
        process.inbound = Some(Inbound { stream, primary, term, generation, heard });
        self.tell(|| format!("m{machine} follows m{primary} in {term} from {start:?}"));
        let opened = Happening::StreamOpened { from: machine, stream, start, term };
        self.send_on(stream, machine, primary, opened);
    }

    /// What is sent on a stream is not overtaken; what is lost breaks it.
    fn send_on(&mut self, stream: StreamId, from: usize, to: usize, happening: Happening) {
        if self.cut.contains(&(from, to)) || self.chance(self.loss) {
            return;
        }
        let latency = self.latency();
        let last = self.arrivals.get(&(stream, to)).copied().unwrap_or(0);
        let at = (self.now + latency).max(last + 1);
        self.arrivals.insert((stream, to), at);
        self.later(at - self.now, Queued::At(to, None, happening));
    }

    /// A member wants the stream of this machine.
    pub(super) fn stream_opened(
        &mut self,
        machine: usize,
        from: usize,
        stream: StreamId,
        start: Option<usize>,
        term: Term,
    ) {
        let Some(process) = self.process(machine) else { return };
        if process.member.reigns() != Some(term) {
            return;
        }
        let sent = start.unwrap_or(process.log.len());
        let outbound = Outbound { to: from, sent, is_ready: start.is_some() };
        process.outbound.insert(stream, outbound);
        if start.is_none() {
            let records = process.log.clone();
            self.send_on(stream, machine, from, Happening::AllData { stream, records });
        }
        self.push_streams(machine);
    }

    /// Sends what streams have not got yet.
    pub(super) fn push_streams(&mut self, machine: usize) {
        let Some(process) = self.process(machine) else { return };
        let mut packets = Vec::new();
        for (stream, outbound) in process.outbound.iter_mut().filter(|(_, one)| one.is_ready) {
            let records = process.log[outbound.sent..].to_vec();
            packets.push((*stream, outbound.to, outbound.sent, records));
            outbound.sent = process.log.len();
        }
        for (stream, to, at, records) in packets {
            self.send_on(stream, machine, to, Happening::StreamData { stream, at, records });
        }
    }

    /// An empty packet now and then shows that a stream stands, and what was lost of it.
    pub(super) fn tick_streams(&mut self, machine: usize) {
        if self.random.below(4) == 0 {
            self.push_streams(machine);
        }
        let now = self.now;
        let Some(process) = self.process(machine) else { return };
        let is_silent = |inbound: &mut Inbound| now > inbound.heard + SILENCE;
        if let Some(inbound) = process.inbound.take_if(is_silent) {
            self.member(machine, Event::StreamLost { term: inbound.term });
        }
    }

    pub(super) fn stream_data(
        &mut self,
        machine: usize,
        stream: StreamId,
        at: usize,
        records: &[Record],
    ) {
        let now = self.now;
        let Some(process) = self.process(machine) else { return };
        let Some(inbound) = process.inbound.as_mut().filter(|one| one.stream == stream) else {
            return;
        };
        inbound.heard = now;
        if inbound.generation.is_some() || at != process.log.len() {
            let term = inbound.term;
            process.inbound = None;
            self.member(machine, Event::StreamLost { term });
        } else if !records.is_empty() {
            process.log.extend_from_slice(records);
            self.appended(machine);
        }
    }

    /// All data of a primary have come, and are written beside the log that is here.
    pub(super) fn all_data(&mut self, machine: usize, stream: StreamId, records: Vec<Record>) {
        let now = self.now;
        let delay = 10 + self.random.below(300);
        let Some(process) = self.process(machine) else { return };
        if let Some(inbound) = process.inbound.as_mut().filter(|one| one.stream == stream) {
            inbound.heard = now + delay;
            self.at_self(machine, delay, Happening::Installed { stream, records });
        }
    }

    /// The data take the place of the log, at once and for sure.
    pub(super) fn installed(&mut self, machine: usize, stream: StreamId, records: Vec<Record>) {
        let Some(process) = self.process(machine) else { return };
        let Some(inbound) = process.inbound.as_mut().filter(|one| one.stream == stream) else {
            return;
        };
        let Some(generation) = inbound.generation.take() else { return };
        let (term, primary, length) = (inbound.term, inbound.primary, records.len());
        process.log.clone_from(&records);
        let disk = &mut self.machines[machine].disk;
        (disk.generation, disk.log) = (generation, records);
        // The process may die before the member hears of it.
        if self.chance(30) {
            self.crash(machine);
            return;
        }
        self.member(machine, Event::DataReceived { term, end: length as Offset });
        self.send_on(stream, machine, primary, Happening::StreamReady { stream, at: length });
    }

    pub(super) fn stream_ready(&mut self, machine: usize, stream: StreamId, at: usize) {
        let Some(process) = self.process(machine) else { return };
        if let Some(outbound) = process.outbound.get_mut(&stream) {
            (outbound.sent, outbound.is_ready) = (at, true);
        }
        self.push_streams(machine);
    }
}
