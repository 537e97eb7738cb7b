//! Machines with a node each, and a network between them, all made of one seed.
//!
//! Invariant: nothing here knows of the inside of a node but what its table says and what it does.

mod disturbances;
mod invariants;
mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use base::Random;

use crate::engine::{
    Action, AdminCommand, Cluster, Event, LinkId, Moment, PublishedMessage, Settings,
};
use crate::flags::NodeFlags;
use crate::id::{NodeId, ShardId};
use crate::message::{Limits, PacketReader, ReceivedPacket};
use crate::nodes_file::{AuxFields, NodeRecord, NodesFile};
use crate::slots::{Slot, SlotSet};

pub(super) const BUS_PORT: u16 = 17_000;
pub(super) const NODE_TIMEOUT: u64 = 1000;
const LATENCY: u64 = 8;
/// A full sync takes so long.
pub(super) const SYNC_TIME: u64 = 2500;
/// The type of the packet that gives a vote.
const VOTE: u16 = 6;
const LIMITS: Limits = Limits { nodes: 100, payload: 1 << 16 };

pub(super) fn ip(machine: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, machine as u8).into()
}

struct Machine {
    id: NodeId,
    cluster: Option<Cluster>,
    /// What is on disk for sure, and what was written last.
    synced: String,
    written: String,
    offset: u64,
    /// The shard whose data are here.
    shard: usize,
    /// The shard of its primary, and how far the data of that are on their way here.
    follows: Option<usize>,
    sync: SyncState,
    heard: u64,
    is_paused: bool,
    stopped_until: u64,
    skew: i64,
    /// The actions of a list after which the machine dies, if so.
    dies_after: Option<usize>,
    /// The actions of a list after which the machine stands still, and until when.
    stops_after: Option<(usize, u64)>,
    /// The wires of this machine's links.
    wires: BTreeMap<LinkId, usize>,
    readers: BTreeMap<LinkId, PacketReader>,
    accepted: u64,
}

/// The data of a replica, as they are to be those of its primary.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SyncState {
    /// The primary was not reached yet.
    Asked,
    /// All data of another shard come, until then.
    Coming(u64),
    /// All data are here.
    Done,
}

/// Both ends of a link.
struct Wire {
    from: (usize, LinkId),
    to: (usize, LinkId),
    /// Nothing overtakes what was sent before.
    arrives: [u64; 2],
}

enum Happening {
    Tick,
    Accept(usize),
    Paused,
    Connected(usize, LinkId),
    Closed(usize, LinkId),
    Bytes(usize, LinkId, Vec<u8>),
    /// What a machine was to do when it stood still.
    Rest(Vec<Action>),
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) now: u64,
    machines: Vec<Machine>,
    wires: Vec<Wire>,
    shards: usize,
    queue: BTreeMap<(u64, u64), (usize, Happening)>,
    sequence: u64,
    /// Pairs that cannot reach each other, one way.
    cut: BTreeSet<(usize, usize)>,
    loss: u64,
    /// `cluster-require-full-coverage`.
    pub(super) needs_all: bool,
    /// Whether operators move slots.
    pub(super) moves_slots: bool,
    /// How long a packet is under way at most, if nothing special befalls it.
    latency: u64,
    /// By voter and epoch, the machine that got the vote.
    votes: BTreeMap<(usize, u64), usize>,
    pub(super) promotions: u64,
    /// What was published elsewhere and has come to a machine.
    pub(super) delivered: Vec<(usize, Vec<u8>, Vec<u8>, bool)>,
    /// Slots whose keys machines were told to delete.
    pub(super) deleted: Vec<(usize, SlotSet)>,
    pub(super) failures: Vec<String>,
    pub(super) tale: Option<Vec<String>>,
}

fn settings(machine: usize) -> Settings {
    Settings {
        node_timeout: NODE_TIMEOUT,
        ip: Some(ip(machine)),
        tcp_port: 7000,
        bus_port: BUS_PORT,
        ..Settings::default()
    }
}

impl World {
    /// A cluster of so many primaries with so many replicas each, as their files say.
    pub(super) fn new(random: Random, primaries: usize, replicas: usize, is_told: bool) -> World {
        let mut world = World {
            random,
            now: 1000,
            machines: Vec::new(),
            wires: Vec::new(),
            shards: primaries,
            queue: BTreeMap::new(),
            sequence: 0,
            cut: BTreeSet::new(),
            loss: 0,
            needs_all: true,
            moves_slots: false,
            latency: LATENCY,
            votes: BTreeMap::new(),
            promotions: 0,
            delivered: Vec::new(),
            deleted: Vec::new(),
            failures: Vec::new(),
            tale: is_told.then(Vec::new),
        };
        let count = primaries * (1 + replicas);
        let ids: Vec<NodeId> = (0..count).map(|_| NodeId::random(&mut world.random)).collect();
        for me in 0..count {
            let record = |index: usize| record(&ids, index, me, primaries);
            let nodes = (0..count).map(record).collect();
            let current_epoch = primaries as u64;
            let file = NodesFile { nodes, current_epoch, ..NodesFile::default() };
            world.add(ids[me], file.to_text(false));
        }
        world
    }

    /// A machine with a node that knows no other.
    pub(super) fn add_fresh(&mut self) {
        let id = NodeId::random(&mut self.random);
        self.add(id, String::new());
    }

    fn add(&mut self, id: NodeId, file: String) {
        self.machines.push(Machine {
            id,
            cluster: None,
            synced: file.clone(),
            written: file,
            offset: 0,
            shard: self.machines.len() % self.shards.max(1),
            follows: None,
            sync: SyncState::Asked,
            heard: self.now,
            is_paused: false,
            stopped_until: 0,
            skew: 0,
            dies_after: None,
            stops_after: None,
            wires: BTreeMap::new(),
            readers: BTreeMap::new(),
            accepted: 0,
        });
        self.revive(self.machines.len() - 1);
    }

    pub(super) fn id(&self, machine: usize) -> NodeId {
        self.machines[machine].id
    }

    pub(super) fn offset(&self, machine: usize) -> u64 {
        self.machines[machine].offset
    }

    /// The shard whose data a machine has.
    pub(super) fn shard(&self, machine: usize) -> usize {
        self.machines[machine].shard
    }

    /// An operator changes the settings of a machine.
    pub(super) fn configure(&mut self, machine: usize, change: impl FnOnce(&mut Settings)) {
        let (moment, mut settings) = (self.moment(machine), settings(machine));
        change(&mut settings);
        let actions = self.cluster(machine).set(moment, settings);
        self.carry_out(machine, actions);
    }

    /// A machine has written much.
    pub(super) fn write(&mut self, machine: usize, length: u64) {
        self.machines[machine].offset += length;
    }

    pub(super) fn is_paused(&self, machine: usize) -> bool {
        self.machines[machine].is_paused
    }

    /// How many machines there are.
    pub(super) fn count(&self) -> usize {
        self.machines.len()
    }

    /// Cuts a machine off from all others.
    pub(super) fn isolate(&mut self, machine: usize) {
        self.tell(|| format!("m{machine} reaches nobody"));
        for other in (0..self.count()).filter(|it| *it != machine) {
            self.cut.extend([(machine, other), (other, machine)]);
        }
    }

    /// A machine stands still until then; what comes meanwhile is looked at behind that.
    pub(super) fn freeze(&mut self, machine: usize, until: u64) {
        self.tell(|| format!("m{machine} stands still until {until}"));
        self.machines[machine].stopped_until = until;
    }

    /// Whether a machine stands still, and does so for longer than a moment.
    pub(super) fn is_frozen(&self, machine: usize) -> bool {
        self.machines[machine].stopped_until > self.now + 1
    }

    /// All machines reach each other again.
    pub(super) fn join_all(&mut self) {
        self.cut.clear();
    }

    pub(super) fn is_up(&self, machine: usize) -> bool {
        self.machines[machine].cluster.is_some()
    }

    /// Has a machine die behind so many actions of its next list.
    pub(super) fn let_die_after(&mut self, machine: usize, actions: usize) {
        self.machines[machine].dies_after = Some(actions);
    }

    pub(super) fn cluster(&mut self, machine: usize) -> &mut Cluster {
        self.machines[machine].cluster.as_mut().expect("the machine is up")
    }

    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(tale) = &mut self.tale {
            tale.push(format!("{:>7} {}", self.now, line()));
        }
    }

    pub(super) fn revive(&mut self, machine: usize) {
        if self.machines[machine].cluster.is_some() {
            return;
        }
        let seed = self.random.next_u64();
        let moment = self.moment(machine);
        let it = &mut self.machines[machine];
        // What was written without a sync may be there or not.
        let text = if seed.is_multiple_of(2) { &it.synced } else { &it.written };
        let file = match NodesFile::parse(text.as_bytes(), false) {
            Ok(file) => Some(file),
            Err(_) if text.is_empty() => None,
            Err(error) => {
                self.failures.push(format!("nodes.conf does not load: {error}"));
                return;
            }
        };
        let settings = Settings { requires_full_coverage: self.needs_all, ..settings(machine) };
        let (cluster, actions) = Cluster::start(settings, file, moment, Random::from_seed(seed));
        it.id = cluster.my_id();
        it.cluster = Some(cluster);
        it.heard = self.now;
        it.is_paused = false;
        self.tell(|| format!("m{machine} begins"));
        self.carry_out(machine, actions);
        // A node that starts takes what it has for its shard's.
        self.machines[machine].follows = None;
        let first = self.now + self.random.below(100);
        self.push(first, machine, Happening::Tick);
    }

    pub(super) fn kill(&mut self, machine: usize) {
        if self.machines[machine].cluster.take().is_none() {
            return;
        }
        self.tell(|| format!("m{machine} dies"));
        let is_inner = |what: &Happening| matches!(what, Happening::Tick | Happening::Rest(_));
        self.queue.retain(|_, (to, what)| *to != machine || !is_inner(what));
        self.machines[machine].readers.clear();
        for (link, index) in std::mem::take(&mut self.machines[machine].wires) {
            let wire = &self.wires[index];
            let is_own = wire.from == (machine, link);
            let (other, link) = if is_own { wire.to } else { wire.from };
            let at = self.now + self.random.below(20);
            self.push(at, other, Happening::Closed(index, link));
        }
    }

    fn moment(&self, machine: usize) -> Moment {
        let wall = 1_700_000_000_000_u64 + self.now;
        Moment { now: self.now, wall: wall.saturating_add_signed(self.machines[machine].skew) }
    }

    fn push(&mut self, at: u64, machine: usize, what: Happening) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), (machine, what));
    }

    pub(super) fn run_for(&mut self, length: u64) {
        let end = self.now + length;
        while let Some(next) = self.queue.first_entry() {
            if next.key().0 > end {
                break;
            }
            let ((at, _), (machine, what)) = next.remove_entry();
            self.now = at.max(self.now);
            self.happen(machine, what);
        }
        self.now = end;
    }

    pub(super) fn order(&mut self, machine: usize, order: &AdminCommand) {
        let moment = self.moment(machine);
        let done = self.cluster(machine).order(moment, order);
        self.carry_out(machine, done.expect("the order is right"));
    }

    /// Gives an order to a machine that may be down; whether the order was taken.
    pub(super) fn try_order(&mut self, machine: usize, order: &AdminCommand) -> bool {
        let moment = self.moment(machine);
        let Some(cluster) = &mut self.machines[machine].cluster else { return false };
        let Ok(actions) = cluster.order(moment, order) else { return false };
        self.carry_out(machine, actions);
        self.is_up(machine)
    }

    /// What is wrong with an order, in words.
    pub(super) fn refusal(&mut self, machine: usize, order: &AdminCommand) -> String {
        let moment = self.moment(machine);
        self.cluster(machine).order(moment, order).expect_err("the order is wrong").to_string()
    }

    /// Has a machine tell others of a message.
    pub(super) fn publish(&mut self, machine: usize, published: PublishedMessage) {
        let (links, bytes) = self.cluster(machine).packet_of(published);
        for link in links {
            self.send(machine, link, bytes.clone());
        }
    }

    pub(super) fn feed(&mut self, machine: usize, event: Event) {
        let moment = self.moment(machine);
        let Some(cluster) = &mut self.machines[machine].cluster else { return };
        let actions = cluster.handle(moment, event);
        self.carry_out(machine, actions);
        self.check(machine);
    }

    fn happen(&mut self, machine: usize, what: Happening) {
        if self.machines[machine].cluster.is_none() {
            if let Happening::Accept(wire) = what {
                let (other, link) = self.wires[wire].from;
                self.push(self.now, other, Happening::Closed(wire, link));
            }
            return;
        }
        if self.machines[machine].stopped_until > self.now {
            let at = self.machines[machine].stopped_until;
            self.push(at, machine, what);
            return;
        }
        match what {
            Happening::Tick => {
                self.push(self.now + 100, machine, Happening::Tick);
                self.replicate(machine);
                self.feed(machine, Event::Tick);
            }
            Happening::Accept(wire) => {
                let (other, link) = self.wires[wire].from;
                let own = self.wires[wire].to.1;
                self.machines[machine].wires.insert(own, wire);
                self.push(self.now, other, Happening::Connected(wire, link));
                let (peer, local) = (ip(other), ip(machine));
                self.feed(machine, Event::Accepted { link: own, peer, local });
            }
            Happening::Rest(actions) => self.carry_out(machine, actions),
            Happening::Paused => {
                let offset = self.machines[machine].offset;
                self.feed(machine, Event::WritesPaused { offset });
            }
            Happening::Connected(wire, link) => {
                if self.machines[machine].wires.get(&link) == Some(&wire) {
                    self.feed(machine, Event::Connected { link });
                }
            }
            Happening::Closed(wire, link) => {
                if self.machines[machine].wires.get(&link) == Some(&wire) {
                    self.machines[machine].wires.remove(&link);
                    self.machines[machine].readers.remove(&link);
                    self.feed(machine, Event::Closed { link });
                }
            }
            Happening::Bytes(wire, link, bytes) => {
                if self.machines[machine].wires.get(&link) == Some(&wire) {
                    self.read(machine, link, &bytes);
                }
            }
        }
    }

    fn read(&mut self, machine: usize, link: LinkId, bytes: &[u8]) {
        self.machines[machine].readers.entry(link).or_default().feed(bytes);
        while let Some(reader) = self.machines[machine].readers.get_mut(&link) {
            match reader.next(LIMITS).expect("nodes send packets") {
                Some(ReceivedPacket::Packet(packet)) => {
                    self.feed(machine, Event::Received { link, packet });
                }
                Some(ReceivedPacket::Ignored(error)) => panic!("{error}"),
                None => return,
            }
        }
    }

    fn carry_out(&mut self, machine: usize, actions: Vec<Action>) {
        let mut actions = actions.into_iter();
        while let Some(action) = actions.next() {
            if self.stops(machine) {
                let rest = std::iter::once(action).chain(actions).collect();
                let until = self.machines[machine].stopped_until;
                return self.push(until, machine, Happening::Rest(rest));
            }
            if let Some(left) = &mut self.machines[machine].dies_after {
                if *left == 0 {
                    self.machines[machine].dies_after = None;
                    self.kill(machine);
                    return;
                }
                *left -= 1;
            }
            self.act(machine, action);
            if self.machines[machine].cluster.is_none() {
                return;
            }
        }
    }

    fn act(&mut self, machine: usize, action: Action) {
        match action {
            Action::SaveConfig { text, is_synced } => {
                if let Err(error) = NodesFile::parse(text.as_bytes(), false) {
                    self.failures.push(format!("nodes.conf is wrong: {error}\n{text}"));
                }
                let it = &mut self.machines[machine];
                if is_synced {
                    it.synced.clone_from(&text);
                }
                it.written = text;
            }
            Action::Connect { link, ip, .. } => self.connect(machine, link, ip),
            Action::Close { link } => self.close(machine, link),
            Action::Send { link, bytes } => self.send(machine, link, bytes),
            Action::PauseWrites { .. } => {
                self.machines[machine].is_paused = true;
                self.push(self.now + 1, machine, Happening::Paused);
            }
            Action::ResumeWrites => self.machines[machine].is_paused = false,
            Action::BecomePrimary => {
                self.promotions += 1;
                self.tell(|| format!("m{machine} leads"));
                self.check_data(machine);
            }
            Action::Log { text } => self.tell(|| format!("m{machine}: {text}")),
            Action::Replicate { primary, .. } => {
                let there = self.machines.iter().find(|it| it.id == primary);
                let shard = there.map(|it| it.shard);
                let it = &mut self.machines[machine];
                (it.sync, it.heard, it.follows) = (SyncState::Asked, self.now, shard);
            }
            Action::Deliver { channel, message, is_sharded } => {
                self.delivered.push((machine, channel, message, is_sharded));
            }
            Action::DeleteSlotKeys { slots } => self.deleted.push((machine, slots)),
        }
    }

    fn connect(&mut self, machine: usize, link: LinkId, to: IpAddr) {
        let there = (0..self.machines.len()).find(|other| ip(*other) == to);
        let Some(there) = there else { return };
        self.machines[there].accepted += 1;
        let other = LinkId::From(self.machines[there].accepted);
        let wire = self.wires.len();
        self.wires.push(Wire { from: (machine, link), to: (there, other), arrives: [0; 2] });
        self.machines[machine].wires.insert(link, wire);
        if !self.cut.contains(&(machine, there)) {
            let at = self.now + 1 + self.random.below(10);
            self.push(at, there, Happening::Accept(wire));
        }
    }

    fn close(&mut self, machine: usize, link: LinkId) {
        let Some(index) = self.machines[machine].wires.remove(&link) else { return };
        self.machines[machine].readers.remove(&link);
        let wire = &self.wires[index];
        let (other, link) = if wire.from == (machine, link) { wire.to } else { wire.from };
        let at = wire.arrives[0].max(wire.arrives[1]).max(self.now + 1);
        self.push(at, other, Happening::Closed(index, link));
    }

    fn send(&mut self, machine: usize, link: LinkId, bytes: Vec<u8>) {
        let Some(index) = self.machines[machine].wires.get(&link).copied() else { return };
        let delay = if self.random.below(20) == 0 { 200 } else { self.latency };
        let delay = 1 + self.random.below(delay);
        let wire = &mut self.wires[index];
        let way = usize::from(wire.from != (machine, link));
        let (other, there) = if way == 0 { wire.to } else { wire.from };
        let kind = u16::from_be_bytes([bytes[12], bytes[13]]);
        if kind == VOTE {
            let epoch = u64::from_be_bytes(bytes[16..24].try_into().expect("eight bytes"));
            if self.votes.insert((machine, epoch), other).is_some_and(|before| before != other) {
                self.failures.push(format!("m{machine} has voted twice in epoch {epoch}"));
            }
        }
        if self.cut.contains(&(machine, other)) {
            return;
        }
        let at = wire.arrives[way].max(self.now + delay);
        wire.arrives[way] = at;
        let chance = self.random.below(100);
        if chance < self.loss {
            return;
        }
        if chance < 2 * self.loss {
            let late = at + self.random.below(1000);
            self.push(late, other, Happening::Bytes(index, there, bytes.clone()));
        }
        self.push(at, other, Happening::Bytes(index, there, bytes));
    }
}

fn record(ids: &[NodeId], index: usize, me: usize, primaries: usize) -> NodeRecord {
    let (primary, is_replica) = (index % primaries, index >= primaries);
    let role = if is_replica { NodeFlags::REPLICA } else { NodeFlags::PRIMARY };
    let own = if index == me { NodeFlags::MYSELF } else { NodeFlags::default() };
    let is_owned = |slot: &Slot| usize::from(slot.get()) * primaries / 16_384 == primary;
    NodeRecord {
        id: ids[index],
        ip: Some(ip(index)),
        tcp_port: 7000,
        tls_port: 0,
        bus_port: BUS_PORT,
        aux: AuxFields { shard: Some(ShardId(ids[primary])), ..AuxFields::default() },
        flags: role.with(own),
        primary: is_replica.then_some(ids[primary]),
        ping_sent: 0,
        pong_received: 0,
        config_epoch: if is_replica { 0 } else { primary as u64 + 1 },
        is_connected: true,
        slots: Slot::all().filter(|slot| !is_replica && is_owned(slot)).collect(),
        open_slots: Vec::new(),
    }
}
