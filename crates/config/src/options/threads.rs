//! Options: threads and cores.

use std::sync::Arc;

use super::super::kind::{Kind, TEXT, Unit, integer};
use super::super::option::{ACCEPTED, ConfigOption, LIVE_OPTION, Mutability};
use super::super::settings::settings;
use super::super::special;

/// Threads and cores.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "worker-threads",
        aliases: &["server-threads", "threads"],
        kind: integer(0, 1024),
        default: "0",
        doc: "How many threads serve clients; 0 is one per core that the process may use.",
        cost: "More of them than cores wait for each other; where clients share the cores, one \
        fewer may be faster.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "server-thread-affinity",
        kind: special::YES_OR_TRUE,
        default: "no",
        doc: "Binds each worker to a core of its own.",
        cost: "A bound worker waits while another process has its core.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "server-batch-scheduling",
        default: "yes",
        doc: "Busy workers do not interrupt clients of this machine, nor the log's thread them.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "io-threads",
        kind: integer(1, 256),
        default: "1",
        mutability: Mutability::Startup,
        doc: "Redis' threads that read and write; worker-threads says how many serve clients here.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "io-threads-do-reads",
        default: "no",
        mutability: Mutability::Startup,
        doc: "Whether Redis' threads also read.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "io-threads-always-active",
        default: "no",
        hidden: true,
        doc: "Keeps Valkey's threads awake.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "min-io-threads-avoid-copy-reply",
        kind: integer(0, i32::MAX as i64),
        default: "7",
        hidden: true,
        doc: "Threads from which Valkey sends replies without a copy.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "min-string-size-avoid-copy-reply",
        kind: integer(0, i32::MAX as i64),
        default: "16384",
        hidden: true,
        doc: "Bytes from which Valkey sends replies without a copy.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "prefetch-batch-max-size",
        kind: integer(0, 128),
        default: "16",
        doc: "How many keys of pipelined requests are fetched from memory ahead; 0 is none.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "lookahead",
        kind: integer(1, i32::MAX as i64),
        default: "16",
        doc: "How many requests of a pipeline Redis reads ahead.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "server-cpulist",
        aliases: &["server_cpulist"],
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "The cores of the process: a list such as 0-7:2,9.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "bio-cpulist",
        aliases: &["bio_cpulist"],
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "The cores of threads for heavy work and for the journal.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "aof-rewrite-cpulist",
        aliases: &["aof_rewrite_cpulist"],
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "The cores of threads that rewrite the journal.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "bgsave-cpulist",
        aliases: &["bgsave_cpulist"],
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "The cores of threads that write a snapshot.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "hz",
        kind: Kind::Number { least: 0, most: i32::MAX as i64, unit: Unit::Hertz, signed: true },
        default: "10",
        doc: "How often Redis does its background work; ours comes when it is due.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "dynamic-hz",
        default: "yes",
        doc: "Does background work more often with many clients.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "activerehashing",
        default: "yes",
        doc: "Spends idle time on rehashing; there is nothing to rehash here.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "active-expire-effort",
        kind: integer(1, 10),
        default: "1",
        doc: "How much time is spent on finding expired keys.",
        cost: "Higher ones take more of the time of workers.",
        ..LIVE_OPTION
    },
];

settings! {
    ACTIVE_EXPIRE_EFFORT: u32 = "active-expire-effort";
    AOF_REWRITE_CPULIST: Arc<[u8]> = "aof-rewrite-cpulist";
    BGSAVE_CPULIST: Arc<[u8]> = "bgsave-cpulist";
    BIO_CPULIST: Arc<[u8]> = "bio-cpulist";
    HZ: u32 = "hz";
    PREFETCH_BATCH_MAX_SIZE: usize = "prefetch-batch-max-size";
    SERVER_BATCH_SCHEDULING: bool = "server-batch-scheduling";
    SERVER_CPULIST: Arc<[u8]> = "server-cpulist";
    SERVER_THREAD_AFFINITY: bool = "server-thread-affinity";
    WORKER_THREADS: usize = "worker-threads";
}
