//! What INFO and ROLE tell of replication.
//!
//! Invariant: all of it is of one moment.

use replication::backlog::Backlog;
use replication::history::KeptRange;
use replication::ids::ReplicationId;
use replication::primary::{ReplicaRow, SyncCounts};
use replication::replica::{
    Attempts, HeldBytes, LinkReport, LinkState, PrimaryAddress, SyncProgress,
};

use super::replication_state::now_ms;
use super::failover::FailoverState;
use super::handle::Links;
use super::roles::configured;
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
    /// How far a failover is.
    pub(crate) failover: FailoverState,
    /// The link to our primary, if we have one.
    pub(crate) link: Option<LinkStatus>,
}

/// The link to a primary at one moment.
pub(crate) struct LinkStatus {
    /// The primary's host.
    pub(crate) host: String,
    /// Its port.
    pub(crate) port: u16,
    /// The state.
    pub(crate) state: LinkState,
    /// `master_last_io_seconds_ago`.
    pub(crate) last_io_s: i64,
    /// `slave_read_repl_offset`.
    pub(crate) read_offset: u64,
    /// `slave_repl_offset`.
    pub(crate) offset: u64,
    /// Whether that is known to be an offset of this primary's history.
    pub(crate) is_of_primary: bool,
    /// What ROLE says.
    pub(crate) role_offset: i64,
    /// How much of the stream is held until the data are loaded.
    pub(crate) held: HeldBytes,
    /// How the data comes.
    pub(crate) sync: Option<SyncProgress>,
    /// `master_link_down_since_seconds`, unless connected.
    pub(crate) down_since_s: Option<i64>,
    /// `master_link_up_since_seconds`, if connected.
    pub(crate) up_since_s: Option<i64>,
    /// `total_disconnect_time_sec`.
    pub(crate) down_total_s: i64,
    /// How often a connection was tried.
    pub(crate) attempts: Attempts,
}

impl From<LinkReport<'_>> for LinkStatus {
    fn from(report: LinkReport<'_>) -> Self {
        Self {
            host: report.host.to_owned(),
            port: report.port,
            state: report.state,
            last_io_s: report.last_io_s,
            read_offset: report.read_offset,
            offset: report.offset,
            is_of_primary: report.is_of_primary,
            role_offset: report.role_offset,
            held: report.held,
            sync: report.sync,
            down_since_s: report.down_since_s,
            up_since_s: report.up_since_s,
            down_total_s: report.down_total_s,
            attempts: report.attempts,
        }
    }
}

impl LinkStatus {
    /// The link of a server that is a replica still, or already, and has no connection to make:
    /// what it has from its primary is being applied before a promotion, or its own data are being
    /// loaded at its start. So nobody is told of a primary that refuses writes.
    fn of_replica_role(server: &Network) -> Option<Self> {
        let PrimaryAddress { host, port } = configured(server)?;
        server.gates.replica_role.is_replica().then(|| Self {
            host,
            port,
            state: LinkState::Connect,
            last_io_s: -1,
            read_offset: 1,
            offset: 1,
            is_of_primary: false,
            role_offset: -1,
            held: HeldBytes::default(),
            sync: None,
            down_since_s: Some(-1),
            up_since_s: None,
            down_total_s: 0,
            attempts: Attempts::default(),
        })
    }
}

impl ReplicationReport {
    pub(super) fn of(links: &Links, server: &Network) -> Self {
        let core = links.core(server);
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
            kept: backlog.map(Backlog::range),
            backlog_memory: backlog.map_or(0, Backlog::memory),
            counts: core.primary.counts(),
            failover: links.failover_state(),
            link: match core.link.report(now_ms(server)) {
                Some(report) => Some(LinkStatus::from(report)),
                None => LinkStatus::of_replica_role(server),
            },
        }
    }
}
