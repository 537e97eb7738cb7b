//! The section Persistence: what is on disk, and what is on its way there.
//!
//! Invariant: what is told of saves is of one moment.

use durability::save::SaveStatus;

use super::append_only;
use super::info_text::InfoText;
use crate::server::Server;

pub(super) fn write(server: &Server, report: &mut InfoText) {
    let status = server.saves.status(server);
    let (done, total) = status.progress;
    report.field("loading", u8::from(server.gates.loading.is_on()));
    report.field("async_loading", u8::from(server.gates.loading.is_beside()));
    report.fields(&["current_cow_peak", "current_cow_size", "current_cow_size_age"], 0);
    // Redis tells under this name how far a save is, in percent.
    report.ratio("current_fork_perc", done as f64 * 100.0 / total.max(1) as f64);
    report.field("current_save_keys_processed", done);
    report.field("current_save_keys_total", total);
    write_saves(&status, report);
    let (loaded, expired) = server.gates.loading.last();
    report.field("rdb_last_load_keys_expired", expired);
    report.field("rdb_last_load_keys_loaded", loaded);
    append_only::write(server, report);
    if let Some(progress) = server.gates.loading.progress(server.keyspace.clock()) {
        report.field("loading_start_time", progress.started);
        report.field("loading_total_bytes", progress.total_bytes);
        report.field("loading_rdb_used_mem", progress.used_memory);
        report.field("loading_loaded_bytes", progress.loaded_bytes);
        report.ratio("loading_loaded_perc", progress.percent);
        report.field("loading_eta_seconds", progress.seconds_left);
    }
}

fn write_saves(status: &SaveStatus, report: &mut InfoText) {
    report.field("rdb_changes_since_last_save", status.unsaved);
    report.field("rdb_bgsave_in_progress", u8::from(status.current_seconds.is_some()));
    report.field("rdb_last_save_time", status.last_save);
    report.field("rdb_last_bgsave_status", if status.is_well { "ok" } else { "err" });
    report.field("rdb_last_bgsave_time_sec", status.last_seconds.unwrap_or(-1));
    report.field("rdb_current_bgsave_time_sec", status.current_seconds.unwrap_or(-1));
    report.field("rdb_saves", status.begun);
    report.field("rdb_last_cow_size", status.copies_peak);
}
