//! The sections of replication and of the cluster.
//!
//! Invariant: what is told of replication is of one moment.

use config::settings::{REPLICA_ANNOUNCED, REPLICA_PRIORITY, REPLICA_READ_ONLY};
use replication::replica::LinkState;

use super::info_text::InfoText;
use crate::links::LinkStatus;
use crate::server::Server;

pub(super) fn write_replication(server: &Server, report: &mut InfoText) {
    let state = server.links.report(server);
    match &state.link {
        None => report.field("role", "master"),
        Some(link) => write_link(server, link, report),
    }
    report.field("connected_slaves", state.replicas.len());
    if let Some(good) = state.good {
        report.field("min_slaves_good_slaves", good);
    }
    for (index, row) in state.replicas.iter().enumerate() {
        report.field(&format!("slave{index}"), row);
    }
    report.field("master_failover_state", state.failover.name());
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

fn write_link(server: &Server, link: &LinkStatus, report: &mut InfoText) {
    let is_up = link.state == LinkState::Connected;
    report.field("role", "slave");
    report.field("master_host", &link.host);
    report.field("master_port", link.port);
    report.field("master_link_status", if is_up { "up" } else { "down" });
    report.field("master_last_io_seconds_ago", link.last_io_s);
    report.field("master_sync_in_progress", u8::from(link.sync.is_some()));
    report.field("slave_read_repl_offset", link.read_offset);
    report.field("slave_repl_offset", link.offset);
    report.field("replica_full_sync_buffer_size", link.held.size);
    report.field("replica_full_sync_buffer_peak", link.held.peak);
    report.field("master_current_sync_attempts", link.attempts.current);
    report.field("master_total_sync_attempts", link.attempts.total);
    if let Some(sync) = &link.sync {
        report.field("master_sync_total_bytes", sync.total);
        report.field("master_sync_read_bytes", sync.read);
        report.field("master_sync_left_bytes", sync.left());
        report.field("master_sync_perc", format_args!("{:.2}", sync.percent()));
        report.field("master_sync_last_io_seconds_ago", sync.last_io_s);
    }
    if let Some(seconds) = link.down_since_s {
        report.field("master_link_down_since_seconds", seconds);
    }
    if let Some(seconds) = link.up_since_s {
        report.field("master_link_up_since_seconds", seconds);
    }
    report.field("total_disconnect_time_sec", link.down_total_s);
    report.field("slave_priority", server.config.get(REPLICA_PRIORITY));
    report.field("slave_read_only", u8::from(server.config.get(REPLICA_READ_ONLY)));
    report.field("replica_announced", u8::from(server.config.get(REPLICA_ANNOUNCED)));
}
