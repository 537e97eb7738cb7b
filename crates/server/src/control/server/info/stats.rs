//! The sections Stats and Errorstats: what happened since the start, or since CONFIG RESETSTAT.
//!
//! Invariant: totals are sums over all workers, those that retired included.

use std::sync::atomic::{AtomicU64, Ordering};

use ::keyspace::Count;
use acl::Reason;
use engine::clients::registry::SubscriptionKind;
use engine::observe::rates::Rates;
use engine::observe::tracking::TrackingStats;
use engine::runtime::counters::Totals;

use super::info_text::InfoText;
use crate::cluster::MoveDirection;
use crate::server::Server;

pub(super) fn write(server: &Server, report: &mut InfoText) {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (stats, rates) = (&server.observed.stats, server.observed.rates.now());
    let totals = Totals::of(server.threads.all_worker_counters());
    report.field("total_connections_received", get(&stats.connections));
    report.field("total_commands_processed", totals.commands);
    report.field("instantaneous_ops_per_sec", rates.commands.round());
    report.field("total_net_input_bytes", totals.net_in);
    report.field("total_net_output_bytes", totals.net_out);
    let replication = server.links.report(server);
    let (heard, sent) = server.links.traffic();
    report.field("total_net_repl_input_bytes", heard);
    report.field("total_net_repl_output_bytes", sent);
    let moved = |direction| server.cluster.moves.figures.of(direction).bytes();
    report.field("total_net_cluster_slot_import_bytes", moved(MoveDirection::Import));
    report.field("total_net_cluster_slot_export_bytes", moved(MoveDirection::Export));
    write_rates(&rates, report);
    report.field("rejected_connections", get(&stats.rejected_connections));
    let syncs = replication.counts;
    report.field("sync_full", syncs.full);
    report.field("sync_partial_ok", syncs.partial_ok);
    report.field("sync_partial_err", syncs.partial_err);
    report.field("expired_subkeys", server.keyspace.counters().total(Count::ExpiredMembers));
    write_keys(server, report);
    for (name, kind) in [
        ("pubsub_channels", SubscriptionKind::Channel),
        ("pubsub_patterns", SubscriptionKind::Pattern),
        ("pubsubshard_channels", SubscriptionKind::ShardChannel),
    ] {
        report.field(name, server.pushes.pubsub.registry(kind).count());
    }
    // Where others fork, the world stands still for a moment.
    let (cuts, latest_cut_us) = server.snapshots.cuts();
    report.field("latest_fork_usec", latest_cut_us);
    report.field("total_forks", cuts);
    report.field("migrate_cached_sockets", server.migrations.cached_links());
    report.field("slave_expires_tracked_keys", server.keyspace.local_deadlines().len());
    write_compaction(server, report);
    let TrackingStats { keys, items, prefixes, .. } = server.pushes.tracking.stats();
    report.field("tracking_total_keys", keys);
    report.field("tracking_total_items", items);
    report.field("tracking_total_prefixes", prefixes);
    report.field("unexpected_error_replies", get(&stats.unexpected_errors));
    report.field("total_error_replies", get(&stats.error_replies));
    report.field("dump_payload_sanitizations", 0);
    report.field("total_reads_processed", totals.reads);
    report.field("total_writes_processed", totals.writes);
    report.fields(
        &[
            "io_threaded_reads_processed",
            "io_threaded_writes_processed",
            "io_threaded_total_prefetch_batches",
            "io_threaded_total_prefetch_entries",
        ],
        0,
    );
    let overruns = get(&stats.query_buffer_overruns);
    report.field("client_query_buffer_limit_disconnections", overruns);
    let unread = get(&stats.output_limit_disconnections) + syncs.overweight;
    report.field("client_output_buffer_limit_disconnections", unread);
    let unauthenticated = get(&stats.unauthenticated_disconnections);
    report.field("client_unauthenticated_disconnections", unauthenticated);
    report.field("regressed_commands", server.observed.baselines.regressed());
    report.field("delayed_logins", get(&stats.delayed_logins));
    report.fields(&["reply_buffer_shrinks", "reply_buffer_expands"], 0);
    write_loops(server, &rates, &totals, report);
    write_denials(server, report);
    report.field("cluster_incompatible_ops", server.keyspace.compatibility().count());
    report.field("panics", get(&stats.panics));
}

/// The event loops of all workers together.
fn write_loops(server: &Server, rates: &Rates, totals: &Totals, report: &mut InfoText) {
    let turns = server.threads.loops.turns();
    report.field("eventloop_cycles", turns.cycles);
    report.field("eventloop_duration_sum", turns.micros);
    report.field("eventloop_duration_cmd_sum", totals.busy_us);
    report.field("instantaneous_eventloop_cycles_per_sec", rates.cycles.round());
    report.field("instantaneous_eventloop_duration_usec", rates.cycle_us.round());
}

/// What the rules of users denied, by the kind of denial.
fn write_denials(server: &Server, report: &mut InfoText) {
    for (name, reason) in [
        ("acl_access_denied_auth", Reason::Auth),
        ("acl_access_denied_cmd", Reason::Command),
        ("acl_access_denied_key", Reason::Key),
        ("acl_access_denied_channel", Reason::Channel),
        ("acl_access_denied_db", Reason::Database),
    ] {
        report.field(name, server.access.acl_log.denied(reason));
    }
}

fn write_rates(rates: &Rates, report: &mut InfoText) {
    report.ratio("instantaneous_input_kbps", rates.net_in / 1024.0);
    report.ratio("instantaneous_output_kbps", rates.net_out / 1024.0);
    report.ratio("instantaneous_input_repl_kbps", rates.replication_in / 1024.0);
    report.ratio("instantaneous_output_repl_kbps", rates.replication_out / 1024.0);
}

fn write_keys(server: &Server, report: &mut InfoText) {
    let counters = server.keyspace.counters();
    report.field("expired_keys", counters.total(Count::Expired));
    report.ratio("expired_stale_perc", 0.0);
    report.field("expired_time_cap_reached_count", counters.total(Count::ExpiryTimeouts));
    report.field("expire_cycle_cpu_milliseconds", 0);
    report.field("evicted_keys", counters.total(Count::Evicted));
    let evicted = server.observed.stats.evicted_clients.load(Ordering::Relaxed);
    report.field("evicted_clients", evicted);
    report.field("evicted_scripts", server.scripts.cache.evicted());
    let now_us = server.keyspace.clock().monotonic_us();
    let (in_all, at_present) = server.memory.budget.excess.ms(now_us);
    report.field("total_eviction_exceeded_time", in_all);
    report.field("current_eviction_exceeded_time", at_present);
    report.field("keyspace_hits", counters.total(Count::Hits));
    report.field("keyspace_misses", counters.total(Count::Misses));
}

/// Each key is one block, or a block and a tree that stays where it is.
fn write_compaction(server: &Server, report: &mut InfoText) {
    let counters = server.keyspace.counters();
    let (moved, kept) = (counters.total(Count::Moved), counters.total(Count::Kept));
    report.fields(&["active_defrag_hits", "active_defrag_key_hits"], moved);
    report.fields(&["active_defrag_misses", "active_defrag_key_misses"], kept);
    let now_us = server.keyspace.clock().monotonic_us();
    let (in_all, at_present) = server.memory.defrag.stopwatch.ms(now_us);
    report.field("total_active_defrag_time", in_all);
    report.field("current_active_defrag_time", at_present);
}

pub(super) fn write_errors(server: &Server, report: &mut InfoText) {
    for (prefix, count) in server.observed.stats.errors() {
        report.field(&format!("errorstat_{prefix}"), format_args!("count={count}"));
    }
}
