//! What a move has promised to its target.
//!
//! Invariant: a grant is on disk before anybody is told of it, and no grant outlives its move: what
//! was not claimed is withdrawn, and served here again once it is sure that nobody has claimed it.

use std::thread::sleep;
use std::time::Duration;

use cluster::{AdminCommand, AdminError, ClaimEpochs};

use super::MoveJob;
use crate::cluster::World;
use crate::cluster::start::ClusterContext;

/// The writers wait so long for the answers of the other nodes. Behind that they go on, and are
/// told that the slots are not served.
const ANSWERS_US: i64 = 3_000_000;

/// A target hears so soon of an epoch that this node has just taken, and a source of a claim.
const EPOCH_US: i64 = 1_000_000;

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A grant of the slots of a move, as long as the move goes on.
pub(super) struct GrantGuard<'a> {
    start: ClusterContext,
    job: &'a MoveJob,
    epochs: ClaimEpochs,
}

impl<'a> GrantGuard<'a> {
    /// Grants the slots of a move to its target.
    pub(super) fn begin(
        start: ClusterContext,
        job: &'a MoveJob,
        names_epochs: bool,
    ) -> Result<Self, String> {
        let ClusterContext { server, node, .. } = start;
        let grant = AdminCommand::Grant { slots: job.slots.clone(), to: job.target, names_epochs };
        let now_us = || server.keyspace.clock().monotonic_us();
        let ends_us = now_us() + EPOCH_US;
        let granted = loop {
            match node.order(server, &grant, World::Going) {
                Err(AdminError::TargetIsBehind | AdminError::Unconfirmed) if now_us() < ends_us => {
                    sleep(POLL_INTERVAL);
                }
                granted => break granted,
            }
        };
        granted.map_err(|why| why.to_string())?;
        let epochs = node.with_engine(|cluster| cluster.granted_epochs(&job.slots)).flatten();
        let epochs = epochs.ok_or("Slots are not owned by the source any more")?;
        Ok(Self { start, job, epochs })
    }

    /// Under which the slots may be claimed.
    pub(super) fn epochs(&self) -> ClaimEpochs {
        self.epochs
    }

    fn is_settled(&self) -> bool {
        let granted = self.start.node.with_engine(|it| it.granted_epochs(&self.job.slots));
        granted.flatten().is_none()
    }
}

impl Drop for GrantGuard<'_> {
    fn drop(&mut self) {
        if self.is_settled() {
            return;
        }
        let ClusterContext { server, node, .. } = self.start;
        let withdraw = AdminCommand::Withdraw(self.job.slots.clone());
        // Slots that are granted no more are none to withdraw.
        let _ = node.order(server, &withdraw, World::Going);
        let now_us = || server.keyspace.clock().monotonic_us();
        let ends_us = now_us() + ANSWERS_US;
        while !self.is_settled() && now_us() < ends_us {
            sleep(POLL_INTERVAL);
        }
        node.publish_slot_map(server, World::Going);
    }
}
