//! The metrics of the sections Memory.
//!
//! Invariant: the order is that of INFO.

use super::Reading::{Counter, Gauge};
use super::{FieldMetric, field};

pub(super) const FIELDS: &[FieldMetric] = &[
    field(
        "used_memory",
        "memory_used_bytes",
        Gauge(1.0),
        "Memory that counts against maxmemory, and what is left out there.",
    ),
    field(
        "used_memory_rss",
        "memory_resident_bytes",
        Gauge(1.0),
        "Memory of the process as the system sees it.",
    ),
    field("used_memory_peak", "memory_used_peak_bytes", Gauge(1.0), "The most that was used."),
    field(
        "used_memory_peak_time",
        "memory_used_peak_timestamp_seconds",
        Gauge(1.0),
        "When that was.",
    ),
    field(
        "used_memory_overhead",
        "memory_overhead_bytes",
        Gauge(1.0),
        "Memory that is not the data themselves.",
    ),
    field(
        "used_memory_startup",
        "memory_startup_bytes",
        Gauge(1.0),
        "Memory that was used behind the start.",
    ),
    field("used_memory_dataset", "memory_dataset_bytes", Gauge(1.0), "Memory of the data."),
    field(
        "allocator_allocated",
        "memory_allocator_allocated_bytes",
        Gauge(1.0),
        "What the allocator has given out.",
    ),
    field(
        "allocator_active",
        "memory_allocator_active_bytes",
        Gauge(1.0),
        "The allocator's pages in use.",
    ),
    field(
        "allocator_resident",
        "memory_allocator_resident_bytes",
        Gauge(1.0),
        "The allocator's pages that are resident.",
    ),
    field(
        "allocator_muzzy",
        "memory_allocator_muzzy_bytes",
        Gauge(1.0),
        "Pages that the system may take back.",
    ),
    field(
        "total_system_memory",
        "system_memory_bytes",
        Gauge(1.0),
        "The memory of the machine, or of the container.",
    ),
    field(
        "used_memory_lua",
        "memory_lua_bytes",
        Gauge(1.0),
        "Memory of the interpreters that run EVAL.",
    ),
    field(
        "used_memory_scripts_eval",
        "memory_scripts_eval_bytes",
        Gauge(1.0),
        "Memory of the texts of cached scripts.",
    ),
    field("number_of_cached_scripts", "cached_scripts", Gauge(1.0), "Scripts in the cache."),
    field("number_of_functions", "functions", Gauge(1.0), "Functions of all libraries."),
    field("number_of_libraries", "libraries", Gauge(1.0), "Libraries of functions."),
    field(
        "used_memory_vm_functions",
        "memory_vm_functions_bytes",
        Gauge(1.0),
        "Memory of the interpreters for functions.",
    ),
    field("used_memory_vm_total", "memory_vm_bytes", Gauge(1.0), "Memory of all interpreters."),
    field(
        "used_memory_functions",
        "memory_functions_bytes",
        Gauge(1.0),
        "Memory of the texts of libraries.",
    ),
    field(
        "used_memory_scripts",
        "memory_scripts_bytes",
        Gauge(1.0),
        "Memory of the texts of scripts and libraries.",
    ),
    field("maxmemory", "memory_limit_bytes", Gauge(1.0), "maxmemory; 0 is no limit."),
    field(
        "allocator_frag_ratio",
        "memory_allocator_fragmentation_ratio",
        Gauge(1.0),
        "Active over allocated bytes.",
    ),
    field(
        "allocator_rss_ratio",
        "memory_allocator_resident_ratio",
        Gauge(1.0),
        "Resident over active bytes.",
    ),
    field(
        "rss_overhead_ratio",
        "memory_resident_overhead_ratio",
        Gauge(1.0),
        "Resident bytes over those of the allocator.",
    ),
    field(
        "mem_fragmentation_ratio",
        "memory_fragmentation_ratio",
        Gauge(1.0),
        "Resident over used bytes.",
    ),
    field(
        "mem_not_counted_for_evict",
        "memory_not_counted_for_eviction_bytes",
        Gauge(1.0),
        "Memory that evicts nothing.",
    ),
    field(
        "mem_replication_backlog",
        "memory_replication_backlog_bytes",
        Gauge(1.0),
        "Memory of the backlog.",
    ),
    field(
        "mem_total_replication_buffers",
        "memory_replication_buffers_bytes",
        Gauge(1.0),
        "Memory of the backlog with what slow replicas keep.",
    ),
    field(
        "mem_replica_full_sync_buffer",
        "memory_replica_full_sync_buffer_bytes",
        Gauge(1.0),
        "What a replica keeps of the stream during a full sync.",
    ),
    field(
        "mem_clients_slaves",
        "memory_clients_replicas_bytes",
        Gauge(1.0),
        "What slow replicas keep beyond the backlog.",
    ),
    field("mem_clients_normal", "memory_clients_normal_bytes", Gauge(1.0), "Memory of clients."),
    field(
        "mem_cluster_links",
        "memory_cluster_links_bytes",
        Gauge(1.0),
        "Memory of the links of the cluster bus.",
    ),
    field(
        "mem_cluster_slot_import",
        "memory_slot_imports_bytes",
        Gauge(1.0),
        "Memory of what has come of slots on the move to here and is not run.",
    ),
    field(
        "mem_cluster_slot_export",
        "memory_slot_exports_bytes",
        Gauge(1.0),
        "Memory of what is kept for nodes that slots are on the move to.",
    ),
    field(
        "mem_aof_buffer",
        "memory_aof_buffer_bytes",
        Gauge(1.0),
        "What waits to be written to the append only file.",
    ),
    field(
        "mem_overhead_db_hashtable_rehashing",
        "memory_rehashing_bytes",
        Gauge(1.0),
        "Memory of tables that grow.",
    ),
    field(
        "lazyfree_pending_objects",
        "lazyfree_pending_objects",
        Gauge(1.0),
        "Values that wait to be freed by another thread.",
    ),
    field(
        "lazyfreed_objects",
        "lazyfreed_objects",
        Counter(1.0),
        "Values that another thread has freed.",
    ),
    field(
        "active_defrag_running",
        "active_defrag_effort_percent",
        Gauge(1.0),
        "How much of a core defragmentation takes at this moment.",
    ),
];
