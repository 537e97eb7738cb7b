//! Typed handles to the options that the server reads: `config.get(PORT)` is a `u16`.
//!
//! A handle names its option once more, but only to the compiler: [`setting`] refuses, while
//! compiling, a name without a block and a type that cannot hold every value of its kind.

use std::marker::PhantomData;
use std::sync::Arc;

use super::choices::{
    AclPubsubDefault, AofLoadErrors, AppendFsync, BusyScope, DebugAccess, DisklessLoad,
    HttpCommands, LogFormat, LogLevel, LogTimestampFormat, MaxmemoryPolicy, MemcachedProtocol,
    OomScoreAdj, PropagationErrorBehavior, RdbVersionCheck, Supervised, SyslogFacility,
    TlsAuthClients, TlsAuthClientsUser,
};
use super::kind::Kind;
use super::options::{ALL, CELLS};
use super::readings::{BindAddress, KeyEvents, OutputBufferLimits, SavePoint, ShutdownFlags};
use super::store::{Readable, Setting, Shape};

/// The handle of the option called `name`; its panics are errors of the compiler.
const fn setting<T: Readable>(name: &str) -> Setting<T> {
    let mut index = 0;
    while index < ALL.len() {
        if same(ALL[index].name, name) {
            assert!(fits(&T::SHAPE, &ALL[index].kind), "the option's kind does not fit the type");
            return Setting { cell: CELLS[index], is: PhantomData };
        }
        index += 1;
    }
    panic!("no option has this name");
}

const fn fits(shape: &Shape, kind: &Kind) -> bool {
    match (shape, kind) {
        (Shape::Bool, Kind::Bool) => true,
        (Shape::Bool, Kind::Special(special)) => special.width == 1,
        (Shape::Number(low, high), Kind::Number { least, most, .. }) => {
            *low <= *least && *most <= *high
        }
        (Shape::Numbers(width), Kind::Special(special)) => special.width == *width,
        (Shape::Text, kind) => kind.width() == 0,
        (Shape::Choice(words), Kind::Choice(names)) => {
            let mut index = 0;
            while index < words.len() && index < names.len() && same(words[index], names[index]) {
                index += 1;
            }
            index == words.len() && index == names.len()
        }
        _ => false,
    }
}

const fn same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut index = 0;
    while index < left.len() && index < right.len() && left[index] == right[index] {
        index += 1;
    }
    index == left.len() && index == right.len()
}

/// Declares handles: name, type, option.
macro_rules! settings {
    ($($handle:ident: $kind:ty = $name:literal;)*) => {$(
        #[doc = concat!("`", $name, "`")]
        pub const $handle: Setting<$kind> = setting($name);
    )*};
}

settings! {
    ACLFILE: Arc<[u8]> = "aclfile";
    ACLLOG_MAX_LEN: usize = "acllog-max-len";
    ACL_PUBSUB_DEFAULT: AclPubsubDefault = "acl-pubsub-default";
    ACTIVEDEFRAG: bool = "activedefrag";
    ACTIVE_DEFRAG_CYCLE_MAX: u32 = "active-defrag-cycle-max";
    ACTIVE_DEFRAG_CYCLE_MIN: u32 = "active-defrag-cycle-min";
    ACTIVE_DEFRAG_CYCLE_US: u32 = "active-defrag-cycle-us";
    ACTIVE_DEFRAG_IGNORE_BYTES: u64 = "active-defrag-ignore-bytes";
    ACTIVE_DEFRAG_THRESHOLD_LOWER: u32 = "active-defrag-threshold-lower";
    ACTIVE_DEFRAG_THRESHOLD_UPPER: u32 = "active-defrag-threshold-upper";
    ACTIVE_EXPIRE_EFFORT: u32 = "active-expire-effort";
    AOF_DIRECT_WRITES: bool = "aof-direct-writes";
    AOF_LOAD_CORRUPT_TAIL_MAX_SIZE: u64 = "aof-load-corrupt-tail-max-size";
    AOF_LOAD_ERRORS: AofLoadErrors = "aof-load-errors";
    AOF_LOAD_TRUNCATED: bool = "aof-load-truncated";
    AOF_REWRITE_CPULIST: Arc<[u8]> = "aof-rewrite-cpulist";
    AOF_REWRITE_INCREMENTAL_FSYNC: bool = "aof-rewrite-incremental-fsync";
    AOF_TIMESTAMP_ENABLED: bool = "aof-timestamp-enabled";
    AOF_USE_RDB_PREAMBLE: bool = "aof-use-rdb-preamble";
    APPENDDIRNAME: Arc<[u8]> = "appenddirname";
    APPENDFILENAME: Arc<[u8]> = "appendfilename";
    APPENDFSYNC: AppendFsync = "appendfsync";
    APPENDONLY: bool = "appendonly";
    AUTO_AOF_REWRITE_MIN_SIZE: u64 = "auto-aof-rewrite-min-size";
    AUTO_AOF_REWRITE_PERCENTAGE: u64 = "auto-aof-rewrite-percentage";
    AVAILABILITY_ZONE: Arc<[u8]> = "availability-zone";
    BACKUPDIRNAME: Arc<[u8]> = "backupdirname";
    BACKUP_SEALED_TTL: u64 = "backup-sealed-ttl";
    BGSAVE_CPULIST: Arc<[u8]> = "bgsave-cpulist";
    BIND: Vec<BindAddress> = "bind";
    BIO_CPULIST: Arc<[u8]> = "bio-cpulist";
    BUSY_REPLY_THRESHOLD: u64 = "busy-reply-threshold";
    BUSY_SCOPE: BusyScope = "busy-scope";
    CLIENT_OUTPUT_BUFFER_LIMIT: OutputBufferLimits = "client-output-buffer-limit";
    CLIENT_QUERY_BUFFER_LIMIT: usize = "client-query-buffer-limit";
    COMMANDLOG_LARGE_REPLY_MAX_LEN: usize = "commandlog-large-reply-max-len";
    COMMANDLOG_LARGE_REQUEST_MAX_LEN: usize = "commandlog-large-request-max-len";
    COMMANDLOG_REPLY_LARGER_THAN: i64 = "commandlog-reply-larger-than";
    COMMANDLOG_REQUEST_LARGER_THAN: i64 = "commandlog-request-larger-than";
    CRASH_LOG_ENABLED: bool = "crash-log-enabled";
    DAEMONIZE: bool = "daemonize";
    DATABASES: u32 = "databases";
    DEBUG_CONTEXT: Arc<[u8]> = "debug-context";
    DBFILENAME: Arc<[u8]> = "dbfilename";
    DIR: Arc<[u8]> = "dir";
    DISABLE_THP: bool = "disable-thp";
    DUAL_CHANNEL_REPLICATION_ENABLED: bool = "dual-channel-replication-enabled";
    ENABLE_DEBUG_COMMAND: DebugAccess = "enable-debug-command";
    ENABLE_MODULE_COMMAND: DebugAccess = "enable-module-command";
    ENABLE_PROTECTED_CONFIGS: DebugAccess = "enable-protected-configs";
    FAILED_AUTH_DELAY: u32 = "failed-auth-delay";
    HASH_MAX_LISTPACK_ENTRIES: usize = "hash-max-listpack-entries";
    HASH_MAX_LISTPACK_VALUE: usize = "hash-max-listpack-value";
    HELLO_SERVER_NAME: Arc<[u8]> = "hello-server-name";
    HIDE_USER_DATA_FROM_LOG: bool = "hide-user-data-from-log";
    HLL_SPARSE_MAX_BYTES: usize = "hll-sparse-max-bytes";
    HTTP_BIND: Vec<BindAddress> = "http-bind";
    HTTP_COMMANDS: HttpCommands = "http-commands";
    HTTP_PORT: u16 = "http-port";
    HTTP_TLS_PORT: u16 = "http-tls-port";
    HZ: u32 = "hz";
    IMPORT_MODE: bool = "import-mode";
    KEY_LOAD_DELAY: i32 = "key-load-delay";
    LATENCY_MONITOR_THRESHOLD: u64 = "latency-monitor-threshold";
    LATENCY_TRACKING: bool = "latency-tracking";
    LATENCY_TRACKING_INFO_PERCENTILES: Vec<f64> = "latency-tracking-info-percentiles";
    LFU_DECAY_TIME: u32 = "lfu-decay-time";
    LFU_LOG_FACTOR: u32 = "lfu-log-factor";
    LISTEN_ON_ANY_PORT: bool = "listen-on-any-port";
    LIST_MAX_LISTPACK_SIZE: i64 = "list-max-listpack-size";
    LOGFILE: Arc<[u8]> = "logfile";
    LOGLEVEL: LogLevel = "loglevel";
    LOG_FORMAT: LogFormat = "log-format";
    LOG_TIMESTAMP_FORMAT: LogTimestampFormat = "log-timestamp-format";
    MASTERAUTH: Arc<[u8]> = "masterauth";
    MASTERUSER: Arc<[u8]> = "masteruser";
    MAXCLIENTS: u32 = "maxclients";
    MAXCLIENTS_RESERVED: usize = "maxclients-reserved";
    MAXMEMORY: i64 = "maxmemory";
    MAXMEMORY_CLIENTS: i64 = "maxmemory-clients";
    MAXMEMORY_EVICTION_TENACITY: u32 = "maxmemory-eviction-tenacity";
    MAXMEMORY_POLICY: MaxmemoryPolicy = "maxmemory-policy";
    MAXMEMORY_SAMPLES: u32 = "maxmemory-samples";
    MEMCACHED_AUTH_FILE: Arc<[u8]> = "memcached-auth-file";
    MEMCACHED_DATABASE: u32 = "memcached-database";
    MEMCACHED_DUMP: bool = "memcached-dump";
    MEMCACHED_FLUSH: bool = "memcached-flush";
    MEMCACHED_ITEM_SIZE_MAX: usize = "memcached-item-size-max";
    MEMCACHED_PORT: i32 = "memcached-port";
    MEMCACHED_PORT_FILENAME: Arc<[u8]> = "memcached-port-filename";
    MEMCACHED_PREFIX_DELIMITER: Arc<[u8]> = "memcached-prefix-delimiter";
    MEMCACHED_PROTOCOL: MemcachedProtocol = "memcached-protocol";
    MEMCACHED_SHUTDOWN: bool = "memcached-shutdown";
    MEMCACHED_TLS: bool = "memcached-tls";
    MEMCACHED_UDP_PORT: i32 = "memcached-udp-port";
    MEMCACHED_UNIXSOCKET: Arc<[u8]> = "memcached-unixsocket";
    MEMCACHED_UNIXSOCKETPERM: u32 = "memcached-unixsocketperm";
    MEMCACHED_USER: Arc<[u8]> = "memcached-user";
    MEMCACHED_WATCH: bool = "memcached-watch";
    MIN_REPLICAS_MAX_LAG: u32 = "min-replicas-max-lag";
    MIN_REPLICAS_TO_WRITE: usize = "min-replicas-to-write";
    NOTIFY_KEYSPACE_EVENTS: KeyEvents = "notify-keyspace-events";
    NO_APPENDFSYNC_ON_REWRITE: bool = "no-appendfsync-on-rewrite";
    OOM_SCORE_ADJ: OomScoreAdj = "oom-score-adj";
    OOM_SCORE_ADJ_VALUES: [i64; 3] = "oom-score-adj-values";
    PIDFILE: Arc<[u8]> = "pidfile";
    PORT: u16 = "port";
    PREFETCH_BATCH_MAX_SIZE: usize = "prefetch-batch-max-size";
    PRELOAD_FILE: Arc<[u8]> = "preload-file";
    PROC_TITLE_TEMPLATE: Arc<[u8]> = "proc-title-template";
    PROPAGATION_ERROR_BEHAVIOR: PropagationErrorBehavior = "propagation-error-behavior";
    PROTECTED_MODE: bool = "protected-mode";
    PROTO_MAX_BULK_LEN: usize = "proto-max-bulk-len";
    RDBCHECKSUM: bool = "rdbchecksum";
    RDBCOMPRESSION: bool = "rdbcompression";
    RDB_DEL_SYNC_FILES: bool = "rdb-del-sync-files";
    RDB_KEY_SAVE_DELAY: i32 = "rdb-key-save-delay";
    RDB_SAVE_INCREMENTAL_FSYNC: bool = "rdb-save-incremental-fsync";
    RDB_SAVE_MAX_BYTES_PER_SECOND: u64 = "rdb-save-max-bytes-per-second";
    RDB_SKIP_MODULE_DATA: bool = "rdb-skip-module-data";
    RDB_VERSION_CHECK: RdbVersionCheck = "rdb-version-check";
    RDB_WRITE_VERSION: u16 = "rdb-write-version";
    REPLICAOF: Arc<[u8]> = "replicaof";
    REPLICA_ANNOUNCED: bool = "replica-announced";
    REPLICA_ANNOUNCE_IP: Arc<[u8]> = "replica-announce-ip";
    REPLICA_ANNOUNCE_PORT: u16 = "replica-announce-port";
    REPLICA_FULL_SYNC_BUFFER_LIMIT: u64 = "replica-full-sync-buffer-limit";
    REPLICA_IGNORE_MAXMEMORY: bool = "replica-ignore-maxmemory";
    REPLICA_PRIORITY: u32 = "replica-priority";
    REPLICA_IGNORE_DISK_WRITE_ERRORS: bool = "replica-ignore-disk-write-errors";
    REPLICA_READ_ONLY: bool = "replica-read-only";
    REPLICA_SERVE_STALE_DATA: bool = "replica-serve-stale-data";
    REPL_BACKLOG_SIZE: u64 = "repl-backlog-size";
    REPL_BACKLOG_TTL: u64 = "repl-backlog-ttl";
    REPL_DISABLE_TCP_NODELAY: bool = "repl-disable-tcp-nodelay";
    REPL_DISKLESS_LOAD: DisklessLoad = "repl-diskless-load";
    REPL_DISKLESS_SYNC: bool = "repl-diskless-sync";
    REPL_DISKLESS_SYNC_DELAY: u32 = "repl-diskless-sync-delay";
    REPL_DISKLESS_SYNC_MAX_REPLICAS: usize = "repl-diskless-sync-max-replicas";
    REPL_PING_REPLICA_PERIOD: u32 = "repl-ping-replica-period";
    REPL_RDB_CHANNEL: bool = "repl-rdb-channel";
    REPL_TIMEOUT: u32 = "repl-timeout";
    REPORTED_REDIS_VERSION: Arc<[u8]> = "reported-redis-version";
    REQUIREPASS: Arc<[u8]> = "requirepass";
    RUN_AS_USER: Arc<[u8]> = "run-as-user";
    SANDBOX: bool = "sandbox";
    SAVE: Vec<SavePoint> = "save";
    SERVER_BATCH_SCHEDULING: bool = "server-batch-scheduling";
    SERVER_CPULIST: Arc<[u8]> = "server-cpulist";
    SERVER_THREAD_AFFINITY: bool = "server-thread-affinity";
    SET_MAX_INTSET_ENTRIES: usize = "set-max-intset-entries";
    SET_MAX_LISTPACK_ENTRIES: usize = "set-max-listpack-entries";
    SET_MAX_LISTPACK_VALUE: usize = "set-max-listpack-value";
    SET_PROC_TITLE: bool = "set-proc-title";
    SHUTDOWN_ON_SIGINT: ShutdownFlags = "shutdown-on-sigint";
    SHUTDOWN_ON_SIGTERM: ShutdownFlags = "shutdown-on-sigterm";
    SHUTDOWN_TIMEOUT: u64 = "shutdown-timeout";
    SLOWLOG_ENTRY_MAX_ARGC: usize = "slowlog-entry-max-argc";
    SLOWLOG_ENTRY_MAX_STRING_LEN: usize = "slowlog-entry-max-string-len";
    SLOWLOG_LOG_SLOWER_THAN: i64 = "slowlog-log-slower-than";
    SLOWLOG_MAX_LEN: usize = "slowlog-max-len";
    SNAPSHOT_CRON: Arc<[u8]> = "snapshot-cron";
    STOP_WRITES_ON_BGSAVE_ERROR: bool = "stop-writes-on-bgsave-error";
    STREAM_IDMP_DURATION: usize = "stream-idmp-duration";
    STREAM_IDMP_MAXSIZE: usize = "stream-idmp-maxsize";
    STREAM_NODE_MAX_BYTES: usize = "stream-node-max-bytes";
    STREAM_NODE_MAX_ENTRIES: usize = "stream-node-max-entries";
    SUPERVISED: Supervised = "supervised";
    SYSLOG_ENABLED: bool = "syslog-enabled";
    SYSLOG_FACILITY: SyslogFacility = "syslog-facility";
    SYSLOG_IDENT: Arc<[u8]> = "syslog-ident";
    TCP_BACKLOG: i32 = "tcp-backlog";
    TCP_KEEPALIVE: u32 = "tcp-keepalive";
    TIMEOUT: u32 = "timeout";
    TLS_AUTH_CLIENTS: TlsAuthClients = "tls-auth-clients";
    TLS_AUTH_CLIENTS_USER: TlsAuthClientsUser = "tls-auth-clients-user";
    TLS_AUTO_RELOAD_INTERVAL: u32 = "tls-auto-reload-interval";
    TLS_CA_CERT_DIR: Arc<[u8]> = "tls-ca-cert-dir";
    TLS_CA_CERT_FILE: Arc<[u8]> = "tls-ca-cert-file";
    TLS_CERT_FILE: Arc<[u8]> = "tls-cert-file";
    TLS_CIPHERS: Arc<[u8]> = "tls-ciphers";
    TLS_CIPHERSUITES: Arc<[u8]> = "tls-ciphersuites";
    TLS_CLIENT_CERT_FILE: Arc<[u8]> = "tls-client-cert-file";
    TLS_CLIENT_KEY_FILE: Arc<[u8]> = "tls-client-key-file";
    TLS_CLIENT_KEY_FILE_PASS: Arc<[u8]> = "tls-client-key-file-pass";
    TLS_CLUSTER: bool = "tls-cluster";
    TLS_EXPECTED_PEER_NAME: Arc<[u8]> = "tls-expected-peer-name";
    TLS_GROUPS: Arc<[u8]> = "tls-groups";
    TLS_KEY_FILE: Arc<[u8]> = "tls-key-file";
    TLS_KEY_FILE_PASS: Arc<[u8]> = "tls-key-file-pass";
    TLS_PORT: u16 = "tls-port";
    TLS_PREFER_SERVER_CIPHERS: bool = "tls-prefer-server-ciphers";
    TLS_PROTOCOLS: Arc<[u8]> = "tls-protocols";
    TLS_REPLICATION: bool = "tls-replication";
    TLS_SESSION_CACHE_SIZE: usize = "tls-session-cache-size";
    TLS_SESSION_CACHE_TIMEOUT: u32 = "tls-session-cache-timeout";
    TLS_SESSION_CACHING: bool = "tls-session-caching";
    TRACKING_TABLE_MAX_KEYS: usize = "tracking-table-max-keys";
    UNAUTHENTICATED_TIMEOUT: u32 = "unauthenticated-timeout";
    UNIXSOCKET: Arc<[u8]> = "unixsocket";
    UNIXSOCKETPERM: u32 = "unixsocketperm";
    USE_EXIT_ON_PANIC: bool = "use-exit-on-panic";
    WATCHDOG_PERIOD: u32 = "watchdog-period";
    WORKER_THREADS: usize = "worker-threads";
    ZSET_MAX_LISTPACK_ENTRIES: usize = "zset-max-listpack-entries";
    ZSET_MAX_LISTPACK_VALUE: usize = "zset-max-listpack-value";
}
