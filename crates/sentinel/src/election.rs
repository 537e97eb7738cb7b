//! Epochs, votes and elections.
//!
//! Invariants: a Sentinel gives at most one vote for each epoch and primary, and its configuration
//! is written before any other is told; a leader has more than half of all Sentinels that are known
//! here, and at least the quorum.

use std::collections::BTreeMap;

use crate::context::Context;
use crate::failover::{FailoverKind, Stage};
use crate::notice::Level;
use crate::primary::{Primary, PrimaryState};

/// A vote: for which Sentinel, and in which epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vote {
    pub(crate) leader: Option<String>,
    pub(crate) epoch: u64,
}

impl PrimaryState {
    /// Takes over an epoch that is higher than any known one.
    pub(crate) fn adopt_epoch(&self, context: &mut Context, epoch: u64) {
        if epoch > context.current_epoch {
            context.current_epoch = epoch;
            context.persist();
            self.warn(context, "+new-epoch", epoch.to_string());
        }
    }

    /// Votes for a candidate if there was no vote in its epoch yet: the vote that stands.
    pub(crate) fn vote(&mut self, context: &mut Context, epoch: u64, candidate: &str) -> Vote {
        self.adopt_epoch(context, epoch);
        if self.leader_epoch < epoch && context.current_epoch <= epoch {
            self.leader = Some(candidate.to_owned());
            self.leader_epoch = context.current_epoch;
            context.persist();
            self.warn(context, "+vote-for-leader", format!("{candidate} {epoch}"));
            if candidate != context.my_id {
                // The candidate of this vote gets its time.
                self.failover.started_at = Some(context.now + context.desync());
            }
        }
        Vote { leader: self.leader.clone(), epoch: self.leader_epoch }
    }
}

impl Primary {
    /// Counts the votes of an epoch, adds the own one, and names the leader, if there is one.
    pub(crate) fn elected(&mut self, context: &mut Context, epoch: u64) -> Option<String> {
        let mut votes: BTreeMap<String, usize> = BTreeMap::new();
        for peer in self.peers.values() {
            if let Some(leader) = peer.leader.as_ref().filter(|_| peer.leader_epoch == epoch) {
                *votes.entry(leader.clone()).or_default() += 1;
            }
        }
        let most = |votes: &BTreeMap<String, usize>| {
            let best = votes.iter().max_by_key(|(_, count)| **count);
            best.map(|(id, count)| (id.clone(), *count))
        };
        let candidate = most(&votes).map_or_else(|| context.my_id.clone(), |(id, _)| id);
        let own = self.head.vote(context, epoch, &candidate);
        if let Some(leader) = own.leader.filter(|_| own.epoch == epoch) {
            *votes.entry(leader).or_default() += 1;
        }
        let (winner, count) = most(&votes)?;
        (count >= self.majority() && count >= self.head.settings.quorum as usize).then_some(winner)
    }

    /// Begins a failover: a new epoch, in which this Sentinel is a candidate.
    pub(crate) fn start_failover(&mut self, context: &mut Context, kind: FailoverKind) {
        let now = context.now;
        context.current_epoch += 1;
        context.persist();
        let head = &mut self.head;
        head.failover.kind = kind;
        head.failover.epoch = context.current_epoch;
        head.failover.enter(Stage::WaitStart, now);
        head.failover.started_at = Some(now + context.desync());
        head.warn(context, "+new-epoch", context.current_epoch.to_string());
        let text = head.text(context);
        head.warn(context, "+try-failover", text);
    }

    /// Begins a failover if the primary is objectively down and it is not too soon.
    pub(crate) fn start_failover_if_needed(&mut self, context: &mut Context) -> bool {
        let head = &mut self.head;
        if !head.objective.is_down || head.failover.is_running() || !context.is_disk_trusted() {
            return false;
        }
        let pause = head.settings.failover_timeout * 2;
        if let Some(started) = head.failover.started_at
            && context.now - started < pause
        {
            if head.failover.delay_logged != Some(started) {
                head.failover.delay_logged = Some(started);
                let seconds = (started + pause - context.now + 999) / 1000;
                let text = format!("Next failover delay: none is started for {seconds} seconds");
                context.log(Level::Warning, text);
            }
            return false;
        }
        self.start_failover(context, FailoverKind::Automatic);
        true
    }
}
