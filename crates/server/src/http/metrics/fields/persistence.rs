//! The metrics of the sections Persistence.
//!
//! Invariant: the order is that of INFO.

use super::Reading::{Counter, Gauge, Is};
use super::{FieldMetric, field};

pub(super) const FIELDS: &[FieldMetric] = &[
    field("loading", "loading", Gauge(1.0), "Whether data are being loaded."),
    field(
        "async_loading",
        "async_loading",
        Gauge(1.0),
        "Whether data of a primary are being loaded beside the old ones.",
    ),
    field("current_cow_peak", "cow_peak_bytes", Gauge(1.0), "The most that a snapshot has kept."),
    field("current_cow_size", "cow_bytes", Gauge(1.0), "What the present snapshot keeps."),
    field("current_cow_size_age", "cow_age_seconds", Gauge(1.0), "How old that figure is."),
    field(
        "current_fork_perc",
        "snapshot_progress_percent",
        Gauge(1.0),
        "How far the present snapshot is.",
    ),
    field(
        "current_save_keys_processed",
        "snapshot_keys_processed",
        Gauge(1.0),
        "Keys that the present snapshot has.",
    ),
    field(
        "current_save_keys_total",
        "snapshot_keys",
        Gauge(1.0),
        "Keys that there were when it began.",
    ),
    field(
        "rdb_changes_since_last_save",
        "rdb_changes_since_save",
        Gauge(1.0),
        "Changes since the last save.",
    ),
    field("rdb_bgsave_in_progress", "rdb_save_in_progress", Gauge(1.0), "Whether a save runs."),
    field(
        "rdb_last_save_time",
        "rdb_last_save_timestamp_seconds",
        Gauge(1.0),
        "When the last save ended well.",
    ),
    field(
        "rdb_last_bgsave_status",
        "rdb_last_save_ok",
        Is("ok"),
        "Whether the last save ended well.",
    ),
    field(
        "rdb_last_bgsave_time_sec",
        "rdb_last_save_duration_seconds",
        Gauge(1.0),
        "How long the last save took; -1 if there was none.",
    ),
    field(
        "rdb_current_bgsave_time_sec",
        "rdb_current_save_duration_seconds",
        Gauge(1.0),
        "How long the present save has run; -1 if there is none.",
    ),
    field("rdb_saves", "rdb_saves", Counter(1.0), "Saves that ended well."),
    field("rdb_last_cow_size", "rdb_last_cow_bytes", Gauge(1.0), "What the last save kept."),
    field(
        "rdb_last_load_keys_expired",
        "rdb_last_load_keys_expired",
        Gauge(1.0),
        "Keys that were over when the last file was loaded.",
    ),
    field(
        "rdb_last_load_keys_loaded",
        "rdb_last_load_keys_loaded",
        Gauge(1.0),
        "Keys that the last file brought.",
    ),
    field("aof_enabled", "aof_enabled", Gauge(1.0), "Whether there is an append only file."),
    field(
        "aof_rewrite_in_progress",
        "aof_rewrite_in_progress",
        Gauge(1.0),
        "Whether a rewrite runs.",
    ),
    field("aof_rewrite_scheduled", "aof_rewrite_scheduled", Gauge(1.0), "Whether one is to begin."),
    field(
        "aof_last_rewrite_time_sec",
        "aof_last_rewrite_duration_seconds",
        Gauge(1.0),
        "How long the last rewrite took; -1 if there was none.",
    ),
    field(
        "aof_current_rewrite_time_sec",
        "aof_current_rewrite_duration_seconds",
        Gauge(1.0),
        "How long the present one has run; -1 if there is none.",
    ),
    field(
        "aof_last_bgrewrite_status",
        "aof_last_rewrite_ok",
        Is("ok"),
        "Whether the last rewrite ended well.",
    ),
    field("aof_rewrites", "aof_rewrites", Counter(1.0), "Rewrites that ended well."),
    field(
        "aof_rewrites_consecutive_failures",
        "aof_rewrite_consecutive_failures",
        Gauge(1.0),
        "Rewrites that failed since one ended well.",
    ),
    field(
        "aof_last_write_status",
        "aof_last_write_ok",
        Is("ok"),
        "Whether the last write ended well.",
    ),
    field("aof_last_cow_size", "aof_last_cow_bytes", Gauge(1.0), "What the last rewrite kept."),
    field("aof_current_size", "aof_size_bytes", Gauge(1.0), "The size of the append only file."),
    field("aof_base_size", "aof_base_size_bytes", Gauge(1.0), "Its size behind the last rewrite."),
    field("aof_pending_rewrite", "aof_pending_rewrite", Gauge(1.0), "Whether a rewrite waits."),
    field("aof_buffer_length", "aof_buffer_bytes", Gauge(1.0), "What waits to be written."),
    field("aof_pending_bio_fsync", "aof_pending_syncs", Gauge(1.0), "Syncs that have not begun."),
    field("aof_delayed_fsync", "aof_delayed_syncs", Counter(1.0), "Writes that waited for a sync."),
    field("aof_fsyncs", "aof_syncs", Counter(1.0), "Syncs of the append only file."),
    field(
        "module_fork_in_progress",
        "module_fork_in_progress",
        Gauge(1.0),
        "Always 0: there are no modules.",
    ),
    field(
        "module_fork_last_cow_size",
        "module_fork_last_cow_bytes",
        Gauge(1.0),
        "Always 0: there are no modules.",
    ),
    field(
        "slot_migration_fork_in_progress",
        "slot_migration_in_progress",
        Gauge(1.0),
        "Whether a snapshot of slots on the move is taken.",
    ),
    field("backup_in_progress", "backup_in_progress", Gauge(1.0), "Whether a backup runs."),
];
