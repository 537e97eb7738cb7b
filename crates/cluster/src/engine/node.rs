//! One node of the table: what it said of itself, and what was seen of it.
//!
//! Invariant: the node's slots are its own alone; a replica has none.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::event::{LinkId, Millis};
use crate::client_address::ClientAddress;
use crate::flags::NodeFlags;
use crate::id::{NodeId, ShardId};
use crate::slots::SlotSet;

/// Whether a node answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FailureState {
    Reachable,
    /// Suspected here.
    PFail,
    /// Down by the word of a majority, since then.
    Failed(Millis),
}

/// What a node is in its shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Primary,
    Replica(Option<NodeId>),
}

/// The link that was opened to a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutboundLink {
    pub(super) link: LinkId,
    pub(super) since: Millis,
    pub(super) is_connected: bool,
    /// How many pings have gone by the link, and how many answers have come.
    pings: u64,
    pongs: u64,
    /// Of the pings that are under way, which one, and when it was sent.
    awaited: Option<(u64, Millis)>,
}

impl OutboundLink {
    pub(super) fn new(link: LinkId, since: Millis, is_connected: bool) -> OutboundLink {
        OutboundLink { link, since, is_connected, pings: 0, pongs: 0, awaited: None }
    }

    /// A ping goes by the link.
    pub(super) fn count_ping(&mut self, now: Millis) {
        self.pings += 1;
        self.awaited.get_or_insert((self.pings, now));
    }

    /// A pong has come: when the ping was sent that is answered for sure, if another one is.
    fn count_pong(&mut self) -> Option<Millis> {
        self.pongs = self.pings.min(self.pongs + 1);
        let awaited = self.awaited.take_if(|(ping, _)| *ping <= self.pongs);
        awaited.map(|(_, sent)| sent)
    }
}

/// Where a node is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct NodeAddress {
    pub(super) ip: Option<IpAddr>,
    pub(super) port: u16,
    pub(super) secondary_port: u16,
    pub(super) bus_port: u16,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) place: NodeAddress,
    pub(super) hostname: Option<String>,
    pub(super) human_name: Option<String>,
    /// Where clients are to come.
    pub(super) client: ClientAddress,
    pub(super) shard: ShardId,
    pub(super) role: Role,
    pub(super) health: FailureState,
    pub(super) is_failover_off: bool,
    pub(super) supports_extensions: bool,
    /// Whether the node has sent extensions, and none that only Redis 8 has.
    pub(super) reads_client_address: bool,
    pub(super) config_epoch: u64,
    /// The greatest epoch that the node has seen, as it last said.
    pub(super) current_epoch: u64,
    pub(super) offset: u64,
    pub(super) slots: SlotSet,
    /// Slots of the node that it did not claim any more when it last spoke.
    pub(super) unclaimed: SlotSet,
    /// The epoch under which the node last claimed all its slots.
    pub(super) claimed_epoch: u64,
    /// Since when the node does not claim all its slots, if so, and has granted none of these.
    pub(super) unclaimed_since: Millis,
    pub(super) outbound: Option<OutboundLink>,
    pub(super) inbound: Option<LinkId>,
    /// Since when a ping is unanswered.
    pub(super) ping_sent: Option<Millis>,
    pub(super) pong_received: Millis,
    /// When the newest ping was sent of which it is sure that the node has answered it. A pong may
    /// be the answer to an earlier one than the last.
    pub(super) answered_ping: Millis,
    pub(super) last_received: Millis,
    /// The nodes that said that this one does not answer, and when.
    pub(super) reports: BTreeMap<NodeId, Millis>,
    /// Whether spare replicas of others may come to it: the node had some, or should have.
    pub(super) is_migrate_target: bool,
    /// Since when the node is a primary without a replica that works.
    pub(super) orphaned_since: Option<Millis>,
    /// When a replica of it was last given a vote here.
    pub(super) last_vote_time: Option<Millis>,
}

impl Node {
    /// A node of the file, of which nothing could be heard before.
    pub(super) fn begin(&mut self, now: Millis) {
        (self.pong_received, self.last_received, self.unclaimed_since) = (now, now, now);
    }

    pub(super) fn new(place: NodeAddress, shard: ShardId, role: Role) -> Node {
        Node {
            place,
            hostname: None,
            human_name: None,
            client: ClientAddress::default(),
            shard,
            role,
            health: FailureState::Reachable,
            is_failover_off: false,
            supports_extensions: false,
            reads_client_address: false,
            config_epoch: 0,
            current_epoch: 0,
            offset: 0,
            slots: SlotSet::empty(),
            unclaimed: SlotSet::empty(),
            claimed_epoch: 0,
            unclaimed_since: 0,
            outbound: None,
            inbound: None,
            ping_sent: None,
            pong_received: 0,
            answered_ping: 0,
            last_received: 0,
            reports: BTreeMap::new(),
            is_migrate_target: false,
            orphaned_since: None,
            last_vote_time: None,
        }
    }

    pub(super) fn is_primary(&self) -> bool {
        self.role == Role::Primary
    }

    /// Whether the node counts in majorities.
    pub(super) fn is_voting(&self) -> bool {
        self.is_primary() && !self.slots.is_empty()
    }

    /// The slots that a claim under this epoch takes. What the node does not claim goes to a claim
    /// that is older than the node's last one only where the node is there, and has said for that
    /// time that it claims no more and has granted nothing.
    pub(super) fn slots_open_to(&self, epoch: u64, time: Millis) -> SlotSet {
        if self.config_epoch < epoch {
            self.slots.clone()
        } else if self.claimed_epoch < epoch || self.gave_up(time) {
            self.unclaimed.clone()
        } else {
            SlotSet::empty()
        }
    }

    /// The slots that no claim takes under an epoch below that of the node.
    pub(super) fn firm_slots(&self, time: Millis) -> SlotSet {
        match self.claimed_epoch == self.config_epoch && !self.gave_up(time) {
            true => self.slots.clone(),
            false => self.slots.minus(&self.unclaimed),
        }
    }

    fn gave_up(&self, time: Millis) -> bool {
        // A node that is gone has not said for that time what it said last.
        let said_for = self.last_received.saturating_sub(self.unclaimed_since);
        self.health == FailureState::Reachable && said_for > time
    }

    /// The node has answered a ping.
    pub(super) fn count_pong(&mut self) {
        if let Some(sent) = self.outbound.as_mut().and_then(OutboundLink::count_pong) {
            self.answered_ping = sent;
        }
    }

    /// Whether the node has answered what was sent behind that moment, and can tell of claims by
    /// the link that it has opened.
    pub(super) fn has_answered(&self, after: Millis) -> bool {
        let is_connected = self.outbound.is_some_and(|outbound| outbound.is_connected);
        self.answered_ping > after && is_connected && self.inbound.is_some()
    }

    /// What the node has answered until now, or does to what is under way, counts no more.
    pub(super) fn await_answer(&mut self) {
        self.answered_ping = 0;
        if let Some(outbound) = &mut self.outbound {
            outbound.awaited = None;
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.health, FailureState::Failed(_))
    }

    pub(super) fn is_suspected(&self) -> bool {
        self.health == FailureState::PFail
    }

    pub(super) fn primary(&self) -> Option<NodeId> {
        match self.role {
            Role::Primary => None,
            Role::Replica(primary) => primary,
        }
    }

    /// The flags as others are told of them.
    pub(super) fn flags(&self) -> NodeFlags {
        let role = if self.is_primary() { NodeFlags::PRIMARY } else { NodeFlags::REPLICA };
        let health = match self.health {
            FailureState::Reachable => NodeFlags::default(),
            FailureState::PFail => NodeFlags::PFAIL,
            FailureState::Failed(_) => NodeFlags::FAIL,
        };
        let set = |is_set, flag| if is_set { flag } else { NodeFlags::default() };
        role.with(health)
            .with(set(self.is_failover_off, NodeFlags::NOFAILOVER))
            .with(set(self.supports_extensions, NodeFlags::EXTENSIONS))
            .with(set(self.place.ip.is_none(), NodeFlags::NOADDR))
    }
}
