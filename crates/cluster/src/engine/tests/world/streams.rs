//! The streams of replication of the machines.
//!
//! Invariant: a machine has the data of one shard, and its offset is of that shard's history.

use super::{Machine, SYNC_TIME, SyncState, World};
use crate::engine::{Cluster, Event, StreamPosition};

impl World {
    /// Writes go on at primaries that serve; replicas that reach their primary follow.
    pub(super) fn replicate(&mut self, machine: usize) {
        let Some(cluster) = &self.machines[machine].cluster else { return };
        let (mut silence, mut flows) = (None, true);
        let primary = cluster.my_primary();
        match primary {
            None => {
                if cluster.is_ok() && !self.machines[machine].is_paused {
                    self.machines[machine].offset += self.random.below(50);
                }
                self.machines[machine].sync = SyncState::Done;
            }
            Some(primary) => {
                let source = self.machines.iter().position(|it| it.id == primary);
                let source = source.filter(|source| {
                    let is_cut = self.cut.contains(&(*source, machine));
                    let it = &self.machines[*source];
                    !is_cut
                        && it.stopped_until <= self.now
                        && it.cluster.as_ref().is_some_and(Cluster::is_primary)
                });
                flows = source.is_some_and(|source| self.follow(machine, source));
                let it = &self.machines[machine];
                silence = (it.sync == SyncState::Done).then(|| self.now - it.heard);
            }
        }
        let Machine { offset, sync, .. } = self.machines[machine];
        let position = match sync {
            SyncState::Done if flows => StreamPosition::Flowing(offset),
            SyncState::Done => StreamPosition::Stopped(offset),
            SyncState::Asked | SyncState::Coming(_) => StreamPosition::Nowhere,
        };
        self.feed(machine, Event::ReplicationOffset { primary, position, silence });
    }

    /// A replica reaches its primary; whether the stream flows.
    fn follow(&mut self, machine: usize, source: usize) -> bool {
        let Machine { shard, offset, .. } = self.machines[source];
        let now = self.now;
        let it = &mut self.machines[machine];
        it.sync = match it.sync {
            SyncState::Asked if it.shard != shard => SyncState::Coming(now + SYNC_TIME),
            SyncState::Coming(until) if now < until => it.sync,
            _ => SyncState::Done,
        };
        if it.sync != SyncState::Done {
            return false;
        }
        (it.shard, it.offset, it.heard) = (shard, offset, now);
        true
    }
}
