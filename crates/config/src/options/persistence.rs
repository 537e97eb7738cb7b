//! Options: snapshots and the journal on disk.

use std::sync::Arc;

use super::super::choices::{AofLoadErrors, AppendFsync, RdbVersionCheck};
use super::super::kind::{Kind, integer, memory};
use super::super::option::{ACCEPTED, ConfigOption, LIVE_OPTION, Mutability};
use super::super::settings::settings;
use super::super::special;
use super::super::value_types::SavePoint;

/// Snapshots and the journal on disk.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "dir",
        kind: special::DIRECTORY,
        default: ".",
        mutability: Mutability::Protected,
        doc: "The working directory, where files are written.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "dbfilename",
        kind: special::DUMP_NAME,
        default: "dump.rdb",
        mutability: Mutability::Protected,
        doc: "The snapshot's file name.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "save",
        kind: special::SAVE,
        default: "3600 1 300 100 60 10000",
        doc: "Pairs of seconds and changes after which a snapshot is taken; an empty text \
              takes none.",
        cost: "A snapshot takes CPU of up to five threads and room on the disk for a second \
        file; nothing is forked.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "stop-writes-on-bgsave-error",
        default: "yes",
        doc: "Refuses writes while snapshots fail.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "rdbcompression",
        default: "yes",
        doc: "Compresses strings in snapshots, and in what DUMP replies.",
        cost: "CPU of the threads that write and load, for smaller files.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "rdbchecksum",
        default: "yes",
        mutability: Mutability::Startup,
        doc: "Ends snapshots with a checksum.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "rdb-del-sync-files",
        default: "no",
        doc: "Whether a replica without persistence removes the snapshot file that a full sync \
              left. A primary removes the files that it made for replicas in any case.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "rdb-save-incremental-fsync",
        default: "yes",
        doc: "Syncs a snapshot to disk as it is written.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "rdb-save-max-bytes-per-second",
        kind: memory(0, i64::MAX),
        default: "0",
        doc: "The pace at which snapshots are written; 0 is as fast as it goes.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "rdb-write-version",
        kind: integer(0, 9999),
        default: "0",
        doc: "The version of the format of snapshots; 0 is the lowest that holds the data, and 9 \
              serves replicas of Redis 6.2.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "rdb-version-check",
        kind: Kind::Choice(RdbVersionCheck::WORDS),
        default: "strict",
        doc: "Whether snapshots of unknown versions may be loaded.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "rdb-skip-module-data",
        default: "no",
        doc: "Passes over what modules wrote into a snapshot, rather than refusing to load it.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "rdb-key-save-delay",
        kind: integer(i32::MIN as i64, i32::MAX as i64),
        default: "0",
        hidden: true,
        doc: "Microseconds to wait after each key saved; a test aid of Redis.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "key-load-delay",
        kind: integer(i32::MIN as i64, i32::MAX as i64),
        default: "0",
        hidden: true,
        doc: "Microseconds to wait after each key loaded; a test aid of Redis.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "loading-process-events-interval-bytes",
        kind: integer(1024, i32::MAX as i64),
        default: "524288",
        hidden: true,
        doc: "Bytes loaded between two looks at the clients; loading never stops them here.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "sanitize-dump-payload",
        kind: Kind::Choice(&["no", "yes", "clients"]),
        default: "no",
        doc: "Whether payloads are checked in depth; they always are.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "preload-file",
        kind: special::PRELOADED,
        mutability: Mutability::Startup,
        doc: "A file to load at the start in place of the usual ones: rdb:<path>, or aof:<path> of \
              a manifest.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "snapshot-cron",
        aliases: &["snapshot_cron"],
        kind: special::SCHEDULE,
        doc: "The minutes (UTC) at which a snapshot is taken, in the words of crontab.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "appendonly",
        default: "no",
        doc: "Whether changes are written to a journal on disk.",
        cost: "Every write goes to a file, too: with `everysec` a SET pipelined by 16 has 0.85 \
        of its rate without a log.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "appendfilename",
        kind: special::APPEND_NAME,
        default: "appendonly.aof",
        mutability: Mutability::Startup,
        doc: "The journal's file name.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "appenddirname",
        kind: special::APPEND_DIRECTORY,
        default: "appendonlydir",
        mutability: Mutability::Startup,
        doc: "The journal's directory, within `dir`.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "appendfsync",
        kind: Kind::Choice(AppendFsync::WORDS),
        default: "everysec",
        doc: "When the journal reaches the disk.",
        cost: "`always` holds each reply until the disk has the write; `everysec` and `no` lose \
        what a crash of the machine leaves unwritten.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "aof-direct-writes",
        default: "yes",
        doc: "Unless appendfsync is no, the log is written past the system's memory if it can be.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "no-appendfsync-on-rewrite",
        default: "no",
        doc: "Leaves out the journal's syncs while it is rewritten or a snapshot is written.",
        cost: "A crash of the machine meanwhile loses what was written since the rewrite began.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "auto-aof-rewrite-percentage",
        kind: integer(0, i32::MAX as i64),
        default: "100",
        doc: "Growth in percent at which the journal is rewritten; 0 never does.",
        cost: "A rewrite is a snapshot: CPU of some threads, and room on the disk for a second \
        base.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "auto-aof-rewrite-min-size",
        kind: memory(0, i64::MAX),
        default: "64mb",
        doc: "The size below which the journal is not rewritten.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "aof-load-truncated",
        default: "yes",
        doc: "Loads a journal whose last record is cut off.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "aof-load-corrupt-tail-max-size",
        kind: memory(0, i64::MAX),
        default: "0",
        doc: "The longest corrupt end of a journal that is cut off when loading.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "aof-load-errors",
        kind: Kind::Choice(AofLoadErrors::WORDS),
        default: "refuse",
        doc: "Whether a journal with a command that is answered with an error is loaded without \
              that, or refused.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "aof-use-rdb-preamble",
        default: "yes",
        doc: "Begins a rewritten journal with a snapshot.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "aof-timestamp-enabled",
        default: "no",
        doc: "Notes the time in the journal.",
        cost: "A line in the log for each second in which something was written.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "aof-rewrite-incremental-fsync",
        default: "yes",
        doc: "Syncs a rewritten journal to disk as it is written.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "aof-disable-auto-gc",
        default: "no",
        doc: "Keeps files of the journal that are no longer needed; a test aid of Redis.",
        ..ACCEPTED
    },
    ConfigOption {
        name: "backupdirname",
        kind: special::BACKUP_DIRECTORY,
        default: "backupdir",
        mutability: Mutability::Startup,
        doc: "The directory of BACKUP, within `dir`.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "backup-sealed-ttl",
        kind: integer(0, i64::MAX),
        default: "0",
        doc: "Seconds after which a sealed backup is removed; 0 keeps it.",
        ..LIVE_OPTION
    },
];

settings! {
    AOF_DIRECT_WRITES: bool = "aof-direct-writes";
    AOF_LOAD_CORRUPT_TAIL_MAX_SIZE: u64 = "aof-load-corrupt-tail-max-size";
    AOF_LOAD_ERRORS: AofLoadErrors = "aof-load-errors";
    AOF_LOAD_TRUNCATED: bool = "aof-load-truncated";
    AOF_REWRITE_INCREMENTAL_FSYNC: bool = "aof-rewrite-incremental-fsync";
    AOF_TIMESTAMP_ENABLED: bool = "aof-timestamp-enabled";
    AOF_USE_RDB_PREAMBLE: bool = "aof-use-rdb-preamble";
    APPENDDIRNAME: Arc<[u8]> = "appenddirname";
    APPENDFILENAME: Arc<[u8]> = "appendfilename";
    APPENDFSYNC: AppendFsync = "appendfsync";
    APPENDONLY: bool = "appendonly";
    AUTO_AOF_REWRITE_MIN_SIZE: u64 = "auto-aof-rewrite-min-size";
    AUTO_AOF_REWRITE_PERCENTAGE: u64 = "auto-aof-rewrite-percentage";
    BACKUPDIRNAME: Arc<[u8]> = "backupdirname";
    BACKUP_SEALED_TTL: u64 = "backup-sealed-ttl";
    DBFILENAME: Arc<[u8]> = "dbfilename";
    DIR: Arc<[u8]> = "dir";
    KEY_LOAD_DELAY: i32 = "key-load-delay";
    NO_APPENDFSYNC_ON_REWRITE: bool = "no-appendfsync-on-rewrite";
    PRELOAD_FILE: Arc<[u8]> = "preload-file";
    RDBCHECKSUM: bool = "rdbchecksum";
    RDBCOMPRESSION: bool = "rdbcompression";
    RDB_DEL_SYNC_FILES: bool = "rdb-del-sync-files";
    RDB_KEY_SAVE_DELAY: i32 = "rdb-key-save-delay";
    RDB_SAVE_INCREMENTAL_FSYNC: bool = "rdb-save-incremental-fsync";
    RDB_SAVE_MAX_BYTES_PER_SECOND: u64 = "rdb-save-max-bytes-per-second";
    RDB_SKIP_MODULE_DATA: bool = "rdb-skip-module-data";
    RDB_VERSION_CHECK: RdbVersionCheck = "rdb-version-check";
    RDB_WRITE_VERSION: u16 = "rdb-write-version";
    SAVE: Vec<SavePoint> = "save";
    SNAPSHOT_CRON: Arc<[u8]> = "snapshot-cron";
    STOP_WRITES_ON_BGSAVE_ERROR: bool = "stop-writes-on-bgsave-error";
}
