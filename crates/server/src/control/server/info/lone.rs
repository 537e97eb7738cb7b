//! The sections of a server that keeps nothing on disk, has no replicas and is in no cluster.
//!
//! Invariant: each field is what Redis says when it uses none of these.

use ::keyspace::Count;

use super::Report;
use crate::server::Server;

pub(super) fn write_persistence(server: &Server, report: &mut Report) {
    report.field("loading", u8::from(server.loading.is_on()));
    report.fields(
        &["async_loading", "current_cow_peak", "current_cow_size", "current_cow_size_age"],
        0,
    );
    report.ratio("current_fork_perc", 0.0);
    report.fields(&["current_save_keys_processed", "current_save_keys_total"], 0);
    report.field("rdb_changes_since_last_save", server.keyspace.counters().total(Count::Changes));
    report.field("rdb_bgsave_in_progress", 0);
    report.field("rdb_last_save_time", server.started / 1000);
    report.field("rdb_last_bgsave_status", "ok");
    report.fields(&["rdb_last_bgsave_time_sec", "rdb_current_bgsave_time_sec"], -1);
    report.fields(&["rdb_saves", "rdb_last_cow_size"], 0);
    let (loaded, expired) = server.loading.last();
    report.field("rdb_last_load_keys_expired", expired);
    report.field("rdb_last_load_keys_loaded", loaded);
    report.fields(&["aof_enabled", "aof_rewrite_in_progress", "aof_rewrite_scheduled"], 0);
    report.fields(&["aof_last_rewrite_time_sec", "aof_current_rewrite_time_sec"], -1);
    report.field("aof_last_bgrewrite_status", "ok");
    report.fields(&["aof_rewrites", "aof_rewrites_consecutive_failures"], 0);
    report.field("aof_last_write_status", "ok");
    report
        .fields(&["aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size"], 0);
    if let Some(progress) = server.loading.progress(server) {
        report.field("loading_start_time", progress.started);
        report.field("loading_total_bytes", progress.total_bytes);
        report.field("loading_rdb_used_mem", progress.used_memory);
        report.field("loading_loaded_bytes", progress.loaded_bytes);
        report.ratio("loading_loaded_perc", progress.percent);
        report.field("loading_eta_seconds", progress.seconds_left);
    }
}

pub(super) fn write_replication(server: &Server, report: &mut Report) {
    report.field("role", "master");
    report.field("connected_slaves", 0);
    report.field("master_failover_state", "no-failover");
    report.field("master_replid", &server.run_id);
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
