//! A replica takes the place of its primary, by the votes of a majority of the primaries.
//!
//! Invariant: a primary gives one vote in an epoch, and tells of it only when it is on disk; a
//! replica is promoted in the epoch that the votes were given for.

use std::collections::BTreeSet;

use super::event::Millis;
use super::{Cluster, Save};
use crate::id::NodeId;
use crate::message::{Body, Header};

/// The wait before an election, so that FAIL is known everywhere; as much again by lot.
const DELAY: Millis = 500;
/// The wait for each replica that knows more.
const RANK_DELAY: Millis = 1000;
/// An election has at least so much time.
const TIMEOUT_MIN: Millis = 2000;

/// An election of this replica.
#[derive(Debug)]
pub(super) struct Election {
    /// The primary whose place is wanted.
    primary: NodeId,
    begins: Millis,
    rank: u64,
    /// The epoch that votes were asked for, once they were.
    epoch: Option<u64>,
    votes: BTreeSet<NodeId>,
    is_manual: bool,
}

impl Cluster {
    /// Schedules, begins and gives up elections.
    pub(super) fn run_election(&mut self) {
        let now = self.now();
        let timeout = (2 * self.settings.node_timeout).max(TIMEOUT_MIN);
        let is_manual = self.may_start_manual_election();
        let Some(primary) = self.failover_target(is_manual) else {
            self.election = None;
            return;
        };
        let is_other = |one: &Election| one.primary != primary || now > one.begins + timeout;
        if self.election.as_ref().is_some_and(is_other)
            && self.election.take().is_some_and(|one| one.epoch.is_some())
        {
            self.log("Currently unable to failover: Failover attempt expired.".to_owned());
        }
        if self.election.is_none() && (is_manual || now >= self.election_after) {
            self.schedule(primary, is_manual, 2 * timeout);
        }
        self.update_rank();
        let is_due = |one: &&mut Election| one.epoch.is_none() && now >= one.begins;
        if let Some(election) = self.election.as_mut().filter(is_due) {
            self.current_epoch += 1;
            election.epoch = Some(self.current_epoch);
            let is_manual = election.is_manual;
            self.save(Save::Synced);
            self.log(format!("Starting a failover election for epoch {}.", self.current_epoch));
            self.broadcast(&Body::AuthRequest, is_manual);
        }
    }

    /// The primary whose place this replica may take now.
    fn failover_target(&self, is_manual: bool) -> Option<NodeId> {
        let primary = self.own().primary()?;
        let node = self.nodes.get(&primary)?;
        let is_candidate = !self.settings.is_failover_off && self.is_data_valid();
        let may = is_manual || (node.has_failed() && is_candidate);
        (may && !node.slots.is_empty()).then_some(primary)
    }

    /// Whether what this replica has is its shard's, and not too old.
    fn is_data_valid(&self) -> bool {
        if self.has_foreign_data {
            return false;
        }
        let timeout = self.settings.node_timeout;
        let factor = self.settings.replica_validity_factor;
        let Some(silence) = self.silence else { return factor == 0 };
        let age = silence.saturating_sub(timeout);
        let most = timeout.saturating_mul(factor).saturating_add(self.settings.replica_ping_period);
        factor == 0 || age <= most
    }

    fn schedule(&mut self, primary: NodeId, is_manual: bool, retry: Millis) {
        let now = self.now();
        let rank = self.rank(primary);
        let delay =
            if is_manual { 0 } else { DELAY + self.random.below(DELAY) + rank * RANK_DELAY };
        let begins = now + delay;
        let votes = BTreeSet::new();
        self.election = Some(Election { primary, begins, rank, epoch: None, votes, is_manual });
        self.election_after = now + retry;
        let offset = self.own().offset;
        self.log(format!(
            "Start of election delayed for {delay} milliseconds (rank #{rank}, offset {offset})."
        ));
        if !is_manual {
            self.broadcast_pong();
        }
    }

    /// How many replicas of a primary have more of its stream.
    fn rank(&self, primary: NodeId) -> u64 {
        let own = self.own().offset;
        let siblings = self.nodes.values().filter(|node| node.primary() == Some(primary));
        siblings.filter(|node| node.offset > own && !node.is_failover_off).count() as u64
    }

    /// A replica that turns out to know less waits longer.
    fn update_rank(&mut self) {
        let Some(waiting) = self.election.as_ref().filter(|one| one.epoch.is_none()) else {
            return;
        };
        let (primary, old) = (waiting.primary, waiting.rank);
        let rank = self.rank(primary);
        if rank <= old || waiting.is_manual {
            return;
        }
        let added = (rank - old) * RANK_DELAY;
        if let Some(election) = &mut self.election {
            election.rank = rank;
            election.begins += added;
        }
        self.log(format!("Replica rank updated to #{rank}, added {added} milliseconds of delay."));
    }

    /// Forgets elections: the role of this node has changed.
    pub(super) fn forget_failover(&mut self) {
        self.election = None;
        self.end_manual();
    }

    /// A replica asks for the vote of this primary.
    pub(super) fn process_auth_request(&mut self, header: &Header) {
        let id = header.sender;
        if !self.own().is_voting() {
            return;
        }
        if let Some(reason) = self.auth_denial(header) {
            self.log(format!("Failover auth denied to {id} ({reason}"));
            self.correct(id, header);
            return;
        }
        let now = self.now();
        if let Some(node) = header.primary.and_then(|primary| self.nodes.get_mut(&primary)) {
            node.last_vote_time = Some(now);
        }
        self.last_vote_epoch = self.current_epoch;
        self.save(Save::Synced);
        self.log(format!("Failover auth granted to {id} for epoch {}", self.current_epoch));
        self.send_to(id, &Body::AuthAck, false);
    }

    /// Why a vote is not given.
    fn auth_denial(&self, header: &Header) -> Option<String> {
        let asked = header.current_epoch;
        if asked < self.current_epoch {
            return Some(format!("): reqEpoch ({asked}) < curEpoch({})", self.current_epoch));
        }
        if self.last_vote_epoch == self.current_epoch {
            return Some(format!("): already voted for epoch {}", self.current_epoch));
        }
        if super::is_primary_header(header) {
            return Some("): it is a master node".to_owned());
        }
        let Some(node) = header.primary.and_then(|primary| self.nodes.get(&primary)) else {
            return Some("): I don't know its master".to_owned());
        };
        if !node.has_failed() && !header.message.forces_ack {
            return Some("): its master is up".to_owned());
        }
        let pause = 2 * self.settings.node_timeout;
        let since = node.last_vote_time.map(|at| self.now().saturating_sub(at));
        if let Some(since) = since.filter(|since| *since < pause) {
            let rest = pause - since;
            return Some(format!("): can't vote about this master before {rest} milliseconds"));
        }
        let is_later = |node: &&super::Node| {
            node.config_epoch > header.config_epoch && !node.slots.and(&header.slots).is_empty()
        };
        let later = self.nodes.values().find(is_later)?;
        let slot = later.slots.and(&header.slots).iter().next()?;
        let (epoch, asked) = (later.config_epoch, header.config_epoch);
        Some(format!("): slot {slot} epoch ({epoch}) > reqEpoch ({asked})"))
    }

    /// A primary gives its vote.
    pub(super) fn process_auth_ack(&mut self, header: &Header) {
        let is_voting = self.nodes.get(&header.sender).is_some_and(super::Node::is_voting);
        let (quorum, _) = self.quorum();
        let Some(election) = &mut self.election else { return };
        let Some(epoch) = election.epoch.filter(|epoch| header.current_epoch >= *epoch) else {
            return;
        };
        if !is_voting {
            return;
        }
        election.votes.insert(header.sender);
        if election.votes.len() >= quorum {
            self.log("Failover election won: I'm the new master.".to_owned());
            self.log(format!("configEpoch set to {epoch} after successful failover"));
            self.own_mut().config_epoch = epoch;
            self.take_over();
        }
    }

    /// Takes the place and the slots of the primary, under this node's epoch.
    pub(super) fn take_over(&mut self) {
        let Some(primary) = self.own().primary() else { return };
        let Some(node) = self.nodes.get_mut(&primary) else { return };
        let slots = std::mem::replace(&mut node.slots, crate::slots::SlotSet::empty());
        node.unclaimed = crate::slots::SlotSet::empty();
        self.own_mut().slots = slots;
        self.become_primary();
        self.update_state();
        self.broadcast_pong();
    }
}
