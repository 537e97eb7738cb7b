//! What befalls the simulated world: orders, crashes, partitions, broken wires, and their end.
//!
//! Invariant: each is drawn from the history's own dice.

use std::collections::BTreeSet;

use base::Random;
use proto::Resp;

use super::super::node::{Machine, NodeRole, machine};
use super::{Guard, Happening, WireState, World, name};
use crate::event::{ClientId, Event};
use crate::notice::{Level, Notice};
use crate::primary::Replica;
use crate::{Options, Sentinel};

/// Disturbances.
impl World {
    pub(super) fn boot_guard(&mut self, guard: usize) {
        let is_executable = Box::new(|_: &str| true);
        let log_level = Level::Notice;
        let options = Options { port: 26379, requirepass: None, log_level, is_executable };
        let random = Random::from_seed(self.random.next_u64());
        let host = &mut self.guards[guard];
        let now = self.now + host.skew;
        let (engine, actions) = Sentinel::start(options, &host.disk, now, random).unwrap();
        host.incarnation += 1;
        host.engine = Some(engine);
        self.tell(|| format!("s{guard} boots"));
        self.carry_out(guard, actions);
        for (period, value) in self.plan.periods {
            let words = [&b"SENTINEL"[..], b"DEBUG", period.as_bytes(), value.as_bytes()];
            self.order(guard, &words);
        }
        assert_eq!(self.rewritten(guard), self.guards[guard].disk, "what is read is written");
    }

    pub(super) fn rewritten(&self, guard: usize) -> Vec<u8> {
        let host = &self.guards[guard];
        host.engine.as_ref().map_or_else(|| host.disk.clone(), |it| it.rewritten(&host.disk))
    }

    /// A command of an operator.
    pub(in super::super) fn order(&mut self, guard: usize, words: &[&[u8]]) {
        self.next_client += 1;
        let (client, resp) = (ClientId(self.next_client), Resp::Two);
        let args = words.iter().copied().collect();
        self.handle(guard, Event::Command { client, resp, args });
    }

    pub(in super::super) fn crash_guard(&mut self, guard: usize) {
        if self.guards[guard].engine.take().is_none() {
            return;
        }
        self.tell(|| format!("s{guard} crashes"));
        self.guards[guard].incarnation += 1;
        let open = std::mem::take(&mut self.guards[guard].connections);
        open.into_values().for_each(|wire| self.wires[wire].state = WireState::Closed);
        self.drop_wires_to(self.nodes.len() + guard);
        let delay = 200 + self.random.below(8000) as i64;
        self.at(delay, Happening::Boot { machine: self.nodes.len() + guard });
    }

    pub(in super::super) fn crash_node(&mut self, machine: Machine) {
        if !self.nodes[machine].is_alive {
            return;
        }
        self.tell(|| format!("n{machine} crashes"));
        self.nodes[machine].crash();
        self.drop_wires_to(machine);
        let delay = 200 + self.random.below(12_000) as i64;
        self.at(delay, Happening::Boot { machine });
    }

    /// The peers of a machine that is gone hear of it, or not.
    pub(super) fn drop_wires_to(&mut self, machine: Machine) {
        for wire in self.open_wires(machine) {
            match self.random.below(3) {
                0 => self.wires[wire].state = WireState::Dead,
                _ => self.lose_soon(wire),
            }
        }
    }

    pub(super) fn boot(&mut self, machine: Machine) {
        if self.gone.contains(&machine) {
            return;
        }
        match machine.checked_sub(self.nodes.len()) {
            Some(guard) if self.guards[guard].engine.is_none() => self.boot_guard(guard),
            None if !self.nodes[machine].is_alive => {
                self.tell(|| format!("n{machine} boots"));
                let now = self.now;
                self.nodes[machine].boot(now, &mut self.random);
            }
            _ => {}
        }
    }

    pub(in super::super) fn partition(&mut self) {
        for machine in 0..self.groups.len() {
            self.groups[machine] = self.random.below(2) as u8;
        }
        let groups = self.groups.clone();
        self.tell(|| format!("the network parts: {groups:?}"));
        let delay = 500 + self.random.below(10_000) as i64;
        self.at(delay, Happening::Heal);
    }

    /// One connection breaks, loudly or not.
    pub(in super::super) fn break_wire(&mut self) {
        let open: Vec<usize> = (0..self.wires.len())
            .filter(|wire| self.wires[*wire].state == WireState::Open)
            .collect();
        if open.is_empty() {
            return;
        }
        let wire = open[self.random.below(open.len() as u64) as usize];
        match self.random.below(2) {
            0 => self.wires[wire].state = WireState::Dead,
            _ => self.lose_soon(wire),
        }
    }

    /// All is mended but for what never comes back: sometimes a server, sometimes a Sentinel.
    pub(in super::super) fn mend(&mut self) {
        self.groups.fill(0);
        for guard in 0..self.guards.len() {
            self.guards[guard].is_disk_full = false;
            self.guards[guard].stopped_until = 0;
        }
        for index in 0..self.plan.sets.len() {
            let size = self.plan.sets[index].len() as u64;
            if size > 2 && self.random.below(3) == 0 {
                let machine = self.plan.sets[index][self.random.below(size) as usize];
                self.crash_node(machine);
                self.gone.insert(machine);
            }
        }
        let others = self.guards.len() - 1;
        if others > self.guards.len() / 2 && self.plan.quorum <= others && self.random.below(3) == 0
        {
            let guard = self.random.below(self.guards.len() as u64) as usize;
            self.crash_guard(guard);
            self.gone.insert(self.nodes.len() + guard);
        }
        let gone = self.gone.clone();
        self.tell(|| format!("all is mended but {gone:?}"));
        (0..self.nodes.len() + self.guards.len()).for_each(|machine| self.boot(machine));
    }

    /// Whether the rules themselves leave nothing to promote: what is left has been without a
    /// primary for too long.
    pub(in super::super) fn is_hopeless(&self) -> bool {
        let is_stale = |guard: &Guard, set: usize| {
            let Some(engine) = &guard.engine else { return true };
            let (primary, now) = (&engine.primaries[&name(set)], engine.context.now);
            let head = &primary.head;
            let since = head.instance.subjective.since.filter(|_| head.instance.is_down());
            let limit = since.map_or(0, |since| now - since) + head.settings.down_after * 10;
            let address = |replica: &Replica| machine(replica.instance.address.host.as_bytes());
            since.is_some()
                && primary.replicas.values().all(|replica| {
                    self.gone.contains(&address(replica)) || replica.link_down > limit
                })
        };
        (0..self.plan.sets.len()).any(|set| self.guards.iter().all(|guard| is_stale(guard, set)))
    }

    /// Whether the rules, and not a fault, left a leader nothing to promote: by the nodes' own
    /// clocks each replica has been without a primary for too long, but for what INFO leaves out.
    /// That tells whole seconds, and is up to two of them old.
    pub(super) fn is_barren(&self, guard: usize, notice: &Notice) -> bool {
        const UNSEEN: i64 = 3000;
        let Some(engine) = &self.guards[guard].engine else { return false };
        let name = notice.text.split(' ').nth(1).expect("an event names its primary");
        let head = &engine.primaries[name].head;
        let Some(since) = head.instance.subjective.since.filter(|_| head.instance.is_down()) else {
            return false;
        };
        let limit = engine.context.now - since + head.settings.down_after * 10;
        let primary = machine(head.instance.address.host.as_bytes());
        let set = self.plan.sets.iter().find(|set| set.contains(&primary)).expect("it is of one");
        set.iter().filter(|it| **it != primary && !self.gone.contains(it)).all(|replica| {
            let node = &self.nodes[*replica];
            !node.is_link_up && self.now - node.link_down_since + UNSEEN > limit
        })
    }

    /// Whether all Sentinels agree on one primary of each set, which is one, and which all the
    /// others follow.
    pub(in super::super) fn disagreement(&self) -> Option<String> {
        for (index, set) in self.plan.sets.iter().enumerate() {
            let alive = set.iter().copied().filter(|machine| !self.gone.contains(machine));
            let alive: Vec<Machine> = alive.collect();
            let primaries: BTreeSet<Machine> = alive
                .iter()
                .copied()
                .filter(|machine| self.nodes[*machine].role == NodeRole::Primary)
                .collect();
            if primaries.len() != 1 {
                return Some(format!("primaries of {index}: {primaries:?}"));
            }
            let primary = *primaries.first().unwrap();
            for replica in alive.iter().filter(|machine| **machine != primary) {
                let node = &self.nodes[*replica];
                if node.role != NodeRole::ReplicaOf(primary) || !node.is_link_up {
                    return Some(format!("n{replica} is {:?}", node.role));
                }
            }
            for (guard, host) in self.guards.iter().enumerate() {
                if self.gone.contains(&(self.nodes.len() + guard)) {
                    continue;
                }
                let Some(engine) = &host.engine else { return Some(format!("s{guard} is away")) };
                let watched = &engine.primaries[&name(index)];
                let address = &watched.head.instance.address;
                if machine(address.host.as_bytes()) != primary {
                    return Some(format!("s{guard} watches {address:?}, not n{primary}"));
                }
                let is_well = !watched.head.instance.is_down()
                    && !watched.head.failover.is_running()
                    && watched.replicas.len() + 1 == set.len()
                    && watched.peers.len() + 1 == self.guards.len();
                if !is_well {
                    return Some(format!("s{guard} is not at ease about {index}"));
                }
            }
        }
        None
    }
}
