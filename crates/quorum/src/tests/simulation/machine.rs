//! A machine: its clock, its disk, and the process that drives a member.

use std::collections::BTreeMap;

use base::Random;
use cluster::NodeId;

use super::checks::Value;
use crate::coordinator::Coordinator;
use crate::map::ClusterMap;
use crate::member::{Action, FoundLog, Member};
use crate::position::{Offset, Term};
use crate::settings::{DRIFT_PERCENT, Settings};
use crate::state::MemberState;

/// A write, as the log has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) key: u64,
    pub(super) value: Value,
}

/// Names a stream from a primary to a member; never used twice.
pub(super) type StreamId = u64;

/// A machine, its process running or not.
pub(super) struct Machine {
    pub(super) id: NodeId,
    pub(super) disk: Disk,
    pub(super) process: Option<Process>,
    pub(super) stopped_until: u64,
    /// Percent of time.
    rate: u64,
    skew: u64,
    /// How often the process was begun.
    pub(super) life: u64,
}

/// What outlives the process.
pub(super) struct Disk {
    pub(super) state: String,
    pub(super) log: Vec<Record>,
    pub(super) generation: u64,
    /// Up to where the map was applied, at least.
    pub(super) applied: usize,
}

pub(super) struct Process {
    pub(super) member: Member,
    pub(super) coordinator: Coordinator,
    pub(super) map: ClusterMap,
    pub(super) applied: usize,
    pub(super) log: Vec<Record>,
    /// Whether the disk is at work.
    pub(super) is_syncing: bool,
    /// The stream that is taken.
    pub(super) inbound: Option<Inbound>,
    /// The streams that are given.
    pub(super) outbound: BTreeMap<StreamId, Outbound>,
    /// Replies that wait until so much of the log is safe.
    pub(super) held: Vec<(Offset, Reply)>,
    pub(super) released: Offset,
    /// The actions after which the process dies, if so.
    pub(super) dies_after: Option<usize>,
}

pub(super) struct Inbound {
    pub(super) stream: StreamId,
    pub(super) primary: usize,
    pub(super) term: Term,
    /// The generation of the log that comes, until it is there.
    pub(super) generation: Option<u64>,
    pub(super) heard: u64,
}

pub(super) struct Outbound {
    pub(super) to: usize,
    pub(super) sent: usize,
    /// Whether the member has all data, behind which the stream goes on.
    pub(super) is_ready: bool,
}

/// What a client is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    pub(super) client: usize,
    pub(super) request: u64,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    Written(Value),
    Read(Value),
    /// Nothing was done.
    Refused,
}

impl Machine {
    pub(super) fn new(id: NodeId, random: &mut Random) -> Machine {
        let state = MemberState { node: id, membership: None }.to_text();
        Machine {
            id,
            disk: Disk { state, log: Vec::new(), generation: 0, applied: 0 },
            process: None,
            stopped_until: 0,
            rate: 100 - DRIFT_PERCENT + random.below(2 * DRIFT_PERCENT + 1),
            skew: random.below(100_000),
            life: 0,
        }
    }

    /// What the clock of the machine shows.
    pub(super) fn clock(&self, now: u64) -> u64 {
        self.skew + now * self.rate / 100
    }

    /// Begins the process; whether the log has all that was durable depends on what the operator
    /// has set.
    pub(super) fn start(&mut self, settings: &Settings, is_on_disk: bool, now: u64) -> Vec<Action> {
        let state = MemberState::parse(&self.disk.state).expect("the file was written whole");
        let log = self.disk.log.clone();
        let found = FoundLog { generation: self.disk.generation, end: log.len() as u64 };
        let is_first = self.life == 0;
        let found = (is_on_disk || is_first).then_some(found);
        let clock = self.clock(now);
        let (member, actions) = Member::start(settings.clone(), state, found, clock);
        self.life += 1;
        self.process = Some(Process {
            member,
            coordinator: Coordinator::new(settings.clone()),
            map: ClusterMap::default(),
            applied: 0,
            log: if found.is_some() { log } else { Vec::new() },
            is_syncing: false,
            inbound: None,
            outbound: BTreeMap::new(),
            held: Vec::new(),
            released: 0,
            dies_after: None,
        });
        actions
    }
}

impl Process {
    /// What a key has, and how much of the log shows it.
    pub(super) fn read(&self, key: u64) -> (Value, Offset) {
        let last = self.log.iter().rposition(|record| record.key == key);
        last.map_or((0, 0), |index| (self.log[index].value, index as u64 + 1))
    }

    pub(super) fn values(&self) -> Vec<Value> {
        self.log.iter().map(|record| record.value).collect()
    }
}
