//! What the section Persistence says of the append-only file.
//!
//! Invariant: sizes are told only where there is such a file, as in Redis.

use durability::aof::{AofState, RewriteStatus};

use super::info_text::InfoText;
use crate::server::Server;

/// What tells of processes that are not forked here.
const NONE: &[&str] =
    &["aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size"];

pub(super) fn write(server: &Server, report: &mut InfoText) {
    let now_us = server.keyspace.clock().monotonic_us();
    let aof = &server.aof;
    let (phase, told) = aof.status(now_us);
    let RewriteStatus { is_underway, is_scheduled, count, failures, .. } = told;
    let is_on = phase != AofState::Off;
    let status = |has_failed: bool| if has_failed { "err" } else { "ok" };
    report.field("aof_enabled", u8::from(is_on));
    report.field("aof_rewrite_in_progress", u8::from(is_underway));
    report.field("aof_rewrite_scheduled", u8::from(is_scheduled));
    report.field("aof_last_rewrite_time_sec", told.seconds.unwrap_or(-1));
    report.field("aof_current_rewrite_time_sec", told.present_seconds.unwrap_or(-1));
    report.field("aof_last_bgrewrite_status", status(told.has_failed));
    report.field("aof_rewrites", count);
    report.field("aof_rewrites_consecutive_failures", failures);
    report.field("aof_last_write_status", status(server.journal.has_failed()));
    report.fields(NONE, 0);
    let takes_snapshot = server.cluster.moves.takes_snapshot();
    report.field("slot_migration_fork_in_progress", u8::from(takes_snapshot));
    report.field("backup_in_progress", u8::from(server.backup.is_underway()));
    if is_on {
        let (total, base) = aof.stats.sizes();
        report.field("aof_current_size", total);
        report.field("aof_base_size", base);
        report.field("aof_pending_rewrite", u8::from(is_scheduled));
        report.field("aof_buffer_length", aof.queued());
        report.field("aof_pending_bio_fsync", 0);
        report.field("aof_delayed_fsync", aof.stats.delayed());
        report.field("aof_fsyncs", aof.stats.syncs());
    }
}
