//! The part of the log's leader: whether a shard's primary is gone, and who comes next.
//!
//! Nothing rests on there being one coordinator, or on what it remembers: a promise is a member's,
//! of a term and to everybody, and the map takes one election for each version of a shard.
//! Invariant: an election names the version by whose members the promises were counted, and the
//! member that has the most of a majority that has promised the term.

use std::collections::BTreeMap;

use cluster::{NodeId, ShardId};

use crate::map::{ClusterMap, MapEntry, Shard};
use crate::member::Action;
use crate::message::{Body, Message};
use crate::position::{Millis, Position, ShardVersion, Term};
use crate::settings::Settings;

/// The time of an election is doubled no more often.
const DOUBLINGS_MAX: u32 = 5;

/// An event, told by the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CoordinatorEvent {
    /// This node leads the log from now on.
    Led,
    /// Another node may lead it.
    Deposed,
    /// A message has come. Those for members are passed over.
    Received {
        /// From whom.
        from: NodeId,
        /// The message.
        message: Message,
    },
    /// Time has passed.
    Tick,
}

/// The coordinator of all shards; at rest while another node leads the log.
#[derive(Debug)]
pub struct Coordinator {
    settings: Settings,
    is_leading: bool,
    watches: BTreeMap<ShardId, Watch>,
}

/// What is known of a shard's primary.
#[derive(Debug)]
struct Watch {
    /// When the primary last said that all is well, or the shard last changed.
    well_at: Millis,
    version: ShardVersion,
    wants_election: bool,
    /// The latest term that was heard of.
    latest: Term,
    /// The elections since all was well: each has twice the time of the one before, so that a
    /// timeout that is too short for the network keeps no shard from being served.
    attempts: u32,
    election: Option<Election>,
}

/// An election under way.
#[derive(Debug)]
struct Election {
    term: Term,
    since: Millis,
    promises: BTreeMap<NodeId, Option<Position>>,
}

impl Coordinator {
    /// A coordinator at rest.
    pub fn new(settings: Settings) -> Coordinator {
        Coordinator { settings, is_leading: false, watches: BTreeMap::new() }
    }

    /// Takes one event.
    pub fn handle(
        &mut self,
        now: Millis,
        map: &ClusterMap,
        event: CoordinatorEvent,
    ) -> Vec<Action> {
        match event {
            CoordinatorEvent::Led => {
                self.is_leading = true;
                self.watches.clear();
            }
            CoordinatorEvent::Deposed => self.is_leading = false,
            CoordinatorEvent::Received { .. } | CoordinatorEvent::Tick => {}
        }
        if !self.is_leading {
            return Vec::new();
        }
        self.follow_map(now, map);
        let mut actions = Vec::new();
        match event {
            CoordinatorEvent::Received { from, message } => {
                self.received(now, map, from, &message, &mut actions);
            }
            CoordinatorEvent::Tick => {
                for (id, shard) in map.shards() {
                    self.tick_shard(now, *id, shard, &mut actions);
                }
            }
            CoordinatorEvent::Led | CoordinatorEvent::Deposed => {}
        }
        actions
    }

    /// What was counted by other members, or of another term, counts no more.
    fn follow_map(&mut self, now: Millis, map: &ClusterMap) {
        let settings = &self.settings;
        self.watches.retain(|id, _| map.shards().contains_key(id));
        for (id, shard) in map.shards() {
            let watch = self.watches.entry(*id).or_insert_with(|| Watch::new(now, shard));
            if watch.version != shard.version {
                let (latest, attempts) = (watch.latest.max(shard.term), watch.attempts);
                // Members that a new primary has not reached yet would promise the next term.
                let well_at = now + settings.lease;
                *watch = Watch { latest, attempts, well_at, ..Watch::new(now, shard) };
            }
        }
    }

    fn received(
        &mut self,
        now: Millis,
        map: &ClusterMap,
        from: NodeId,
        message: &Message,
        actions: &mut Vec<Action>,
    ) {
        let Some(shard) = map.shards().get(&message.shard) else { return };
        let Some(watch) = self.watches.get_mut(&message.shard) else { return };
        watch.latest = watch.latest.max(message.term);
        match message.body {
            Body::Report { holds_lease, wants_election } => {
                if shard.primary != Some(from) || shard.term != message.term {
                    return;
                }
                watch.wants_election = wants_election;
                if holds_lease && !wants_election {
                    (watch.well_at, watch.attempts, watch.election) = (now, 0, None);
                }
            }
            Body::Promise { version, position }
                if version == shard.version && shard.members.contains(&from) =>
            {
                let election = watch.election.as_mut().filter(|one| one.term == message.term);
                let Some(election) = election else { return };
                election.promises.insert(from, position);
                actions.extend(election.entry(message.shard, shard).map(Action::Propose));
            }
            _ => {}
        }
    }

    fn tick_shard(&mut self, now: Millis, id: ShardId, shard: &Shard, actions: &mut Vec<Action>) {
        let Some(watch) = self.watches.get_mut(&id) else { return };
        let timeout = watch.timeout(&self.settings);
        let is_due =
            shard.primary.is_none() || watch.wants_election || now >= watch.well_at + timeout;
        if !is_due {
            return;
        }
        // What was proposed has come to nothing; or a later term was promised, perhaps to another
        // coordinator, which is given time.
        let is_over = |one: &Election| {
            let is_complete = one.entry(id, shard).is_some();
            let patience = if is_complete { timeout + self.settings.lease } else { timeout };
            now >= one.since + if one.term < watch.latest { timeout / 4 } else { patience }
        };
        if watch.election.as_ref().is_none_or(is_over) {
            watch.latest = watch.latest.next();
            watch.attempts += 1;
            let election = Election { term: watch.latest, since: now, promises: BTreeMap::new() };
            watch.election = Some(election);
        }
        let Some(election) = &watch.election else { return };
        if let Some(entry) = election.entry(id, shard) {
            actions.push(Action::Propose(entry));
            return;
        }
        let missing = shard.members.iter().filter(|node| !election.promises.contains_key(node));
        actions.extend(missing.map(|node| {
            let body = Body::AskPromise { version: shard.version };
            let message = Message { shard: id, term: election.term, body };
            Action::Send { to: *node, message }
        }));
    }
}

impl Watch {
    fn new(now: Millis, shard: &Shard) -> Watch {
        Watch {
            well_at: now,
            version: shard.version,
            wants_election: false,
            latest: shard.term,
            attempts: 0,
            election: None,
        }
    }

    fn timeout(&self, settings: &Settings) -> Millis {
        settings.node_timeout << self.attempts.min(DOUBLINGS_MAX)
    }
}

impl Election {
    /// The election of a member, once a majority has promised whose logs are whole. Of members that
    /// have the same the present primary stays.
    fn entry(&self, id: ShardId, shard: &Shard) -> Option<MapEntry> {
        let whole: Vec<(Position, NodeId)> = self
            .promises
            .iter()
            .filter_map(|(node, position)| Some(((*position)?, *node)))
            .collect();
        if whole.len() < shard.majority() {
            return None;
        }
        let rank = |(position, node): &(Position, NodeId)| {
            (*position, shard.primary == Some(*node), *node)
        };
        let (_, primary) = whole.into_iter().max_by_key(rank)?;
        Some(MapEntry::Elect { shard: id, primary, term: self.term, version: shard.version })
    }
}
