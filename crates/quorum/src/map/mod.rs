//! What all nodes of the cluster agree on: nodes, shards, their members and primaries, slots.
//!
//! The map is the state machine of one replicated log. Invariants: each entry has the same effect
//! on each node; a refused entry changes nothing; a node is in one shard at most, a slot in one;
//! the members of a shard change by one node at a time; a term has one primary, which is a member.

mod codec;
mod entry;
mod records;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cluster::{NodeId, ShardId, Slot, SlotSet};

pub use self::entry::{MapEntry, MapRefusal};
use crate::position::{ShardVersion, Term};

/// The map.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterMap {
    nodes: BTreeMap<NodeId, NodeAddress>,
    shards: BTreeMap<ShardId, Shard>,
}

/// Where a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeAddress {
    /// Its address.
    pub ip: IpAddr,
    /// Its port for clients without TLS; 0 if there is none.
    pub tcp_port: u16,
    /// Its port for clients with TLS; 0 if there is none.
    pub tls_port: u16,
    /// Its port of the bus.
    pub bus_port: u16,
}

/// A shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shard {
    /// The nodes whose majority counts.
    pub members: BTreeSet<NodeId>,
    /// The nodes that follow and do not count yet.
    pub joining: BTreeSet<NodeId>,
    /// The term of the present primary.
    pub term: Term,
    /// The primary; none before the first term.
    pub primary: Option<NodeId>,
    /// Counts the changes of members, primary and slots.
    pub version: ShardVersion,
    /// The slots.
    pub slots: SlotSet,
}

impl Shard {
    /// How many members are a majority.
    pub fn majority(&self) -> usize {
        self.members.len() / 2 + 1
    }

    fn change(&mut self) {
        self.version.0 += 1;
    }
}

impl ClusterMap {
    /// The nodes.
    pub fn nodes(&self) -> &BTreeMap<NodeId, NodeAddress> {
        &self.nodes
    }

    /// The shards.
    pub fn shards(&self) -> &BTreeMap<ShardId, Shard> {
        &self.shards
    }

    /// The shard in which a node is a member or joins.
    pub fn shard_of(&self, node: NodeId) -> Option<(ShardId, &Shard)> {
        let has = |shard: &Shard| shard.members.contains(&node) || shard.joining.contains(&node);
        self.shards.iter().find(|(_, shard)| has(shard)).map(|(id, shard)| (*id, shard))
    }

    /// The shard of a slot.
    pub fn owner(&self, slot: Slot) -> Option<ShardId> {
        self.shards.iter().find(|(_, shard)| shard.slots.contains(slot)).map(|(id, _)| *id)
    }

    /// Takes the next entry of the log.
    pub fn apply(&mut self, entry: &MapEntry) -> Result<(), MapRefusal> {
        match entry {
            MapEntry::AddNode { node, address } => {
                self.nodes.insert(*node, *address);
                Ok(())
            }
            MapEntry::RemoveNode { node } => self.remove_node(*node),
            MapEntry::CreateShard { shard, founder } => self.create_shard(*shard, *founder),
            MapEntry::RemoveShard { shard, version } => self.remove_shard(*shard, *version),
            MapEntry::Join { shard, node } => self.join(*shard, *node),
            MapEntry::Leave { shard, node } => self.leave(*shard, *node),
            MapEntry::Admit { shard, node, version } => self.admit(*shard, *node, *version),
            MapEntry::Dismiss { shard, node, version } => self.dismiss(*shard, *node, *version),
            MapEntry::Elect { shard, primary, term, version } => {
                self.elect(*shard, *primary, *term, *version)
            }
            MapEntry::AssignSlots { shard, slots } => self.assign(*shard, slots),
            MapEntry::MoveSlots { slots, from, from_version, to, to_version } => {
                self.move_slots(slots, (*from, *from_version), (*to, *to_version))
            }
        }
    }

    fn remove_node(&mut self, node: NodeId) -> Result<(), MapRefusal> {
        if self.shard_of(node).is_some() {
            return Err(MapRefusal::NodeInShard);
        }
        self.nodes.remove(&node).map(|_| ()).ok_or(MapRefusal::UnknownNode)
    }

    fn create_shard(&mut self, id: ShardId, founder: NodeId) -> Result<(), MapRefusal> {
        self.check_free(founder)?;
        if self.shards.contains_key(&id) {
            return Err(MapRefusal::ShardExists);
        }
        let shard = Shard {
            members: BTreeSet::from([founder]),
            joining: BTreeSet::new(),
            term: Term(0),
            primary: None,
            version: ShardVersion(0),
            slots: SlotSet::empty(),
        };
        self.shards.insert(id, shard);
        Ok(())
    }

    fn remove_shard(&mut self, id: ShardId, version: ShardVersion) -> Result<(), MapRefusal> {
        if !self.shard_at(id, version)?.slots.is_empty() {
            return Err(MapRefusal::ShardHasSlots);
        }
        self.shards.remove(&id);
        Ok(())
    }

    fn join(&mut self, id: ShardId, node: NodeId) -> Result<(), MapRefusal> {
        self.check_free(node)?;
        self.shard(id)?.joining.insert(node);
        Ok(())
    }

    fn leave(&mut self, id: ShardId, node: NodeId) -> Result<(), MapRefusal> {
        let is_joining = self.shard(id)?.joining.remove(&node);
        if is_joining { Ok(()) } else { Err(MapRefusal::NotJoining) }
    }

    fn admit(&mut self, id: ShardId, node: NodeId, at: ShardVersion) -> Result<(), MapRefusal> {
        let shard = self.reigned_shard_at(id, at)?;
        if !shard.joining.remove(&node) {
            return Err(MapRefusal::NotJoining);
        }
        shard.members.insert(node);
        shard.change();
        Ok(())
    }

    fn dismiss(&mut self, id: ShardId, node: NodeId, at: ShardVersion) -> Result<(), MapRefusal> {
        let shard = self.reigned_shard_at(id, at)?;
        if shard.primary == Some(node) {
            return Err(MapRefusal::IsPrimary);
        }
        if !shard.members.remove(&node) {
            return Err(MapRefusal::NotMember);
        }
        shard.change();
        Ok(())
    }

    fn elect(
        &mut self,
        id: ShardId,
        primary: NodeId,
        term: Term,
        at: ShardVersion,
    ) -> Result<(), MapRefusal> {
        let shard = self.shard_at(id, at)?;
        if term <= shard.term {
            return Err(MapRefusal::OldTerm);
        }
        if !shard.members.contains(&primary) {
            return Err(MapRefusal::NotMember);
        }
        (shard.term, shard.primary) = (term, Some(primary));
        shard.change();
        Ok(())
    }

    fn assign(&mut self, id: ShardId, slots: &SlotSet) -> Result<(), MapRefusal> {
        if self.shards.values().any(|shard| !shard.slots.and(slots).is_empty()) {
            return Err(MapRefusal::SlotsTaken);
        }
        let shard = self.shard(id)?;
        shard.slots = shard.slots.or(slots);
        shard.change();
        Ok(())
    }

    fn move_slots(
        &mut self,
        slots: &SlotSet,
        from: (ShardId, ShardVersion),
        to: (ShardId, ShardVersion),
    ) -> Result<(), MapRefusal> {
        if from.0 == to.0 {
            return Err(MapRefusal::SameShard);
        }
        self.reigned_shard_at(to.0, to.1)?;
        let source = self.reigned_shard_at(from.0, from.1)?;
        if !slots.minus(&source.slots).is_empty() {
            return Err(MapRefusal::SlotsElsewhere);
        }
        source.slots = source.slots.minus(slots);
        source.change();
        let target = self.shard(to.0)?;
        target.slots = target.slots.or(slots);
        target.change();
        Ok(())
    }

    fn check_free(&self, node: NodeId) -> Result<(), MapRefusal> {
        if !self.nodes.contains_key(&node) {
            return Err(MapRefusal::UnknownNode);
        }
        match self.shard_of(node) {
            Some(_) => Err(MapRefusal::NodeInShard),
            None => Ok(()),
        }
    }

    fn shard(&mut self, id: ShardId) -> Result<&mut Shard, MapRefusal> {
        self.shards.get_mut(&id).ok_or(MapRefusal::UnknownShard)
    }

    fn shard_at(&mut self, id: ShardId, version: ShardVersion) -> Result<&mut Shard, MapRefusal> {
        let shard = self.shard(id)?;
        if shard.version == version { Ok(shard) } else { Err(MapRefusal::OldVersion) }
    }

    /// A shard that has a primary, as only that one asks for what changes.
    fn reigned_shard_at(
        &mut self,
        id: ShardId,
        version: ShardVersion,
    ) -> Result<&mut Shard, MapRefusal> {
        let shard = self.shard_at(id, version)?;
        if shard.primary.is_some() { Ok(shard) } else { Err(MapRefusal::NoPrimary) }
    }
}
