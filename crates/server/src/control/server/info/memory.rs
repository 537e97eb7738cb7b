//! The section Memory: what is used, what the system sees, and what lies between.
//!
//! Invariant: every figure of one report is of the same look at the memory.

use engine::limits::log_buffers;
use engine::runtime::system_memory::{human, of_machine};

use super::info_text::InfoText;
use crate::control::server::memory::stats::{MemoryStats, ratio};
use crate::server::Server;

pub(super) fn write(server: &Server, report: &mut InfoText) {
    let stats = MemoryStats::of(server);
    let sized = |report: &mut InfoText, name: &str, bytes: usize| {
        report.field(name, bytes);
        report.field(&format!("{name}_human"), human(bytes as u64));
    };
    sized(report, "used_memory", stats.used);
    sized(report, "used_memory_rss", stats.resident);
    sized(report, "used_memory_peak", stats.peak);
    report.field("used_memory_peak_time", server.memory.peak.time());
    report.field("used_memory_peak_perc", format_args!("{:.2}%", stats.peak_percentage()));
    report.field("used_memory_overhead", stats.overhead);
    report.field("used_memory_startup", stats.startup);
    report.field("used_memory_dataset", stats.dataset());
    let share = stats.dataset_percentage();
    report.field("used_memory_dataset_perc", format_args!("{share:.2}%"));
    report.field("allocator_allocated", stats.used);
    report.field("allocator_active", stats.active);
    report.field("allocator_resident", stats.anonymous);
    report.field("allocator_muzzy", 0);
    sized(report, "total_system_memory", usize::try_from(of_machine()).unwrap_or(usize::MAX));
    // One interpreter of a thread runs scripts and functions: what libraries took is the latter's.
    let (interpreters, of_libraries) = server.scripts.interpreters.memory();
    let of_scripts = interpreters - of_libraries.min(interpreters);
    report.fields(&["used_memory_lua", "used_memory_vm_eval"], of_scripts);
    report.field("used_memory_lua_human", human(of_scripts as u64));
    let (scripts, bytes) = server.scripts.cache.size();
    report.field("used_memory_scripts_eval", bytes);
    report.field("number_of_cached_scripts", scripts);
    let state = server.scripts.libraries.state();
    let (libraries, library_bytes) = state.size();
    report.field("number_of_functions", state.functions_count());
    report.field("number_of_libraries", libraries);
    report.field("used_memory_vm_functions", of_libraries);
    sized(report, "used_memory_vm_total", interpreters);
    report.field("used_memory_functions", library_bytes);
    sized(report, "used_memory_scripts", bytes + library_bytes);
    sized(
        report,
        "maxmemory",
        usize::try_from(server.memory.budget.configured()).unwrap_or(usize::MAX),
    );
    let policy = server.config.show(b"maxmemory-policy").unwrap_or_default();
    report.field("maxmemory_policy", String::from_utf8_lossy(&policy));
    write_fragmentation(&stats, report);
    report.field("mem_not_counted_for_evict", log_buffers::not_counted());
    let replication = server.links.report(server);
    // What is kept for slow replicas alone is theirs.
    let backlog = replication.backlog_memory.saturating_sub(log_buffers::kept_for_replicas());
    report.field("mem_replication_backlog", backlog);
    report.field("mem_total_replication_buffers", replication.backlog_memory);
    report.field("mem_replica_full_sync_buffer", log_buffers::held());
    report.field("mem_clients_slaves", log_buffers::kept_for_replicas());
    report.field("mem_clients_normal", stats.clients);
    report.field("mem_cluster_links", 0);
    // Valkey's names, and those of Redis 8.4. What comes is run as it comes.
    report.field("mem_cluster_slot_import", 0);
    let kept = ["mem_cluster_slot_export", "mem_cluster_slot_migration_output_buffer"];
    report.fields(&kept, server.cluster.moves.kept_bytes());
    report.field("mem_cluster_slot_migration_input_buffer", 0);
    report.field("mem_cluster_slot_migration_input_buffer_peak", 0);
    report.field("mem_aof_buffer", log_buffers::buffered());
    report.field("mem_allocator", "mimalloc");
    report.field("mem_overhead_db_hashtable_rehashing", 0);
    let (pending, freed) = server.keyspace.lazy_free_queue().keys();
    report.field("lazyfree_pending_objects", pending);
    report.field("lazyfreed_objects", freed);
    report.field("active_defrag_running", server.memory.defrag.effort());
}

fn write_fragmentation(stats: &MemoryStats, report: &mut InfoText) {
    let MemoryStats { used, active, resident, anonymous, .. } = *stats;
    let mut compare = |ratio_name: &str, bytes_name: &str, larger: usize, smaller: usize| {
        report.ratio(ratio_name, ratio(larger, smaller));
        let bytes = larger as i128 - smaller as i128;
        report.field(bytes_name, bytes);
    };
    compare("allocator_frag_ratio", "allocator_frag_bytes", active, used);
    compare("allocator_rss_ratio", "allocator_rss_bytes", anonymous, active);
    compare("rss_overhead_ratio", "rss_overhead_bytes", resident, anonymous);
    compare("mem_fragmentation_ratio", "mem_fragmentation_bytes", resident, used);
}
