//! Options: what only KeyDB has.

use super::super::kind::{Kind, TEXT, integer, memory};
use super::super::option::{ACCEPTED, ConfigOption, LIVE_OPTION, MISSING, Mutability, NOT_YET};
use super::super::settings::settings;
use super::super::special;

/// What only KeyDB has.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "active-replica",
        default: "no",
        doc: "Lets a replica accept writes and send them back.",
        ..MISSING
    },
    ConfigOption {
        name: "multi-master",
        default: "no",
        mutability: Mutability::Startup,
        doc: "Lets a replica follow several primaries.",
        ..NOT_YET
    },
    ConfigOption {
        name: "multi-master-no-forward",
        default: "no",
        doc: "Does not pass on what came from another primary.",
        ..NOT_YET
    },
    ConfigOption {
        name: "replica-quorum",
        kind: integer(-1, i32::MAX as i64),
        default: "-1",
        doc: "How many replicas must be connected for a replica to serve.",
        ..NOT_YET
    },
    ConfigOption {
        name: "replica-weighting-factor",
        kind: integer(1, i32::MAX as i64),
        default: "2",
        doc: "How many clients a replica counts for among threads.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "active-client-balancing",
        default: "yes",
        doc: "Gives new clients to the thread with the fewest; that is always done.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "min-clients-per-thread",
        kind: integer(0, i32::MAX as i64),
        default: "20",
        doc: "Clients below which another thread gets none.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "time-thread-priority",
        default: "no",
        doc: "Raises the priority of the clock's thread.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "prefetch-enabled",
        default: "yes",
        doc: "Fetches keys ahead.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "enable-async-commands",
        default: "no",
        doc: "Runs reads without the global lock; there is none here.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "enable-async-rehash",
        default: "yes",
        doc: "Rehashes in another thread.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "multithread-load-enabled",
        default: "no",
        doc: "Loads with several threads.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "use-fork",
        default: "yes",
        doc: "Takes snapshots in a child process; here never.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "use-exit-on-panic",
        default: "no",
        doc: "Exits without a core dump where a panic ends the process.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "enable-keydb-fastsync",
        default: "no",
        doc: "KeyDB's own full sync.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "soft-shutdown",
        default: "no",
        doc: "Waits for clients to leave before it ends.",
        ..NOT_YET
    },
    ConfigOption {
        name: "delete-on-evict",
        default: "no",
        doc: "Deletes evicted keys from storage as well.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "allow-rdb-resize-op",
        default: "yes",
        doc: "Sizes tables from what a snapshot announces; an announced size is never \
              believed here.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "allow-write-during-load",
        default: "no",
        doc: "Accepts writes while loading.",
        ..NOT_YET
    },
    ConfigOption {
        name: "max-snapshot-slip",
        kind: integer(0, i64::MAX),
        default: "400",
        doc: "Milliseconds that a snapshot may be stale.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "max-rand-count",
        kind: integer(0, i64::MAX),
        default: "4611686018427387903",
        doc: "The highest count of random members to ask for.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "maxstorage",
        kind: memory(0, i64::MAX),
        default: "0",
        doc: "The storage limit in bytes; 0 is no limit.",
        ..NOT_YET
    },
    ConfigOption {
        name: "storage-provider",
        kind: special::ANY_WORDS,
        mutability: Mutability::Startup,
        doc: "The storage behind memory, and its path.",
        ..MISSING
    },
    ConfigOption {
        name: "storage-provider-options",
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "Options of the storage behind memory.",
        ..NOT_YET
    },
    ConfigOption {
        name: "storage-cache-mode",
        kind: Kind::Choice(&["writeback", "writethrough"]),
        default: "writethrough",
        mutability: Mutability::Startup,
        doc: "When changes reach the storage behind memory.",
        ..NOT_YET
    },
    ConfigOption {
        name: "storage-flush-period",
        kind: integer(0, i32::MAX as i64),
        default: "500",
        doc: "Milliseconds between flushes to storage.",
        ..NOT_YET
    },
    ConfigOption {
        name: "flash-disable-key-cache",
        default: "no",
        mutability: Mutability::Startup,
        doc: "Keeps no keys of the storage in memory.",
        ..NOT_YET
    },
    ConfigOption {
        name: "semi-ordered-set-bucket-size",
        kind: integer(0, i32::MAX as i64),
        default: "0",
        mutability: Mutability::Startup,
        doc: "The bucket size of KeyDB's sets.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "repl-backlog-disk-reserve",
        kind: memory(0, i64::MAX),
        default: "0",
        mutability: Mutability::Startup,
        doc: "Disk space for a backlog that outgrows memory.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "force-backlog-disk-reserve",
        default: "no",
        doc: "Always keeps the backlog on disk.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "loading-process-events-interval-keys",
        kind: integer(0, i64::MAX),
        default: "8192",
        doc: "Keys loaded between two looks at the clients.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "overload-protect-percent",
        kind: integer(0, 200),
        default: "0",
        doc: "CPU percent from which requests are shed; 0 never sheds.",
        ..NOT_YET
    },
    ConfigOption {
        name: "force-eviction-percent",
        kind: integer(0, 100),
        default: "0",
        doc: "Percent of the system's free memory below which keys are evicted.",
        ..NOT_YET
    },
    ConfigOption {
        name: "db-s3-object",
        kind: TEXT,
        mutability: Mutability::Startup,
        doc: "An S3 object to load from and save to.",
        ..MISSING
    },
    ConfigOption {
        name: "tls-allowlist",
        kind: special::ANY_WORDS,
        doc: "Names that a client's certificate must carry one of.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-rotation",
        default: "no",
        doc: "Loads new certificates by itself.",
        ..NOT_YET
    },
];

settings! {
    USE_EXIT_ON_PANIC: bool = "use-exit-on-panic";
}
