//! The world of a history: machines, their clocks, the network, and what is to happen when.
//!
//! Invariants: one seed makes one history; a connection delivers in order or not at all.

mod mishaps;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use base::Random;
use proto::value::Value;
use proto::{OwnedArgs, Resp};

use super::checks::Checks;
use super::node::{Machine, NodeRole, Server, host, info, machine};
use crate::Sentinel;
use crate::event::{Action, ClientId, ConnectionId, Event, Purpose};

/// A Sentinel's machine.
pub(super) struct Guard {
    pub(super) engine: Option<Sentinel>,
    pub(super) disk: Vec<u8>,
    pub(super) is_disk_full: bool,
    /// What its clock says beside the true time.
    pub(super) skew: i64,
    /// The process stands still until then.
    pub(super) stopped_until: i64,
    incarnation: u32,
    connections: BTreeMap<ConnectionId, usize>,
}

/// A connection that a Sentinel has made.
struct Wire {
    guard: usize,
    incarnation: u32,
    connection: ConnectionId,
    to: Machine,
    purpose: Purpose,
    state: WireState,
    /// When the last message of each direction arrives.
    there_at: i64,
    back_at: i64,
    /// Commands since MULTI.
    queue: Option<Vec<OwnedArgs>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WireState {
    Opening,
    Open,
    /// Nothing arrives any more, and nobody knows.
    Dead,
    Closed,
}

/// What is to happen.
enum Happening {
    Tick { guard: usize, incarnation: u32 },
    Opened { wire: usize },
    Lost { wire: usize },
    Arrives { wire: usize, command: OwnedArgs },
    Returns { wire: usize, value: Value },
    Boot { machine: Machine },
    Heal,
    Replicate,
}

/// What is to happen, and when: the heap gives the earliest first.
struct Due {
    at: i64,
    number: u64,
    happening: Happening,
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.number == other.number
    }
}

impl Eq for Due {}

/// What a history consists of.
pub(super) struct Plan {
    pub(super) guards: usize,
    /// For each primary, the machines of its nodes; the first is the primary at first.
    pub(super) sets: Vec<Vec<Machine>>,
    pub(super) quorum: usize,
    /// Orders that override the default times.
    pub(super) periods: &'static [(&'static str, &'static str)],
    /// How slow it goes.
    pub(super) pace: i64,
    pub(super) down_after: i64,
    pub(super) failover_timeout: i64,
}

pub(super) struct World {
    pub(super) now: i64,
    pub(super) random: Random,
    pub(super) plan: Plan,
    pub(super) nodes: Vec<Server>,
    pub(super) guards: Vec<Guard>,
    pub(super) checks: Checks,
    /// Machines that never come back.
    gone: BTreeSet<Machine>,
    /// Machines of different groups cannot reach each other.
    groups: Vec<u8>,
    wires: Vec<Wire>,
    /// Those to each machine that are not closed.
    wires_to: Vec<Vec<usize>>,
    clients: BTreeMap<ClientId, usize>,
    next_client: u64,
    queue: BinaryHeap<Due>,
    next_happening: u64,
    /// The last words of the history, for a reader that looks into a failure.
    pub(super) tale: Option<Vec<String>>,
    pub(super) calls: u64,
    /// When a leader last found nothing that the rules let it promote.
    pub(super) barren_at: Option<i64>,
}

/// The name of a primary.
pub(super) fn name(set: usize) -> String {
    format!("primary{set}")
}

impl World {
    pub(super) fn new(mut random: Random, plan: Plan, is_told: bool) -> World {
        let count = plan.sets.iter().map(Vec::len).sum();
        let mut nodes: Vec<Server> =
            (0..count).map(|_| Server::new(NodeRole::Primary, &mut random)).collect();
        for set in &plan.sets {
            for replica in &set[1..] {
                nodes[*replica] = Server::new(NodeRole::ReplicaOf(set[0]), &mut random);
            }
        }
        let mut world = World {
            now: 1_000_000,
            random,
            groups: vec![0; count + plan.guards],
            checks: Checks::default(),
            gone: BTreeSet::new(),
            nodes,
            guards: Vec::new(),
            wires: Vec::new(),
            wires_to: vec![Vec::new(); count + plan.guards],
            clients: BTreeMap::new(),
            next_client: 0,
            queue: BinaryHeap::new(),
            next_happening: 0,
            tale: is_told.then(Vec::new),
            calls: 0,
            barren_at: None,
            plan,
        };
        for guard in 0..world.plan.guards {
            world.add_guard(guard);
        }
        world.at(0, Happening::Replicate);
        world
    }

    fn add_guard(&mut self, guard: usize) {
        use std::fmt::Write;
        let mut text = String::from("# watched by the simulation\nport 26379\n");
        for (index, set) in self.plan.sets.iter().enumerate() {
            let (name, quorum) = (name(index), self.plan.quorum);
            let ip = host(set[0]);
            writeln!(text, "sentinel monitor {name} {ip} 6379 {quorum}").unwrap();
            let (down, timeout) = (self.plan.down_after, self.plan.failover_timeout);
            writeln!(text, "sentinel down-after-milliseconds {name} {down}").unwrap();
            writeln!(text, "sentinel failover-timeout {name} {timeout}").unwrap();
        }
        self.guards.push(Guard {
            engine: None,
            disk: text.into_bytes(),
            is_disk_full: false,
            skew: self.random.below(10_000) as i64,
            stopped_until: 0,
            incarnation: 0,
            connections: BTreeMap::new(),
        });
        self.boot_guard(guard);
    }

    fn at(&mut self, delay: i64, happening: Happening) {
        self.next_happening += 1;
        self.queue.push(Due { at: self.now + delay, number: self.next_happening, happening });
    }

    pub(super) fn tell(&mut self, words: impl FnOnce() -> String) {
        if let Some(tale) = &mut self.tale {
            tale.push(format!("{:>8} {}", self.now - 1_000_000, words()));
        }
    }

    /// Lets all happen that is due by then.
    pub(super) fn run_until(&mut self, end: i64) {
        while self.queue.peek().is_some_and(|due| due.at <= end) {
            let Due { at, happening, .. } = self.queue.pop().expect("it was seen");
            self.now = self.now.max(at);
            self.happen(happening);
        }
        self.now = end;
    }

    fn happen(&mut self, happening: Happening) {
        if let Some(guard) = self.guard_of(&happening)
            && self.guards[guard].stopped_until > self.now
        {
            let delay = self.guards[guard].stopped_until - self.now;
            self.at(delay, happening);
            return;
        }
        match happening {
            Happening::Tick { guard, incarnation } => {
                if self.guards[guard].incarnation == incarnation {
                    self.handle(guard, Event::Tick);
                }
            }
            Happening::Opened { wire } => self.opened(wire),
            Happening::Lost { wire } => self.lost(wire),
            Happening::Arrives { wire, command } => self.arrives(wire, command),
            Happening::Returns { wire, value } => {
                let Wire { guard, connection, state, .. } = self.wires[wire];
                if state == WireState::Open {
                    self.handle(guard, Event::Received { connection, value });
                }
            }
            Happening::Boot { machine } => self.boot(machine),
            Happening::Heal => {
                self.tell(|| "the network heals".to_owned());
                self.groups.fill(0);
            }
            Happening::Replicate => self.replicate(),
        }
    }

    /// The Sentinel that a happening needs.
    fn guard_of(&self, happening: &Happening) -> Option<usize> {
        match happening {
            Happening::Tick { guard, .. } => Some(*guard),
            Happening::Opened { wire } | Happening::Lost { wire } => Some(self.wires[*wire].guard),
            Happening::Returns { wire, .. } => Some(self.wires[*wire].guard),
            Happening::Arrives { wire, .. } => self.wires[*wire].to.checked_sub(self.nodes.len()),
            _ => None,
        }
    }

    /// Tells a Sentinel what has happened and does what it wants.
    pub(super) fn handle(&mut self, guard: usize, event: Event) {
        let clock = self.now + self.guards[guard].skew;
        self.calls += 1;
        let Some(engine) = &mut self.guards[guard].engine else { return };
        let actions = engine.handle(clock, event);
        self.carry_out(guard, actions);
    }

    fn carry_out(&mut self, guard: usize, mut actions: Vec<Action>) {
        if matches!(actions.first(), Some(Action::Persist)) {
            let host = &mut self.guards[guard];
            let Some(engine) = &mut host.engine else { return };
            if host.is_disk_full {
                actions = engine.persist_failed(actions);
            } else {
                host.disk = engine.rewritten(&host.disk);
                self.checks.persisted(guard, engine);
            }
        }
        for action in actions {
            self.carry_out_one(guard, action);
        }
    }

    fn carry_out_one(&mut self, guard: usize, action: Action) {
        match action {
            Action::Persist => {}
            Action::Reply { client, bytes, .. } => self.answer_client(guard, client, &bytes),
            Action::Connect { connection, to, purpose } => {
                let to = machine(to.ip().to_string().as_bytes());
                self.connect(guard, connection, to, purpose);
            }
            Action::Close { connection } => {
                if let Some(wire) = self.guards[guard].connections.remove(&connection) {
                    self.wires[wire].state = WireState::Closed;
                }
            }
            Action::Send { connection, command, .. } => {
                if let Some(wire) = self.guards[guard].connections.get(&connection).copied() {
                    self.send(wire, command);
                }
            }
            Action::Notify(notice) => {
                self.tell(|| format!("s{guard} {} {}", notice.event, notice.text));
                let Some(engine) = &self.guards[guard].engine else { return };
                self.checks.notice(guard, engine, &notice, self.plan.quorum);
                if notice.event == "-failover-abort-no-good-slave" && self.is_barren(guard, &notice)
                {
                    self.barren_at = Some(self.now);
                }
            }
            Action::ScheduleTick { after } => {
                let incarnation = self.guards[guard].incarnation;
                self.at(after as i64, Happening::Tick { guard, incarnation });
            }
            Action::Log { .. } | Action::SetLogLevel(_) => {}
            Action::RunScript { .. } | Action::KillScript { .. } => {}
            Action::Resolve { .. } => panic!("there are no names here"),
            Action::Crash { .. } => self.crash_guard(guard),
        }
    }

    fn answer_client(&mut self, guard: usize, client: ClientId, bytes: &[u8]) {
        let disk = &self.guards[guard].disk;
        self.checks.reply(bytes, disk);
        if let Some(wire) = self.clients.remove(&client) {
            let mut parser = proto::value::ReplyParser::default();
            parser.feed(bytes);
            let value = parser.next_reply().unwrap().unwrap();
            self.send_back(wire, value);
        }
    }
}

impl World {
    fn reaches(&self, one: Machine, other: Machine) -> bool {
        self.groups[one] == self.groups[other]
    }

    fn is_alive(&self, machine: Machine) -> bool {
        match machine.checked_sub(self.nodes.len()) {
            None => self.nodes[machine].is_alive,
            Some(guard) => self.guards[guard].engine.is_some(),
        }
    }

    fn delay(&mut self) -> i64 {
        let is_slow = self.random.below(50) == 0;
        1 + self.random.below(if is_slow { 400 } else { 15 }) as i64
    }

    fn connect(&mut self, guard: usize, connection: ConnectionId, to: Machine, purpose: Purpose) {
        let incarnation = self.guards[guard].incarnation;
        let wire = self.wires.len();
        self.wires.push(Wire {
            guard,
            incarnation,
            connection,
            to,
            purpose,
            state: WireState::Opening,
            there_at: 0,
            back_at: 0,
            queue: None,
        });
        self.guards[guard].connections.insert(connection, wire);
        self.wires_to[to].push(wire);
        let here = self.nodes.len() + guard;
        let delay = self.delay();
        if !self.reaches(here, to) {
            // The attempt hangs for a while.
            let patience = self.random.below(8000) as i64;
            self.at(delay + patience, Happening::Lost { wire });
        } else if self.is_alive(to) {
            self.at(delay, Happening::Opened { wire });
        } else {
            self.at(delay, Happening::Lost { wire });
        }
    }

    fn opened(&mut self, wire: usize) {
        let Wire { guard, connection, to, state, .. } = self.wires[wire];
        if state != WireState::Opening {
            return;
        }
        if !self.is_alive(to) {
            self.lost(wire);
            return;
        }
        self.wires[wire].state = WireState::Open;
        let local = host(self.nodes.len() + guard).parse().unwrap();
        self.handle(guard, Event::Connected { connection, local });
    }

    fn lost(&mut self, wire: usize) {
        let Wire { guard, incarnation, connection, state, .. } = self.wires[wire];
        let is_current = self.guards[guard].incarnation == incarnation;
        if state == WireState::Closed || !is_current {
            return;
        }
        self.wires[wire].state = WireState::Closed;
        self.guards[guard].connections.remove(&connection);
        self.handle(guard, Event::Disconnected { connection });
    }

    fn send(&mut self, wire: usize, command: OwnedArgs) {
        let delay = self.delay();
        let here = self.nodes.len() + self.wires[wire].guard;
        let is_cut = !self.reaches(here, self.wires[wire].to);
        let it = &mut self.wires[wire];
        if is_cut && it.state == WireState::Open {
            it.state = WireState::Dead;
        }
        if it.state == WireState::Open {
            it.there_at = it.there_at.max(self.now + delay);
            let delay = it.there_at - self.now;
            self.at(delay, Happening::Arrives { wire, command });
        }
    }

    fn send_back(&mut self, wire: usize, value: Value) {
        let delay = self.delay();
        let here = self.nodes.len() + self.wires[wire].guard;
        let is_cut = !self.reaches(here, self.wires[wire].to);
        let it = &mut self.wires[wire];
        if is_cut && it.state == WireState::Open {
            it.state = WireState::Dead;
        }
        if it.state == WireState::Open {
            it.back_at = it.back_at.max(self.now + delay);
            let delay = it.back_at - self.now;
            self.at(delay, Happening::Returns { wire, value });
        }
    }

    fn arrives(&mut self, wire: usize, command: OwnedArgs) {
        let Wire { to, state, .. } = self.wires[wire];
        if state != WireState::Open || !self.is_alive(to) {
            return;
        }
        match to.checked_sub(self.nodes.len()) {
            None => self.serve(wire, to, command),
            Some(guard) => {
                let word = command.as_args()[0].to_ascii_uppercase();
                match word.as_slice() {
                    b"PING" => self.send_back(wire, Value::Simple(b"PONG".to_vec())),
                    b"SENTINEL" | b"PUBLISH" => {
                        self.next_client += 1;
                        let client = ClientId(self.next_client);
                        self.clients.insert(client, wire);
                        let resp = Resp::Two;
                        self.handle(guard, Event::Command { client, resp, args: command });
                    }
                    _ => self.send_back(wire, Value::Simple(b"OK".to_vec())),
                }
            }
        }
    }

    /// A server takes a command.
    fn serve(&mut self, wire: usize, at: Machine, command: OwnedArgs) {
        let word = command.as_args()[0].to_ascii_uppercase();
        let ok = || Value::Simple(b"OK".to_vec());
        let value = match word.as_slice() {
            b"MULTI" => {
                self.wires[wire].queue = Some(Vec::new());
                ok()
            }
            b"EXEC" => {
                let queue = self.wires[wire].queue.take().unwrap_or_default();
                let values = queue.iter().map(|command| self.execute(wire, at, command));
                Value::Array(values.collect())
            }
            _ => match &mut self.wires[wire].queue {
                Some(queue) => {
                    queue.push(command);
                    Value::Simple(b"QUEUED".to_vec())
                }
                None => self.execute(wire, at, &command),
            },
        };
        self.send_back(wire, value);
    }

    fn execute(&mut self, wire: usize, at: Machine, command: &OwnedArgs) -> Value {
        let args = command.as_args();
        let now = self.now;
        match args[0].to_ascii_uppercase().as_slice() {
            b"PING" => return Value::Simple(b"PONG".to_vec()),
            b"INFO" => {
                let replicas = self.replicas_of(at);
                return info(&self.nodes[at], &replicas, now);
            }
            b"PUBLISH" => {
                self.deliver(at, &args[1], &args[2]);
                return Value::Integer(1);
            }
            b"SLAVEOF" => {
                let is_primary = args[1].eq_ignore_ascii_case(b"NO");
                let role = match is_primary {
                    true => NodeRole::Primary,
                    false => NodeRole::ReplicaOf(machine(&args[1])),
                };
                self.tell(|| format!("n{at} is told {role:?}"));
                self.nodes[at].follow(role, now);
            }
            b"CONFIG" => self.nodes[at].written = self.nodes[at].role,
            b"FAILOVER" if args.len() > 2 => {
                let to = machine(&args[2]);
                if self.nodes[to].is_alive && self.nodes[to].is_link_up && self.reaches(at, to) {
                    self.nodes[to].follow(NodeRole::Primary, now);
                    self.nodes[at].follow(NodeRole::ReplicaOf(to), now);
                }
            }
            b"CLIENT" if args[1].eq_ignore_ascii_case(b"KILL") => {
                let is_messages = args[3].eq_ignore_ascii_case(b"pubsub");
                let purpose = if is_messages { Purpose::Messages } else { Purpose::Commands };
                self.kill(at, purpose, wire);
            }
            _ => {}
        }
        Value::Simple(b"OK".to_vec())
    }

    /// A published message goes to all subscribers, sometimes twice.
    fn deliver(&mut self, at: Machine, channel: &[u8], payload: &[u8]) {
        let message = [&b"message"[..], channel, payload];
        let value = Value::Array(message.map(|part| Value::Bulk(part.to_vec())).into());
        for wire in self.open_wires(at) {
            if self.wires[wire].purpose == Purpose::Messages {
                let times = if self.random.below(30) == 0 { 2 } else { 1 };
                (0..times).for_each(|_| self.send_back(wire, value.clone()));
            }
        }
    }

    fn kill(&mut self, at: Machine, purpose: Purpose, except: usize) {
        for wire in self.open_wires(at) {
            if self.wires[wire].purpose == purpose && wire != except {
                self.lose_soon(wire);
            }
        }
    }

    /// The open connections to a machine.
    fn open_wires(&mut self, to: Machine) -> Vec<usize> {
        let wires = &self.wires;
        self.wires_to[to].retain(|wire| wires[*wire].state != WireState::Closed);
        let all = self.wires_to[to].iter().copied();
        all.filter(|wire| wires[*wire].state == WireState::Open).collect()
    }

    fn lose_soon(&mut self, wire: usize) {
        let delay = self.delay();
        self.at(delay, Happening::Lost { wire });
    }

    fn replicas_of(&self, primary: Machine) -> Vec<Machine> {
        let is_replica = |machine: &Machine| {
            let node = &self.nodes[*machine];
            node.is_link_up && node.role == NodeRole::ReplicaOf(primary)
        };
        (0..self.nodes.len()).filter(is_replica).collect()
    }

    /// Writers write, replicas follow.
    fn replicate(&mut self) {
        for machine in 0..self.nodes.len() {
            let NodeRole::ReplicaOf(primary) = self.nodes[machine].role else {
                self.nodes[machine].offset += self.random.below(3);
                continue;
            };
            if !self.nodes[machine].is_alive {
                continue;
            }
            let up = self.nodes[primary].is_alive && self.reaches(machine, primary);
            let (offset, now) = (self.nodes[primary].offset, self.now);
            let node = &mut self.nodes[machine];
            if !up && node.is_link_up {
                node.link_down_since = now;
            }
            node.is_link_up = up;
            if up {
                node.offset = offset;
            }
        }
        self.at(200, Happening::Replicate);
    }
}
