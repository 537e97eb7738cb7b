//! Whether it is known that what this node claims is its own still.
//!
//! What a claim is worth is the epoch under which it was made, and a node has one epoch for all its
//! claims: a new epoch makes them all newer, also those that others have had reason to overrule. A
//! target that stands still behind its claim has not heard that its source has taken the slots
//! back; a primary that was away has not heard that a replica is in its place. So claims are to be
//! confirmed before this node takes a new epoch without asking, and before it promises its slots
//! to others, who would claim them under a newer one.
//!
//! Fresh claims are confirmed by their source, which has answered what was sent behind them: a
//! source that has heard a claim takes nothing back. A majority of the primaries confirms them,
//! too, which is asked until it has answered twice: behind the first answer there is time for
//! whoever knows of a later claim to tell of it, by links of its own. A majority that knows the
//! claim is what a source would ask. Claims of a node that has begun, or stood still for so long
//! that others may have moved on, are confirmed by a majority alone.
//!
//! Invariant: an answer confirms only what was claimed, or doubted, before its question was sent.

use std::collections::BTreeMap;

use super::Cluster;
use super::event::Millis;
use super::slot_handover::{SETTLING, TICKS_BETWEEN_QUESTIONS};
use crate::id::NodeId;

/// A node has stood still if no tick has come for half of its timeout, and for that long. No
/// replica is elected in its place before: elections are put off for that long behind the whole
/// timeout.
const STANDSTILL_MIN: Millis = 500;

/// What is not known of this node's claims.
#[derive(Debug)]
pub(super) struct Confirmation {
    last_tick: Millis,
    /// Whether the node has begun or stood still.
    was_absent: bool,
    /// Whether no majority has answered for the time in which others elect a replica.
    was_cut_off: bool,
    /// By source, when slots were claimed first and last since the source has answered.
    fresh: BTreeMap<NodeId, FreshClaims>,
    inquiry: Option<MajorityPoll>,
}

/// A majority is asked.
#[derive(Clone, Copy, Debug)]
struct MajorityPoll {
    since: Millis,
    /// Since when it has answered.
    answered: Option<Millis>,
}

#[derive(Clone, Copy, Debug)]
struct FreshClaims {
    first: Millis,
    last: Millis,
}

impl Confirmation {
    pub(super) fn new(now: Millis) -> Confirmation {
        Confirmation {
            last_tick: now,
            was_absent: true,
            was_cut_off: false,
            fresh: BTreeMap::new(),
            // All links are new ones.
            inquiry: Some(MajorityPoll { since: now, answered: None }),
        }
    }

    /// Whether a majority has been out of reach, and has not answered since.
    pub(super) fn was_cut_off(&self) -> bool {
        self.was_cut_off
    }

    /// Slots of that node were claimed.
    pub(super) fn note_claim(&mut self, source: NodeId, now: Millis) {
        self.fresh.entry(source).or_insert(FreshClaims { first: now, last: now }).last = now;
    }

    /// All claims are given up.
    pub(super) fn forget_claims(&mut self) {
        self.fresh.clear();
    }
}

impl Cluster {
    /// Whether all that this node claims is known to be its own still.
    pub(super) fn is_confirmed(&self) -> bool {
        self.claims_are_known() && (self.has_no_rivals() || !self.has_stood_still())
    }

    /// Whether no replica can have been elected in the place of this node, as a majority has heard
    /// it of late, and has been heard since it was not.
    pub(super) fn is_connected(&self) -> bool {
        self.has_no_rivals() || (!self.confirmation.was_cut_off && self.hears_majority())
    }

    /// Whether all that this node claims was known to be its own at the last tick.
    pub(super) fn claims_are_known(&self) -> bool {
        let has_fresh = self.fresh_claims().next().is_some();
        self.has_no_rivals() || !(self.confirmation.was_absent || has_fresh)
    }

    /// Whether slots of that node may be claimed under an epoch that makes all claims here newer. A
    /// source that has granted several times takes nothing back under an epoch below any of these
    /// grants, and nothing at all within the time in which it waits for corrections.
    pub(super) fn may_renew_for(&self, source: NodeId) -> bool {
        let now = self.now();
        let is_safe = |(id, claims): (NodeId, FreshClaims)| {
            id == source && now.saturating_sub(claims.first) < SETTLING
        };
        let is_absent = self.confirmation.was_absent || self.has_stood_still();
        self.has_no_rivals()
            || (!is_absent && self.is_connected() && self.fresh_claims().all(is_safe))
    }

    /// Claims whose source has not answered since.
    fn fresh_claims(&self) -> impl Iterator<Item = (NodeId, FreshClaims)> {
        let has_answered = |id: NodeId, claims: FreshClaims| {
            let source = self.nodes.get(&id);
            source.is_some_and(|node| node.is_primary() && node.answered_ping >= claims.last)
        };
        let fresh = self.confirmation.fresh.iter().map(|(id, claims)| (*id, *claims));
        fresh.filter(move |(id, claims)| !has_answered(*id, *claims))
    }

    /// Whether there is nothing here to take, or nobody who could have taken it.
    fn has_no_rivals(&self) -> bool {
        let is_rival = |(id, node): (&NodeId, &super::Node)| *id != self.me && node.is_voting();
        self.my_slots().is_empty() || !self.nodes.iter().any(is_rival)
    }

    fn has_stood_still(&self) -> bool {
        let longest = (self.settings.node_timeout / 2).max(STANDSTILL_MIN);
        self.now().saturating_sub(self.confirmation.last_tick) > longest
    }

    /// A tick has come: notes whether others may have moved on since the last one, or do so now.
    pub(super) fn note_absence(&mut self) {
        let (has_stood_still, hears_majority) = (self.has_stood_still(), self.hears_majority());
        let confirmation = &mut self.confirmation;
        confirmation.was_absent |= has_stood_still;
        confirmation.was_cut_off |= !hears_majority;
        if has_stood_still || !hears_majority {
            confirmation.inquiry = None;
        }
        confirmation.last_tick = self.moment.now;
    }

    /// Whether those have answered of late that others would need to elect a replica.
    pub(super) fn hears_majority(&self) -> bool {
        let patience = self.settings.node_timeout.max(2 * self.settings.ping_interval);
        let before = self.now().saturating_sub(patience.max(STANDSTILL_MIN));
        self.is_majority(|node| node.pong_received >= before)
    }

    /// Asks for what is not known, and sees to the answers.
    pub(super) fn run_confirmation(&mut self) {
        let now = self.now();
        self.confirmation.fresh = self.fresh_claims().collect();
        if self.has_no_rivals() {
            // Nothing is to be asked, and no link is to be closed: a MEET may be on its way by one.
            let confirmation = &mut self.confirmation;
            (confirmation.was_absent, confirmation.was_cut_off) = (false, false);
            confirmation.inquiry = None;
            return;
        }
        let Confirmation { was_absent, was_cut_off, inquiry, .. } = self.confirmation;
        let is_late = |claims: &FreshClaims| now >= claims.first + SETTLING;
        if !was_absent && !was_cut_off && !self.confirmation.fresh.values().any(is_late) {
            self.confirmation.inquiry = None;
            return;
        }
        let Some(MajorityPoll { since, answered }) = inquiry else {
            if self.hears_majority() {
                // By a link that is dead at the other end no correction comes.
                self.confirmation.inquiry = Some(MajorityPoll { since: now, answered: None });
                self.drop_links();
            }
            return;
        };
        let has_answered = self.is_majority(|node| node.has_answered(since));
        let at = answered.unwrap_or(now);
        let settles =
            now >= at + SETTLING && self.is_majority(|node| node.has_answered(at + SETTLING / 2));
        if has_answered && settles {
            let confirmation = &mut self.confirmation;
            (confirmation.was_absent, confirmation.was_cut_off) = (false, false);
            confirmation.fresh.retain(|_, claims| claims.last >= since);
            confirmation.inquiry = None;
            return;
        }
        let answered = has_answered.then_some(at);
        self.confirmation.inquiry = Some(MajorityPoll { since, answered });
        if self.ticks.is_multiple_of(TICKS_BETWEEN_QUESTIONS) {
            self.others().into_iter().for_each(|id| self.ping(id));
        }
    }

    /// Whether this holds for a majority of the primaries, of which this one is none to be asked.
    fn is_majority(&self, holds: impl Fn(&super::Node) -> bool) -> bool {
        let (quorum, _) = self.quorum();
        let counts = |(id, node): &(&NodeId, &super::Node)| {
            node.is_voting() && (**id == self.me || holds(node))
        };
        self.nodes.iter().filter(counts).count() >= quorum
    }
}
