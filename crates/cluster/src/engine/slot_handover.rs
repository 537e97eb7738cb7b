//! Slots that go over whole, with all their keys: the source grants, the target claims.
//!
//! A grant is a promise, which is on disk before the target hears of it: the target may claim the
//! slots for some time, under the epochs that the grant reserves. A source that does not hear of
//! the claim cannot know whether there is one. So the source asks all nodes, by headers that claim
//! all its slots under epoch 0, which no table gives way to and every other claim corrects. When
//! those have answered that speak for the cluster, the source claims the slots under an epoch that
//! is greater than the promised ones, and serves them again.
//!
//! Invariants: a source that has granted slots does not claim them while they may be claimed by the
//! target, and gives them to that node whatever the epochs are, as either may have taken another
//! one meanwhile; a target that has claimed slots does not give them back for what the source said
//! before its grant; nothing that was said before a question counts as its answer.

use std::collections::BTreeMap;

use super::admin_error::AdminError;
use super::event::{ClaimEpochs, Millis};
use super::node::Node;
use super::{Cluster, Save};
use crate::id::NodeId;
use crate::nodes_file::SlotGrant;
use crate::slots::SlotSet;

/// So many epochs are reserved for a claim: the target may have taken some that are not known here.
const EPOCHS_OF_GRANT: u64 = 16;

/// Each source reserves its own out of so many windows of epochs, by its place among the primaries.
/// So moves that begin at once, at sources that have not heard of each other, are seldom claimed
/// under one epoch. Nothing is built on that.
const WINDOWS: u64 = 32;

/// A window has room behind a grant for the epochs that follow it at its source: that of slots that
/// are taken back, and of elections.
const EPOCHS_OF_WINDOW: u64 = 2 * EPOCHS_OF_GRANT;

/// Nodes that know of a claim have so long to tell of it, behind their answers.
pub(super) const SETTLING: Millis = 1000;

/// Between two questions, in ticks: some fall into the time to settle.
pub(super) const TICKS_BETWEEN_QUESTIONS: u64 = 4;

/// What was agreed on and is not known to all yet.
#[derive(Default, Debug)]
pub(super) struct Handovers {
    granted: Vec<Grant>,
    /// Slots that this node has claimed, by those that granted them without naming epochs, and
    /// until when what these said before may still be under way.
    claimed: Vec<(NodeId, SlotSet, Millis)>,
    /// The greatest epoch that each source has reserved for claims of this node. A source reserves
    /// for one grant behind the other, and takes nothing back under any of these epochs.
    reserved: BTreeMap<NodeId, u64>,
}

/// Slots that another node may claim.
#[derive(Debug)]
struct Grant {
    target: NodeId,
    slots: SlotSet,
    epochs: ClaimEpochs,
    /// The end of the time in which the slots may be claimed.
    until: Millis,
    stage: GrantStage,
}

/// How far a grant is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GrantStage {
    /// A move holds the writers.
    Open,
    /// The move is over, or the node has begun anew; the target may still claim.
    Doubtful,
    /// Others are asked since then whether anybody has claimed, and as many of them as are needed
    /// have answered by then.
    Asking { since: Millis, answered: Option<Millis> },
}

impl Grant {
    /// What is to be in the file.
    fn record(&self) -> SlotGrant {
        SlotGrant {
            target: self.target,
            first_epoch: self.epochs.first,
            last_epoch: self.epochs.last,
            slots: self.slots.clone(),
        }
    }

    fn is_asking(&self) -> bool {
        matches!(self.stage, GrantStage::Asking { .. })
    }
}

impl Handovers {
    /// Slots that this node does not claim, as others may.
    pub(super) fn unclaimed(&self) -> SlotSet {
        all_of(self.granted.iter().filter(|grant| !grant.is_asking()))
    }

    /// The slots that a node may claim under this epoch, whatever that of this node is. Where the
    /// others are asked, whoever claims since the grant is right: the target may have given the
    /// slots on.
    pub(super) fn granted_to(&self, claimer: NodeId, epoch: u64) -> SlotSet {
        let is_fit = |grant: &&Grant| {
            epoch >= grant.epochs.first && (grant.target == claimer || grant.is_asking())
        };
        all_of(self.granted.iter().filter(is_fit))
    }

    /// Whether any slots are granted.
    pub(super) fn has_granted(&self) -> bool {
        !self.granted.is_empty()
    }

    /// All slots that are granted.
    pub(super) fn granted_slots(&self) -> SlotSet {
        all_of(self.granted.iter())
    }

    /// The least epoch that is reserved for a claim of one of these slots.
    pub(super) fn first_reserved(&self, slots: &SlotSet) -> Option<u64> {
        let granted = self.granted.iter().filter(|grant| !grant.slots.and(slots).is_empty());
        granted.map(|grant| grant.epochs.first).min()
    }

    /// Whether others are asked what became of a grant.
    pub(super) fn is_asking(&self) -> bool {
        self.granted.iter().any(Grant::is_asking)
    }

    /// What is to be in the file.
    pub(super) fn grants(&self) -> Vec<SlotGrant> {
        self.granted.iter().map(Grant::record).collect()
    }

    /// Slots of which a node's word does not count, as it granted them.
    pub(super) fn claimed_from(&self, source: NodeId, now: Millis) -> SlotSet {
        let of_source = self.claimed.iter().filter(|(id, _, until)| *id == source && now < *until);
        of_source.fold(SlotSet::empty(), |all, (_, slots, _)| all.or(slots))
    }

    /// A node claims these slots itself: what it granted of the rest is known to it.
    pub(super) fn settle_claims(&mut self, source: NodeId, claimed: &SlotSet, now: Millis) {
        self.claimed.retain(|(id, slots, until)| {
            now < *until && (*id != source || !slots.and(claimed).is_empty())
        });
    }

    /// Up to which epoch this source has reserved for this node.
    fn reserved_by(&self, source: NodeId) -> u64 {
        self.reserved.get(&source).copied().unwrap_or(0)
    }

    fn reserve(&mut self, source: NodeId, last: u64) {
        let reserved = self.reserved.entry(source).or_default();
        *reserved = last.max(*reserved);
    }

    /// Grants of these slots are over; whether there were any.
    fn drop_grants(&mut self, slots: &SlotSet) -> bool {
        let is_of_them = |grant: &Grant| !grant.slots.and(slots).is_empty();
        let found = self.granted.iter().any(is_of_them);
        self.granted.iter_mut().for_each(|grant| grant.slots = grant.slots.minus(slots));
        self.granted.retain(|grant| !grant.slots.is_empty());
        found
    }
}

fn all_of<'a>(grants: impl Iterator<Item = &'a Grant>) -> SlotSet {
    grants.fold(SlotSet::empty(), |all, grant| all.or(&grant.slots))
}

impl Cluster {
    /// Under which epochs slots may be claimed that are granted.
    pub fn granted_epochs(&self, slots: &SlotSet) -> Option<ClaimEpochs> {
        let mut granted = self.handovers.granted.iter();
        let found = granted.find(|grant| !grant.slots.and(slots).is_empty());
        found.map(|grant| grant.epochs)
    }

    /// Slots of this node that are not served until it is known whether they were claimed.
    pub fn held_slots(&self) -> SlotSet {
        let granted = self.handovers.granted.iter();
        all_of(granted.filter(|grant| grant.stage != GrantStage::Open)).and(self.my_slots())
    }

    /// Slots that are promised to another node are not disposed of.
    pub(super) fn check_not_granted(&self, slots: &SlotSet) -> Result<(), AdminError> {
        match self.granted_epochs(slots) {
            Some(_) => Err(AdminError::Granted),
            None => Ok(()),
        }
    }

    /// Takes what was granted before the node began anew.
    pub(super) fn load_grants(&mut self, grants: Vec<SlotGrant>) {
        let until = self.now().saturating_add(self.settings.manual_failover_timeout);
        let Some(own) = self.nodes.get(&self.me).map(|node| node.slots.clone()) else { return };
        for SlotGrant { target, first_epoch, last_epoch, slots } in grants {
            let slots = slots.and(&own);
            if slots.is_empty() {
                continue;
            }
            self.log(format!(
                "Slots were granted to {target}: they are served when it is known whether that \
                 node has claimed them"
            ));
            let epochs = ClaimEpochs { first: first_epoch, last: last_epoch };
            let grant = Grant { target, slots, epochs, until, stage: GrantStage::Doubtful };
            self.handovers.granted.push(grant);
        }
    }

    /// Grants of the file are waited for from now on.
    pub(super) fn restart_grants(&mut self) {
        let until = self.now().saturating_add(self.settings.manual_failover_timeout);
        self.handovers.granted.iter_mut().for_each(|grant| grant.until = until);
    }

    /// Lets another primary claim slots, whose writers are held.
    pub(super) fn grant(
        &mut self,
        slots: &SlotSet,
        to: NodeId,
        names_epochs: bool,
    ) -> Result<(), AdminError> {
        self.check_target(to, AdminError::UnknownNode(to))?;
        if !self.is_primary() {
            return Err(AdminError::OnlyPrimaries);
        }
        if let Some(slot) = slots.minus(self.my_slots()).iter().next() {
            return Err(AdminError::NotOwner(slot));
        }
        self.check_not_granted(slots)?;
        if !self.is_confirmed() || !self.is_connected() {
            // A claim of them would make an old claim of this node a new one.
            return Err(AdminError::Unconfirmed);
        }
        // A target that is told of none takes one above those that it knows. That is to be above
        // the epoch of this node, under which others know its claims.
        if !names_epochs && self.nodes[&to].current_epoch < self.my_epoch() {
            self.ping(to);
            return Err(AdminError::TargetIsBehind);
        }
        if self.my_epoch() == 0 {
            // Under no epoch a node only asks.
            self.bump_epoch();
        }
        let epochs = self.epochs_of_grant(names_epochs);
        if names_epochs {
            // No replica is elected under an epoch that the target may take without being asked.
            self.current_epoch = epochs.last;
        }
        let until = self.now().saturating_add(self.settings.manual_failover_timeout);
        let (slots, stage) = (slots.clone(), GrantStage::Open);
        self.handovers.granted.push(Grant { target: to, slots, epochs, until, stage });
        self.save(Save::Synced);
        self.broadcast_pong();
        Ok(())
    }

    /// A target that is told of no epochs takes any above those that it knows.
    fn epochs_of_grant(&self, names_epochs: bool) -> ClaimEpochs {
        if !names_epochs {
            let last = self.current_epoch + EPOCHS_OF_GRANT;
            return ClaimEpochs { first: self.my_epoch() + 1, last };
        }
        let before = self.nodes.range(..self.me).filter(|(_, node)| node.is_voting()).count();
        let window = before as u64 % WINDOWS;
        let known = self.current_epoch + window * EPOCHS_OF_WINDOW;
        ClaimEpochs { first: known + 1, last: known + EPOCHS_OF_GRANT }
    }

    /// Forgets a grant of which nobody was told.
    pub(super) fn revoke(&mut self, slots: &SlotSet) {
        if self.handovers.drop_grants(slots) {
            self.save(Save::Synced);
            self.broadcast_pong();
        }
    }

    /// The move of slots that were granted is over without a claim that was heard.
    pub(super) fn withdraw(&mut self, slots: &SlotSet) {
        for grant in &mut self.handovers.granted {
            if grant.stage == GrantStage::Open && !grant.slots.and(slots).is_empty() {
                grant.stage = GrantStage::Doubtful;
            }
        }
        self.generation += 1;
        self.run_grants();
    }

    /// Sees to grants of which it is not known what became of them.
    pub(super) fn run_grants(&mut self) {
        let now = self.now();
        // A question is no claim. So what this node has claimed of late is to be known to others
        // before it asks, and what it has lost meanwhile to this node before it claims anew.
        let may_claim = self.is_confirmed() && self.is_connected();
        let may_ask = self.claims_are_known();
        let mut granted = std::mem::take(&mut self.handovers.granted);
        let (mut begins, mut refuted) = (false, SlotSet::empty());
        let mut last = 0;
        for grant in &mut granted {
            match &mut grant.stage {
                GrantStage::Doubtful if may_ask && now >= grant.until => {
                    grant.stage = GrantStage::Asking { since: now, answered: None };
                    begins = true;
                }
                GrantStage::Asking { since, answered } => {
                    let is_answered = self.is_answered(grant.target, *since);
                    *answered = is_answered.then(|| answered.unwrap_or(now));
                    let settles = answered.is_some_and(|at| {
                        now >= at + SETTLING && self.is_answered(grant.target, at + SETTLING / 2)
                    });
                    if settles && may_claim {
                        refuted = refuted.or(&grant.slots);
                        last = last.max(grant.epochs.last);
                    }
                }
                GrantStage::Open | GrantStage::Doubtful => {}
            }
        }
        self.handovers.granted = granted;
        if !refuted.is_empty() {
            self.take_back(&refuted, last);
        }
        if begins {
            self.drop_links();
        } else if self.handovers.is_asking() && self.ticks.is_multiple_of(TICKS_BETWEEN_QUESTIONS) {
            self.others().into_iter().for_each(|id| self.ping(id));
        }
    }

    /// Whether the nodes have answered behind that moment that must know of a claim: the target
    /// itself, or a majority of those that would count if the target had claimed. Each of them can
    /// tell of a claim, by the link that it has opened.
    fn is_answered(&self, target: NodeId, after: Millis) -> bool {
        let is_target = |id: NodeId, node: &Node| id == target && node.is_primary();
        if self.nodes.get(&target).is_some_and(|node| node.is_primary() && node.has_answered(after))
        {
            return true;
        }
        let counts = |id: NodeId, node: &Node| node.is_voting() || is_target(id, node);
        let counted = self.nodes.iter().filter(|(id, node)| counts(**id, node));
        let (mut size, mut answered) = (0, 0);
        for (id, node) in counted {
            size += 1;
            answered += usize::from(*id == self.me || node.has_answered(after));
        }
        answered > size / 2
    }

    /// Claims slots again that were granted and not taken, under an epoch above the promised ones:
    /// a claim that comes to light later is less than that.
    fn take_back(&mut self, slots: &SlotSet, last: u64) {
        self.handovers.drop_grants(slots);
        self.current_epoch = self.current_epoch.max(last) + 1;
        self.own_mut().config_epoch = self.current_epoch;
        self.save(Save::Synced);
        let epoch = self.current_epoch;
        self.log(format!("Slots that were granted were not claimed; configEpoch set to {epoch}"));
        self.broadcast_pong();
    }

    /// Grants end with the claim of their target, and with the loss of their slots.
    pub(super) fn settle_grants(&mut self, taken: &SlotSet, lost: &SlotSet) {
        if self.handovers.drop_grants(&taken.or(lost)) {
            self.save(Save::Synced);
        }
    }

    /// Takes slots that another primary gives, under an epoch above all that were seen, or under
    /// one that was reserved for that.
    pub(super) fn claim(
        &mut self,
        slots: &SlotSet,
        from: NodeId,
        epochs: Option<ClaimEpochs>,
    ) -> Result<(), AdminError> {
        if !self.is_primary() {
            return Err(AdminError::OnlyPrimaries);
        }
        let source = self.nodes.get(&from).ok_or(AdminError::UnknownNode(from))?;
        if let Some(slot) = slots.minus(&source.slots).iter().next() {
            return Err(AdminError::GivenByAnother(slot));
        }
        let own_epoch = self.own().config_epoch;
        let epoch = match epochs {
            None => self.current_epoch + 1,
            Some(ClaimEpochs { first, last }) => match first.max(own_epoch + 1) {
                epoch if epoch <= last => epoch,
                // Claims of several grants come in any order: this node's epoch is of another. What
                // its source has seen it takes nothing back under.
                _ => own_epoch,
            },
        };
        let seen = self.handovers.reserved_by(from).max(source.current_epoch);
        let is_below = epochs.is_none() || epoch > own_epoch || own_epoch <= seen;
        if !is_below {
            self.ping(from);
        }
        // A node that asks claims nothing, and neither does one that others may have replaced, or
        // whose source may be.
        let is_told = is_below && !self.handovers.is_asking() && self.hears_majority();
        if !is_told || (epoch > own_epoch && !self.may_renew_for(from)) {
            return Err(AdminError::Unconfirmed);
        }
        if let Some(ClaimEpochs { last, .. }) = epochs {
            self.handovers.reserve(from, last);
        }
        self.mark_migrate_target(self.me);
        let now = self.now();
        let source = self.nodes.get_mut(&from).expect("the node was just read");
        source.await_answer();
        source.slots = source.slots.minus(slots);
        source.unclaimed = source.unclaimed.minus(slots);
        let own = self.own_mut();
        own.slots = own.slots.or(slots);
        own.config_epoch = epoch;
        self.current_epoch = self.current_epoch.max(epoch);
        self.confirmation.note_claim(from, now);
        if epochs.is_none() {
            let until = now + self.settings.node_timeout;
            self.handovers.claimed.push((from, slots.clone(), until));
        }
        self.close_lost_slots();
        self.save(Save::Synced);
        self.log(format!("Slots of node {from} have come; configEpoch {epoch}"));
        self.broadcast_pong();
        // The answer says that the source has heard it.
        self.ping(from);
        Ok(())
    }
}
