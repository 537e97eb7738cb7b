//! What befalls machines and the network.

use super::World;
use crate::map::MapEntry;
use crate::member::Event;

impl World {
    /// One thing goes wrong, or an operator does something.
    pub(in super::super) fn disturb(&mut self) {
        let machine = self.random.below(self.plan.nodes as u64) as usize;
        match self.random.below(20) {
            0..=4 => self.partition(),
            5..=8 => self.crash(machine),
            9 | 10 => {
                let most = self.random.below(4) as usize;
                self.tell(|| format!("m{machine} dies in the middle of a list"));
                if let Some(process) = self.process(machine) {
                    process.dies_after = Some(most);
                }
            }
            11..=13 => {
                let until = self.now + self.random.below(3000);
                self.tell(|| format!("m{machine} stands still until {until}"));
                self.machines[machine].stopped_until = until;
            }
            14 => self.loss = [0, 10, 100, 300][self.random.below(4) as usize],
            15 => self.slow_disks = !self.slow_disks,
            16 => self.member(machine, Event::StepDown),
            17 => {
                let node = self.machines[self.random.below(self.plan.nodes as u64) as usize].id;
                self.tell(|| format!("m{machine} shall dismiss {node:?}"));
                self.member(machine, Event::Dismiss { node });
            }
            18 => self.join_somewhere(machine),
            _ => {
                self.tell(|| "all reach each other".to_owned());
                self.cut.clear();
            }
        }
    }

    fn partition(&mut self) {
        let sides: Vec<bool> = (0..self.plan.nodes).map(|_| self.random.below(2) == 0).collect();
        let is_one_way = self.random.below(4) == 0;
        self.tell(|| format!("a partition, one way {is_one_way}: {sides:?}"));
        self.cut.clear();
        for one in 0..self.plan.nodes {
            for other in 0..self.plan.nodes {
                if sides[one] != sides[other] && (sides[one] || !is_one_way) {
                    self.cut.insert((one, other));
                }
            }
        }
    }

    /// An operator has a node that is in no shard follow one.
    fn join_somewhere(&mut self, machine: usize) {
        let node = self.machines[machine].id;
        if self.map.shard_of(node).is_none() && self.reaches_majority(machine) {
            let shard = self.shards[self.random.below(self.plan.shards as u64) as usize];
            self.commit(MapEntry::Join { shard, node });
        }
    }

    /// All is well from now on.
    pub(in super::super) fn mend(&mut self) {
        self.tell(|| "all is well".to_owned());
        self.cut.clear();
        (self.loss, self.slow_disks) = (0, false);
        for machine in 0..self.plan.nodes {
            self.machines[machine].stopped_until = 0;
            if let Some(process) = self.process(machine) {
                process.dies_after = None;
            }
            self.start(machine);
        }
    }
}
