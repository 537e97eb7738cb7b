//! What must hold at each moment of a history, and what must hold once all is well.

use super::World;
use crate::id::NodeId;
use crate::slots::SlotSet;

impl World {
    /// No two nodes own a slot under one epoch, unless more nodes have voted in it than there are
    /// shards: where a shard changes its primary in that moment, both the old and the new one may
    /// vote, as in all servers of this protocol. Such a collision must settle, like all else; so
    /// must that of a node to which a slot has come, which takes an epoch without asking.
    pub(super) fn check(&mut self, machine: usize) {
        if self.moves_slots {
            return;
        }
        let Some(cluster) = &self.machines[machine].cluster else { return };
        let slots = cluster.my_slots();
        if !cluster.is_primary() || slots.is_empty() {
            return;
        }
        let own = cluster.my_epoch();
        if self.votes.keys().filter(|(_, epoch)| *epoch == own).count() > self.shards {
            return;
        }
        let id = cluster.my_id();
        let mut found = Vec::new();
        for other in self.machines.iter().filter_map(|it| it.cluster.as_ref()) {
            if other.my_id() != id
                && other.is_primary()
                && other.my_epoch() == own
                && !other.my_slots().and(slots).is_empty()
            {
                found.push(format!("{id:?} and {:?} own slots under epoch {own}", other.my_id()));
            }
        }
        self.failures.extend(found);
    }

    /// A node that takes a shard's place has the shard's data.
    pub(super) fn check_data(&mut self, machine: usize) {
        let it = &self.machines[machine];
        if let Some(follows) = it.follows.filter(|follows| *follows != it.shard) {
            let shard = it.shard;
            let line = format!("m{machine} leads shard {follows} with the data of shard {shard}");
            self.failures.push(line);
        }
    }

    /// What is not as it should be when all is well.
    pub(in super::super) fn disagreement(&self) -> Option<String> {
        let mut told: Option<Vec<(NodeId, SlotSet)>> = None;
        for (index, machine) in self.machines.iter().enumerate() {
            let Some(cluster) = &machine.cluster else { return Some(format!("m{index} is down")) };
            if !cluster.is_ok() {
                return Some(format!("m{index} says fail"));
            }
            let owners = cluster.records().into_iter().filter(|node| !node.slots.is_empty());
            let mut owners: Vec<_> = owners.map(|node| (node.id, node.slots)).collect();
            owners.sort_by_key(|(id, _)| *id);
            match &told {
                Some(others) if *others != owners => {
                    return Some(format!("m{index} knows {owners:?}, others {others:?}"));
                }
                _ => told = Some(owners),
            }
            if cluster.is_primary() == cluster.my_slots().is_empty() {
                return Some(format!("m{index} is a primary without slots"));
            }
        }
        None
    }
}
