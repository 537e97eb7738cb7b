//! The sections of replication and of a cluster, in which the server is not.
//!
//! Invariant: what is told of replication is of one moment.

use super::report::Report;
use crate::server::Server;

pub(super) fn write_replication(server: &Server, report: &mut Report) {
    let state = server.links.report(server);
    report.field("role", "master");
    report.field("connected_slaves", state.replicas.len());
    if let Some(good) = state.good {
        report.field("min_slaves_good_slaves", good);
    }
    for (index, row) in state.replicas.iter().enumerate() {
        report.field(&format!("slave{index}"), row);
    }
    report.field("master_failover_state", "no-failover");
    report.field("master_replid", state.id);
    report.field("master_replid2", state.second_id);
    report.field("master_repl_offset", state.offset);
    report.field("second_repl_offset", state.second_offset);
    report.field("repl_backlog_active", u8::from(state.kept.is_some()));
    let size = server.config.show(b"repl-backlog-size").unwrap_or_default();
    report.field("repl_backlog_size", String::from_utf8_lossy(&size));
    let (first, len) = state.kept.map_or((0, 0), |kept| (kept.first_byte(), kept.len()));
    report.field("repl_backlog_first_byte_offset", first);
    report.field("repl_backlog_histlen", len);
}

pub(super) fn write_cluster(_: &Server, report: &mut Report) {
    report.field("cluster_enabled", 0);
}
