//! Options: the memory limit and what happens at it.

use super::super::choices::MaxmemoryPolicy;
use super::super::kind::{Kind, Unit, integer, unsigned_memory};
use super::super::option::{ACCEPTED, ConfigOption, LIVE_OPTION, Mutability, NOT_YET};
use super::super::settings::settings;

/// The memory limit and what happens at it.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "maxmemory",
        kind: Kind::Number { least: -100, most: i64::MAX, unit: Unit::BytesOrShare, signed: false },
        default: "0",
        doc: "The memory limit in bytes, or in percent of what the machine or the container has; \
              0 is no limit.",
        cost: "A SET that evicts takes 1.1 to 1.75 times the CPU of one that does not.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "maxmemory-policy",
        kind: Kind::Choice(MaxmemoryPolicy::WORDS),
        default: "noeviction",
        doc: "What is evicted at the memory limit.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "maxmemory-samples",
        kind: integer(1, 64),
        default: "5",
        doc: "How many keys are compared to find one to evict.",
        cost: "More of them choose better, and each takes CPU of the write that evicts.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "maxmemory-eviction-tenacity",
        kind: integer(0, 100),
        default: "10",
        doc: "How much work eviction does before it lets clients go on.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "replica-ignore-maxmemory",
        aliases: &["slave-ignore-maxmemory"],
        default: "yes",
        doc: "Leaves eviction on a replica to its primary.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "lfu-log-factor",
        kind: integer(0, i32::MAX as i64),
        default: "10",
        doc: "How many accesses saturate a key's frequency counter.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "lfu-decay-time",
        kind: integer(0, i32::MAX as i64),
        default: "1",
        doc: "Minutes after which a key's frequency counter falls by one.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "lazyfree-lazy-eviction",
        default: "no",
        doc: "Frees evicted values in the background; big values are always freed there.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "lazyfree-lazy-expire",
        default: "no",
        doc: "Frees expired values in the background; big values are always freed there.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "lazyfree-lazy-server-del",
        default: "no",
        doc: "Frees overwritten values in the background; big values are always freed there.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "lazyfree-lazy-user-del",
        default: "no",
        doc: "Makes DEL free in the background; big values are always freed there.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "lazyfree-lazy-user-flush",
        default: "no",
        doc: "Makes FLUSHALL and FLUSHDB free in the background; they always do.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "replica-lazy-flush",
        aliases: &["slave-lazy-flush"],
        default: "no",
        doc: "Frees a replica's old data in the background before a full sync; it always is.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "activedefrag",
        default: "yes",
        doc: "Moves values out of pages that removals left half empty, so that memory goes back.",
        cost: "While memory is wasted, up to `active-defrag-cycle-max` percent of each worker.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "active-defrag-ignore-bytes",
        kind: unsigned_memory(1, i64::MAX),
        default: "1mb",
        doc: "Wasted bytes below which nothing is defragmented.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "active-defrag-threshold-lower",
        kind: integer(0, 1000),
        default: "4",
        doc: "Percent of waste at which defragmentation begins.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "active-defrag-threshold-upper",
        kind: integer(0, 1000),
        default: "100",
        doc: "Percent of waste at which defragmentation works hardest.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "active-defrag-cycle-min",
        kind: integer(1, 99),
        default: "1",
        doc: "Least percent of each worker's time for defragmentation.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "active-defrag-cycle-max",
        kind: integer(1, 99),
        default: "25",
        doc: "Most percent of each worker's time for defragmentation.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "active-defrag-cycle-us",
        kind: integer(0, 100_000),
        default: "500",
        doc: "Microseconds of one round of defragmentation.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "active-defrag-max-scan-fields",
        kind: integer(1, i64::MAX),
        default: "1000",
        doc: "Elements up to which a container is defragmented at once.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "jemalloc-bg-thread",
        default: "yes",
        doc: "Lets jemalloc return memory in a thread of its own; the allocator here is another.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "disable-thp",
        default: "yes",
        mutability: Mutability::Startup,
        doc: "Turns off transparent huge pages for the process.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "key-memory-histograms",
        default: "no",
        doc: "Keeps histograms of the memory of keys.",
        ..NOT_YET
    },
];

settings! {
    ACTIVEDEFRAG: bool = "activedefrag";
    ACTIVE_DEFRAG_CYCLE_MAX: u32 = "active-defrag-cycle-max";
    ACTIVE_DEFRAG_CYCLE_MIN: u32 = "active-defrag-cycle-min";
    ACTIVE_DEFRAG_CYCLE_US: u32 = "active-defrag-cycle-us";
    ACTIVE_DEFRAG_IGNORE_BYTES: u64 = "active-defrag-ignore-bytes";
    ACTIVE_DEFRAG_THRESHOLD_LOWER: u32 = "active-defrag-threshold-lower";
    ACTIVE_DEFRAG_THRESHOLD_UPPER: u32 = "active-defrag-threshold-upper";
    DISABLE_THP: bool = "disable-thp";
    LFU_DECAY_TIME: u32 = "lfu-decay-time";
    LFU_LOG_FACTOR: u32 = "lfu-log-factor";
    MAXMEMORY: i64 = "maxmemory";
    MAXMEMORY_EVICTION_TENACITY: u32 = "maxmemory-eviction-tenacity";
    MAXMEMORY_POLICY: MaxmemoryPolicy = "maxmemory-policy";
    MAXMEMORY_SAMPLES: u32 = "maxmemory-samples";
    REPLICA_IGNORE_MAXMEMORY: bool = "replica-ignore-maxmemory";
}
