//! The leader's care for who votes: members that have all of the log become voters, up to seven of
//! them, and a change that an earlier leader has begun is brought to its end.
//!
//! Invariant: one change of members at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openraft::{ChangeMembers, EmptyNode, Raft, RaftMetrics};
use tokio::sync::Mutex;

use crate::types::{MapRaft, PeerId};

/// More voters are slower and no safer.
pub(crate) const VOTERS_MAX: usize = 7;

/// A member that lacks no more of the log than that has it as good as all.
const LAG_MAX: u64 = 64;

/// Looks after the voters for as long as the engine is there. `changing` is held for each change.
pub(crate) async fn keep_voters(
    raft: Raft<MapRaft>,
    changing: Arc<Mutex<()>>,
    pause: Duration,
    patience: Duration,
) {
    let mut metrics = raft.metrics();
    loop {
        let is_due = next_change(&metrics.borrow_and_update()).is_some();
        if is_due {
            let _turn = changing.lock().await;
            // What was changed meanwhile is seen here, and only here.
            let change = next_change(&metrics.borrow_and_update());
            if let Some(change) = change {
                // What comes of that the metrics tell, and the next look goes by them.
                let _ = tokio::time::timeout(patience, raft.change_membership(change, false)).await;
            }
        }
        tokio::time::sleep(pause).await;
        if metrics.changed().await.is_err() {
            return;
        }
    }
}

/// The change that a leader makes next.
fn next_change(
    metrics: &RaftMetrics<PeerId, EmptyNode>,
) -> Option<ChangeMembers<PeerId, EmptyNode>> {
    let replicated = metrics.replication.as_ref()?;
    let membership = metrics.membership_config.membership();
    if membership.get_joint_config().len() > 1 {
        return Some(ChangeMembers::AddVoterIds(BTreeSet::new()));
    }
    if membership.voter_ids().count() >= VOTERS_MAX {
        return None;
    }
    let end = metrics.last_log_index?;
    let begin = metrics.membership_config.log_id().map_or(0, |log_id| log_id.index);
    let has_all = |member: &PeerId| {
        let matched = replicated.get(member).copied().flatten();
        matched.is_some_and(|last| last.index >= begin && last.index + LAG_MAX >= end)
    };
    let member = membership.learner_ids().find(has_all)?;
    Some(ChangeMembers::AddVoterIds(BTreeSet::from([member])))
}
