//! What befalls the machines of a history: deaths, partitions, clocks, losses, orders.
//!
//! Invariant: all of it can be mended, and is by `mend`.

use super::{LATENCY, World};
use crate::engine::{AdminCommand, FailoverMode, SetSlotAction};
use crate::slots::Slot;

impl World {
    pub(in super::super) fn disturb(&mut self) {
        let count = self.machines.len();
        let machine = self.random.below(count as u64) as usize;
        match self.random.below(if self.moves_slots { 23 } else { 17 }) {
            0..=2 => self.kill(machine),
            3..=5 => {
                for machine in 0..count {
                    if self.random.below(2) == 0 {
                        self.revive(machine);
                    }
                }
            }
            6 => self.partition(),
            7 => self.cut.clear(),
            8 => {
                let length = self.random.below(4000);
                self.tell(|| format!("m{machine} stands still for {length}"));
                self.machines[machine].stopped_until = self.now + length;
            }
            9 => self.machines[machine].skew += self.random.below(40_000) as i64 - 20_000,
            10 => self.machines[machine].dies_after = Some(self.random.below(6) as usize),
            11 => self.loss = self.random.below(8),
            13 => self.latency = [LATENCY, 100, 300][self.random.below(3) as usize],
            12 => {
                let other = self.random.below(count as u64) as usize;
                self.tell(|| format!("m{machine} does not reach m{other}"));
                self.cut.insert((machine, other));
            }
            14 => self.ask_to_take_over(machine, FailoverMode::Agreed),
            15 => self.ask_to_take_over(machine, FailoverMode::Force),
            16 => {
                for machine in 0..count {
                    self.ask_to_take_over(machine, FailoverMode::Force);
                }
            }
            _ => self.move_slot(machine),
        }
    }

    /// An operator asks for a failover; a primary refuses.
    fn ask_to_take_over(&mut self, machine: usize, forcing: FailoverMode) {
        let moment = self.moment(machine);
        let cluster = self.machines[machine].cluster.as_mut();
        if let Some(Ok(actions)) =
            cluster.map(|it| it.order(moment, &AdminCommand::Failover(forcing)))
        {
            self.tell(|| format!("m{machine} shall take over: {forcing:?}"));
            self.carry_out(machine, actions);
        }
    }

    /// An operator moves a slot to a machine as tools do, and may give up after any step.
    fn move_slot(&mut self, to: usize) {
        let slot = Slot::new(self.random.below(8) as u16).expect("a small number is a slot");
        let is_owner = |it: &super::Machine| {
            it.cluster.as_ref().is_some_and(|cluster| cluster.my_slots().contains(slot))
        };
        let Some(from) = self.machines.iter().position(is_owner) else { return };
        let (from_id, to_id) = (self.machines[from].id, self.machines[to].id);
        let steps = [
            (to, SetSlotAction::Importing(from_id)),
            (from, SetSlotAction::Migrating(to_id)),
            // The node that gets the slot is told first: else no node would claim it.
            (to, SetSlotAction::Node(to_id)),
            (from, SetSlotAction::Node(to_id)),
        ];
        let count = 1 + self.random.below(steps.len() as u64) as usize;
        self.tell(|| format!("m{from} gives slot {slot} to m{to}, {count} steps"));
        for (machine, change) in steps.into_iter().take(count) {
            if !self.set_slot(machine, slot, change) {
                return;
            }
            let pause = self.random.below(300);
            self.run_for(pause);
        }
    }

    fn set_slot(&mut self, machine: usize, slot: Slot, change: SetSlotAction) -> bool {
        let (moment, order) =
            (self.moment(machine), AdminCommand::SetSlot { slot, change, has_keys: false });
        let cluster = self.machines[machine].cluster.as_mut();
        let Some(Ok(actions)) = cluster.map(|it| it.order(moment, &order)) else { return false };
        self.carry_out(machine, actions);
        true
    }

    /// Moves that were given up are called off.
    fn close_slots(&mut self) {
        for machine in 0..self.machines.len() {
            let cluster = self.machines[machine].cluster.as_ref();
            let open: Vec<Slot> =
                cluster.into_iter().flat_map(|it| it.open_slots().map(|(slot, _)| slot)).collect();
            for slot in open {
                self.set_slot(machine, slot, SetSlotAction::Stable);
            }
        }
    }

    /// Gives an order to a machine that stands still until then, behind so many of the actions that
    /// follow, or behind all of them.
    pub(in super::super) fn order_and_stop(
        &mut self,
        machine: usize,
        order: &AdminCommand,
        actions: usize,
        until: u64,
    ) {
        self.machines[machine].stops_after = Some((actions, until));
        self.order(machine, order);
        self.machines[machine].stops_after = None;
        self.freeze(machine, until);
    }

    /// Whether a machine stands still before its next action.
    pub(super) fn stops(&mut self, machine: usize) -> bool {
        let it = &mut self.machines[machine];
        let Some((left, until)) = &mut it.stops_after else { return false };
        if *left == 0 {
            it.stopped_until = *until;
            it.stops_after = None;
            return true;
        }
        *left -= 1;
        false
    }

    /// A packet is under way for so long at most, if nothing special befalls it.
    pub(in super::super) fn slow_down(&mut self, latency: u64) {
        self.latency = latency;
    }

    /// What one machine sends does not come to the other.
    pub(in super::super) fn cut(&mut self, from: usize, to: usize) {
        self.cut.insert((from, to));
    }

    /// Cuts these machines off from all others, but not from each other.
    pub(in super::super) fn separate(&mut self, machines: &[usize]) {
        self.tell(|| format!("{machines:?} reach only each other"));
        for other in (0..self.count()).filter(|it| !machines.contains(it)) {
            self.cut.extend(machines.iter().flat_map(|it| [(*it, other), (other, *it)]));
        }
    }

    fn partition(&mut self) {
        let sides: Vec<bool> = self.machines.iter().map(|_| self.random.below(3) == 0).collect();
        self.tell(|| format!("partition {sides:?}"));
        for (one, side) in sides.iter().enumerate() {
            for (other, other_side) in sides.iter().enumerate() {
                if side != other_side {
                    self.cut.insert((one, other));
                }
            }
        }
    }

    pub(in super::super) fn mend(&mut self) {
        self.tell(|| "all is mended".to_owned());
        self.cut.clear();
        self.loss = 0;
        self.latency = LATENCY;
        for machine in 0..self.machines.len() {
            self.machines[machine].dies_after = None;
            self.machines[machine].stopped_until = 0;
            self.machines[machine].skew = 0;
            self.revive(machine);
        }
        self.close_slots();
    }
}
