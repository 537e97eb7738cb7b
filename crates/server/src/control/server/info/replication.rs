//! The sections of a server that has no replicas and is in no cluster.
//!
//! Invariant: each field is what Redis says when it uses none of these.

use super::report::Report;
use crate::server::Server;

pub(super) fn write_replication(server: &Server, report: &mut Report) {
    report.field("role", "master");
    report.field("connected_slaves", 0);
    report.field("master_failover_state", "no-failover");
    report.field("master_replid", &server.identity.run_id);
    report.field("master_replid2", "0".repeat(40));
    report.field("master_repl_offset", 0);
    report.field("second_repl_offset", -1);
    report.field("repl_backlog_active", 0);
    let size = server.config.show(b"repl-backlog-size").unwrap_or_default();
    report.field("repl_backlog_size", String::from_utf8_lossy(&size));
    report.fields(&["repl_backlog_first_byte_offset", "repl_backlog_histlen"], 0);
}

pub(super) fn write_cluster(_: &Server, report: &mut Report) {
    report.field("cluster_enabled", 0);
}
