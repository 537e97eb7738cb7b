//! What the server is to do around a member: its file, its log, the map, replies that are held.

use cluster::{NodeId, ShardId};

use super::super::checks::Value;
use super::super::machine::{Outcome, Process, Record, Reply};
use super::{Happening, Queued, TICK, World};
use crate::coordinator::CoordinatorEvent;
use crate::member::{Action, Event};
use crate::message::Message;
use crate::position::Offset;

impl World {
    pub(super) fn start(&mut self, machine: usize) {
        if self.machines[machine].process.is_some() {
            return;
        }
        self.tell(|| format!("m{machine} starts"));
        self.leader.take_if(|leader| *leader == machine);
        let (settings, is_on_disk) = (self.plan.settings.clone(), self.plan.is_on_disk);
        let now = self.now;
        let actions = self.machines[machine].start(&settings, is_on_disk, now);
        self.carry_out(machine, actions);
        let applied = self.machines[machine].disk.applied;
        self.apply_until(machine, applied);
        self.at_self(machine, TICK, Happening::Tick);
    }

    pub(super) fn crash(&mut self, machine: usize) {
        let Some(process) = self.machines[machine].process.take() else { return };
        let synced = self.machines[machine].disk.log.len();
        let more = process.log.len().saturating_sub(synced) as u64;
        let kept = synced + self.random.below(more + 1) as usize;
        let applied = process.applied - self.random.below(process.applied as u64 + 1) as usize / 2;
        let disk = &mut self.machines[machine].disk;
        disk.log = process.log[..kept.min(process.log.len())].to_vec();
        disk.applied = applied.min(process.applied);
        let length = disk.log.len();
        self.tell(|| format!("m{machine} dies; of {} records {length} stay", process.log.len()));
        let most = [60, 3000][self.random.below(2) as usize];
        let pause = 5 + self.random.below(most);
        self.later(pause, Queued::Start(machine));
    }

    /// What comes to a machine from itself, if it lives so long.
    pub(super) fn at_self(&mut self, machine: usize, delay: u64, happening: Happening) {
        let life = self.machines[machine].life;
        self.later(delay, Queued::At(machine, Some(life), happening));
    }

    /// What one machine sends another.
    pub(super) fn send(&mut self, from: usize, to: usize, message: &Message) {
        let copies =
            if self.chance(self.loss) { 2 * usize::from(self.random.below(2) == 0) } else { 1 };
        for _ in 0..copies {
            if self.cut.contains(&(from, to)) {
                continue;
            }
            let delay = if from == to { 0 } else { self.latency() };
            let told = Happening::Told(self.machines[from].id, message.clone());
            self.later(delay, Queued::At(to, None, told));
        }
    }

    pub(super) fn process(&mut self, machine: usize) -> Option<&mut Process> {
        self.machines[machine].process.as_mut()
    }

    /// Gives a member an event, and does what it says.
    pub(super) fn member(&mut self, machine: usize, event: Event) {
        let clock = self.machines[machine].clock(self.now);
        if let Some(process) = self.process(machine) {
            let actions = process.member.handle(clock, event);
            self.carry_out(machine, actions);
        }
    }

    pub(super) fn coordinate(&mut self, machine: usize, event: CoordinatorEvent) {
        let clock = self.machines[machine].clock(self.now);
        if let Some(process) = self.process(machine) {
            let actions = process.coordinator.handle(clock, &process.map, event);
            self.carry_out(machine, actions);
        }
    }

    pub(super) fn told(&mut self, machine: usize, from: NodeId, message: Message) {
        let event = Event::Received { from, message: message.clone() };
        self.member(machine, event);
        self.coordinate(machine, CoordinatorEvent::Received { from, message });
    }

    pub(super) fn tick(&mut self, machine: usize) {
        self.at_self(machine, TICK, Happening::Tick);
        if self.reaches_majority(machine) && self.chance(800) {
            let behind = self.log.entries.len();
            let applied = self.process(machine).map_or(0, |process| process.applied);
            let until = applied + self.random.below((behind - applied) as u64 + 2) as usize;
            self.apply_until(machine, until.min(behind));
        }
        self.member(machine, Event::Tick);
        self.coordinate(machine, CoordinatorEvent::Tick);
        self.tick_streams(machine);
        let report = self.process(machine).and_then(|process| process.member.report());
        if let Some(report) = report.filter(|_| self.random.below(4) == 0) {
            // Any node may take itself for the leader.
            (0..self.plan.nodes).for_each(|other| self.send(machine, other, &report));
        }
    }

    pub(super) fn apply_until(&mut self, machine: usize, until: usize) {
        loop {
            let clock = self.machines[machine].clock(self.now);
            let Some(process) = self.machines[machine].process.as_mut() else { return };
            if process.applied >= until {
                return;
            }
            // What is refused is refused on all nodes alike.
            let _ = process.map.apply(&self.log.entries[process.applied]);
            process.applied += 1;
            let map = process.map.clone();
            let actions = process.member.take_map(clock, &map);
            self.carry_out(machine, actions);
        }
    }

    fn carry_out(&mut self, machine: usize, actions: Vec<Action>) {
        for (index, action) in actions.into_iter().enumerate() {
            let Some(process) = self.process(machine) else { return };
            if process.dies_after.is_some_and(|most| index >= most) {
                self.crash(machine);
                return;
            }
            match action {
                Action::Persist(state) => self.machines[machine].disk.state = state.to_text(),
                Action::Send { to, message } => {
                    let to = self.machine_of(to);
                    self.send(machine, to, &message);
                }
                Action::Propose(entry) => {
                    for _ in 0..1 + usize::from(self.chance(50)) {
                        let delay = 5 + self.latency();
                        if !self.chance(100) {
                            self.later(delay, Queued::Proposed(machine, entry.clone()));
                        }
                    }
                }
                Action::TakeStream { primary, term, generation } => {
                    self.take_stream(machine, primary, term, generation);
                }
                Action::CutStream => process.inbound = None,
                Action::Reign { term, start } => {
                    assert_eq!(start, process.log.len() as u64, "a reign begins at the log's end");
                    let values = process.values();
                    let node = self.machines[machine].id;
                    let shard = self.shard_of(machine);
                    self.tell(|| format!("m{machine} reigns in {term} from {start} on"));
                    self.checks.reigns(shard, term, node, &values);
                }
                Action::Abdicate => {
                    process.held.clear();
                    process.outbound.clear();
                    process.released = 0;
                    self.tell(|| format!("m{machine} abdicates"));
                }
                Action::Release { offset } => {
                    process.released = offset;
                    self.release(machine);
                }
            }
        }
    }

    /// A client's request comes.
    pub(super) fn serve(
        &mut self,
        machine: usize,
        client: usize,
        request: u64,
        key: u64,
        write: Option<Value>,
    ) {
        let clock = self.machines[machine].clock(self.now);
        let Some(process) = self.process(machine) else { return };
        let until = process.member.served_until();
        let reply = |outcome| Reply { client, request, outcome };
        if until.is_none_or(|until| clock >= until) {
            self.reply(reply(Outcome::Refused));
            return;
        }
        let Some(value) = write else {
            let (value, shows) = process.read(key);
            process.held.push((shows, reply(Outcome::Read(value))));
            self.release(machine);
            return;
        };
        process.log.push(Record { key, value });
        let end = process.log.len() as Offset;
        process.held.push((end, reply(Outcome::Written(value))));
        self.appended(machine);
        self.push_streams(machine);
    }

    /// Replies leave that show nothing but what is safe.
    fn release(&mut self, machine: usize) {
        let Some(process) = self.process(machine) else { return };
        let released = process.released;
        let (free, held): (Vec<_>, Vec<_>) =
            process.held.iter().partition(|(shows, _)| *shows <= released);
        process.held = held;
        let term = process.member.reigns();
        for (_, reply) in free {
            if let (Outcome::Written(value), Some(term)) = (reply.outcome, term) {
                let shard = self.shard_of(machine);
                self.checks.replies(shard, term, value);
            }
            self.reply(reply);
        }
    }

    /// The shard of a machine that is a primary, as it has it.
    fn shard_of(&self, machine: usize) -> ShardId {
        let machine = &self.machines[machine];
        let process = machine.process.as_ref();
        let shard = process.and_then(|process| process.map.shard_of(machine.id));
        shard.expect("a primary runs and has a shard").0
    }

    /// The log has grown: the member hears of that, and the disk begins.
    pub(super) fn appended(&mut self, machine: usize) {
        let Some(process) = self.process(machine) else { return };
        let end = process.log.len() as Offset;
        self.member(machine, Event::Appended { end });
        if self.plan.is_on_disk {
            self.sync(machine);
        } else {
            self.member(machine, Event::Durable { offset: end });
        }
    }

    fn sync(&mut self, machine: usize) {
        let delay = match (self.slow_disks, self.random.below(20)) {
            (true, _) | (_, 0) => self.random.below(400),
            _ => 1 + self.random.below(12),
        };
        let synced = self.machines[machine].disk.log.len();
        let generation = self.machines[machine].disk.generation;
        let Some(process) = self.process(machine) else { return };
        let length = process.log.len();
        if !process.is_syncing && length > synced {
            process.is_syncing = true;
            self.at_self(machine, delay, Happening::Synced { generation, length });
        }
    }

    pub(super) fn synced(&mut self, machine: usize, generation: u64, length: usize) {
        let Some(process) = self.process(machine) else { return };
        process.is_syncing = false;
        let log = process.log.clone();
        let disk = &mut self.machines[machine].disk;
        if disk.generation == generation {
            disk.log = log[..length].to_vec();
            self.member(machine, Event::Durable { offset: length as Offset });
        }
        self.sync(machine);
    }
}
