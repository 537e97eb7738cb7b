//! What INFO and ROLE tell of replication.
//!
//! Invariant: all of it is of one moment.

use replication::history::KeptRange;
use replication::ids::ReplicationId;
use replication::primary::{ReplicaRow, SyncCounts};

use super::core::{Core, now_ms};
use crate::net::network::Network;

/// The state of replication at one moment.
pub(crate) struct ReplicationReport {
    /// The replicas, in the order in which they came.
    pub(crate) replicas: Vec<ReplicaRow>,
    /// `min_slaves_good_slaves`, if the directives ask for this.
    pub(crate) good: Option<usize>,
    /// `master_replid`.
    pub(crate) id: ReplicationId,
    /// `master_replid2`.
    pub(crate) second_id: ReplicationId,
    /// `second_repl_offset`.
    pub(crate) second_offset: i64,
    /// `master_repl_offset`.
    pub(crate) offset: u64,
    /// What the backlog keeps, if there is one.
    pub(crate) kept: Option<KeptRange>,
    /// The memory of the backlog, what slow replicas keep of it included.
    pub(crate) backlog_memory: usize,
    /// How often replicas synced.
    pub(crate) counts: SyncCounts,
}

impl ReplicationReport {
    pub(super) fn of(core: &Core, server: &Network) -> Self {
        let state = core.stream.as_ref().map(|stream| stream.state());
        let backlog = state.as_ref().map(|state| &state.backlog);
        Self {
            replicas: core.primary.rows(now_ms(server)).collect(),
            good: core.primary.good_replicas(),
            id: core.history.id(),
            second_id: core.history.second_id(),
            second_offset: core.history.second_offset(),
            offset: match backlog {
                Some(backlog) => backlog.end(),
                None => core.offset(server),
            },
            kept: backlog.map(|backlog| backlog.range()),
            backlog_memory: backlog.map_or(0, |backlog| backlog.memory()),
            counts: core.primary.counts(),
        }
    }
}
