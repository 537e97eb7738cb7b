//! Machines, clients and a network between them, all made of one seed.
//!
//! Invariant: nothing here knows of the inside of a member but what it says and does.

mod clients;
mod disturbances;
mod driver;
mod streams;

use std::collections::{BTreeMap, BTreeSet};

use base::Random;
use cluster::{NodeId, ShardId};

use self::clients::Client;
use super::Plan;
use super::checks::{Checks, Value};
use super::machine::{Machine, Record, Reply, StreamId};
use super::map_log::MapLog;
use crate::coordinator::CoordinatorEvent;
use crate::map::{ClusterMap, MapEntry, NodeAddress};
use crate::message::Message;
use crate::position::Term;

/// How often a machine ticks.
const TICK: u64 = 20;
/// How often it is seen to who leads the map's log.
const LEADER_TICK: u64 = 100;
/// So many nodes vote for the map's log.
const VOTERS_MAX: usize = 7;

enum Happening {
    Tick,
    Told(NodeId, Message),
    Request { client: usize, request: u64, key: u64, write: Option<Value> },
    StreamOpened { from: usize, stream: StreamId, start: Option<usize>, term: Term },
    StreamData { stream: StreamId, at: usize, records: Vec<Record> },
    AllData { stream: StreamId, records: Vec<Record> },
    Installed { stream: StreamId, records: Vec<Record> },
    StreamReady { stream: StreamId, at: usize },
    Synced { generation: u64, length: usize },
}

enum Queued {
    /// Something comes to a machine: in this life of it, or in any.
    At(usize, Option<u64>, Happening),
    Proposed(usize, MapEntry),
    Leaders,
    Told(Reply),
    Turn(usize),
    TimeOver(usize, u64),
    Start(usize),
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) plan: Plan,
    pub(super) now: u64,
    pub(super) machines: Vec<Machine>,
    pub(super) log: MapLog,
    /// The map, as it is behind all entries.
    pub(super) map: ClusterMap,
    pub(super) shards: Vec<ShardId>,
    clients: Vec<Client>,
    values: Value,
    leader: Option<usize>,
    /// Machines that led before, and do not know yet that they do no more.
    old_leaders: Vec<usize>,
    queue: BTreeMap<(u64, u64), Queued>,
    sequence: u64,
    streams: StreamId,
    /// When what was sent last on a stream arrives: nothing overtakes it.
    arrivals: BTreeMap<(StreamId, usize), u64>,
    /// Pairs that cannot reach each other, one way.
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// Of 1000 messages so many are lost, and as many come twice.
    pub(super) loss: u64,
    pub(super) slow_disks: bool,
    pub(super) checks: Checks,
    pub(super) tale: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(mut random: Random, plan: Plan, is_told: bool) -> World {
        let ids: Vec<NodeId> = (0..plan.nodes).map(|_| NodeId::random(&mut random)).collect();
        let shards = (0..plan.shards).map(|_| ShardId(NodeId::random(&mut random))).collect();
        let machines = ids.iter().map(|id| Machine::new(*id, &mut random)).collect();
        let mut world = World {
            random,
            now: 1000,
            machines,
            log: MapLog::default(),
            map: ClusterMap::default(),
            shards,
            clients: Vec::new(),
            values: 0,
            leader: None,
            old_leaders: Vec::new(),
            queue: BTreeMap::new(),
            sequence: 0,
            streams: 0,
            arrivals: BTreeMap::new(),
            cut: BTreeSet::new(),
            loss: 10,
            slow_disks: false,
            checks: Checks::default(),
            tale: is_told.then(Vec::new),
            plan,
        };
        world.found();
        world
    }

    /// The entries by which the cluster comes to be, and the processes.
    fn found(&mut self) {
        let ip = std::net::Ipv4Addr::LOCALHOST.into();
        for index in 0..self.plan.nodes {
            let address = NodeAddress { ip, tcp_port: 1, tls_port: 0, bus_port: 2 };
            self.commit(MapEntry::AddNode { node: self.machines[index].id, address });
        }
        for index in 0..self.plan.nodes - self.plan.spares {
            let shard = self.shards[index % self.plan.shards];
            let node = self.machines[index].id;
            self.commit(if index < self.plan.shards {
                MapEntry::CreateShard { shard, founder: node }
            } else {
                MapEntry::Join { shard, node }
            });
        }
        (0..self.plan.nodes).for_each(|machine| self.start(machine));
        for client in 0..self.plan.clients {
            self.clients.push(Client::default());
            self.later(client as u64, Queued::Turn(client));
        }
        self.later(0, Queued::Leaders);
    }

    pub(super) fn commit(&mut self, entry: MapEntry) {
        let result = self.map.apply(&entry);
        self.tell(|| format!("the map takes {entry:?}: {result:?}"));
        self.log.commit(entry);
    }

    pub(super) fn run_until(&mut self, until: u64) {
        while let Some(next) = self.queue.first_entry().filter(|next| next.key().0 <= until) {
            let ((at, _), queued) = next.remove_entry();
            self.now = at;
            self.happen(queued);
        }
        self.now = until;
    }

    fn happen(&mut self, queued: Queued) {
        match queued {
            Queued::At(to, life, happening) => self.happen_at(to, life, happening),
            Queued::Proposed(by, entry) => {
                if self.reaches_majority(by) {
                    self.commit(entry);
                }
            }
            Queued::Leaders => {
                self.lead();
                self.later(LEADER_TICK, Queued::Leaders);
            }
            Queued::Told(reply) => self.client_told(&reply),
            Queued::Turn(client) => self.client_turn(client),
            Queued::TimeOver(client, request) => self.client_gives_up(client, request),
            Queued::Start(machine) => self.start(machine),
        }
    }

    fn happen_at(&mut self, to: usize, life: Option<u64>, happening: Happening) {
        let machine = &self.machines[to];
        let is_over = life.is_some_and(|life| life != machine.life);
        if machine.process.is_none() || is_over {
            return;
        }
        if machine.stopped_until > self.now {
            let wait = machine.stopped_until - self.now;
            self.later(wait, Queued::At(to, life, happening));
            return;
        }
        match happening {
            Happening::Tick => self.tick(to),
            Happening::Told(from, message) => self.told(to, from, message),
            Happening::Request { client, request, key, write } => {
                self.serve(to, client, request, key, write);
            }
            Happening::StreamOpened { from, stream, start, term } => {
                self.stream_opened(to, from, stream, start, term);
            }
            Happening::StreamData { stream, at, records } => {
                self.stream_data(to, stream, at, &records);
            }
            Happening::AllData { stream, records } => self.all_data(to, stream, records),
            Happening::Installed { stream, records } => self.installed(to, stream, records),
            Happening::StreamReady { stream, at } => self.stream_ready(to, stream, at),
            Happening::Synced { generation, length } => self.synced(to, generation, length),
        }
        self.check_serving();
    }

    /// At no moment two nodes of a shard serve, by their own clocks.
    fn check_serving(&mut self) {
        let mut serving: BTreeMap<ShardId, usize> = BTreeMap::new();
        for (index, machine) in self.machines.iter().enumerate() {
            let Some(process) = &machine.process else { continue };
            let until = process.member.served_until();
            let serves = until.is_some_and(|until| machine.clock(self.now) < until);
            let Some((shard, _)) = process.map.shard_of(machine.id) else { continue };
            if serves && let Some(other) = serving.insert(shard, index) {
                self.checks.failures.push(format!("m{other} and m{index} serve at {}", self.now));
            }
        }
    }

    fn later(&mut self, delay: u64, queued: Queued) {
        self.sequence += 1;
        self.queue.insert((self.now + delay, self.sequence), queued);
    }

    /// How long something is under way.
    pub(super) fn latency(&mut self) -> u64 {
        if self.random.below(50) == 0 { self.random.below(900) } else { 1 + self.random.below(9) }
    }

    /// Whether chance has something so many times in a thousand.
    pub(super) fn chance(&mut self, permille: u64) -> bool {
        self.random.below(1000) < permille
    }

    pub(super) fn reaches(&self, one: usize, other: usize) -> bool {
        let is_up = |machine: usize| {
            let machine = &self.machines[machine];
            machine.process.is_some() && machine.stopped_until <= self.now
        };
        let is_cut = self.cut.contains(&(one, other)) || self.cut.contains(&(other, one));
        is_up(one) && is_up(other) && !is_cut
    }

    pub(super) fn reaches_majority(&self, machine: usize) -> bool {
        let voters = self.plan.nodes.min(VOTERS_MAX);
        let reached = (0..voters).filter(|other| self.reaches(machine, *other)).count();
        reached > voters / 2
    }

    /// Has another node lead the map's log where the present one does not reach enough others. The
    /// old one may learn of that late.
    fn lead(&mut self) {
        if self.random.below(8) == 0 {
            let old = std::mem::take(&mut self.old_leaders);
            old.into_iter().for_each(|old| self.coordinate(old, CoordinatorEvent::Deposed));
        }
        if self.leader.is_some_and(|leader| self.reaches_majority(leader)) {
            return;
        }
        let able: Vec<usize> =
            (0..self.plan.nodes).filter(|machine| self.reaches_majority(*machine)).collect();
        if able.is_empty() || self.chance(700) {
            return;
        }
        let leader = able[self.random.below(able.len() as u64) as usize];
        self.old_leaders.retain(|old| *old != leader);
        let old = self.leader.replace(leader).filter(|old| *old != leader);
        self.old_leaders.extend(old);
        self.tell(|| format!("m{leader} leads the map's log"));
        self.coordinate(leader, CoordinatorEvent::Led);
    }

    pub(super) fn machine_of(&self, node: NodeId) -> usize {
        let index = self.machines.iter().position(|machine| machine.id == node);
        index.expect("all nodes have a machine")
    }

    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(tale) = &mut self.tale {
            tale.push(format!("{}: {}", self.now, line()));
        }
    }
}
