//! The keyspace's settings, as the configuration has them.
//!
//! Invariant: what the keyspace reads with each command is a plain store away from the
//! configuration.

use std::sync::atomic::Ordering;

use config::MaxmemoryPolicy;
use config::settings::{
    HASH_MAX_LISTPACK_ENTRIES, HASH_MAX_LISTPACK_VALUE, HLL_SPARSE_MAX_BYTES, IMPORT_MODE,
    LFU_DECAY_TIME, LFU_LOG_FACTOR, LIST_MAX_LISTPACK_SIZE, MAXMEMORY_POLICY,
    NOTIFY_KEYSPACE_EVENTS, PROTO_MAX_BULK_LEN, RDB_WRITE_VERSION, RDBCOMPRESSION,
    SET_MAX_INTSET_ENTRIES, SET_MAX_LISTPACK_ENTRIES, SET_MAX_LISTPACK_VALUE, STREAM_IDMP_DURATION,
    STREAM_IDMP_MAXSIZE, STREAM_NODE_MAX_BYTES, STREAM_NODE_MAX_ENTRIES, ZSET_MAX_LISTPACK_ENTRIES,
    ZSET_MAX_LISTPACK_VALUE,
};
use keyspace::AccessPolicy;
use persist::rdb::writes_redis_6;

use crate::observe::notifications;
use crate::runtime::{log, oom_score};
use crate::shared::Shared;

/// No string becomes longer, whatever `proto-max-bulk-len` says: its bits have to be counted.
const STRING_LEN_MAX: u64 = (1 << 60) - 1;

/// Hands the directives that shape the data to the keyspace: encodings, limits, eviction.
pub fn store_settings(server: &Shared) {
    let (config, settings) = (&server.config, server.keyspace.settings());
    let policy = match config.get(MAXMEMORY_POLICY) {
        MaxmemoryPolicy::AllkeysLfu | MaxmemoryPolicy::VolatileLfu => AccessPolicy::Frequency,
        MaxmemoryPolicy::AllkeysLrm | MaxmemoryPolicy::VolatileLrm => AccessPolicy::Changes,
        MaxmemoryPolicy::AllkeysApus => AccessPolicy::Worth,
        _ => AccessPolicy::Accesses,
    };
    settings.access_policy.store(policy as u8, Ordering::Relaxed);
    // Under another policy there may be keys to evict.
    server.memory.budget.note_exhausted(false);
    let events = notifications::mask(config.get(NOTIFY_KEYSPACE_EVENTS));
    settings.events.store(events, Ordering::Relaxed);
    // While a log is run again it says when keys go, and how long strings may be; and so does a
    // primary.
    let (replays, follows) = (settings.replays(), server.gates.replica_role.is_replica());
    settings.follows.store(follows, Ordering::Relaxed);
    let suspends = config.get(IMPORT_MODE) || replays || follows;
    settings.expiry_suspended.store(suspends, Ordering::Relaxed);
    let is_accepted = replays || follows;
    let longest = if is_accepted { STRING_LEN_MAX } else { config.get(PROTO_MAX_BULK_LEN) as u64 };
    settings.max_string.store(longest.min(STRING_LEN_MAX), Ordering::Relaxed);
    settings.lfu_log_factor.store(config.get(LFU_LOG_FACTOR), Ordering::Relaxed);
    settings.lfu_decay_time.store(config.get(LFU_DECAY_TIME), Ordering::Relaxed);
    settings.compresses_dumps.store(config.get(RDBCOMPRESSION), Ordering::Relaxed);
    let tells_redis_6 = writes_redis_6(config.get(RDB_WRITE_VERSION));
    settings.tells_redis_6.store(tells_redis_6, Ordering::Relaxed);
    let containers = &settings.containers;
    containers.hash_entries.set(config.get(HASH_MAX_LISTPACK_ENTRIES));
    containers.hash_value.set(config.get(HASH_MAX_LISTPACK_VALUE));
    containers.set_intset_entries.set(config.get(SET_MAX_INTSET_ENTRIES));
    containers.set_entries.set(config.get(SET_MAX_LISTPACK_ENTRIES));
    containers.set_value.set(config.get(SET_MAX_LISTPACK_VALUE));
    containers.sorted_set_entries.set(config.get(ZSET_MAX_LISTPACK_ENTRIES));
    containers.sorted_set_value.set(config.get(ZSET_MAX_LISTPACK_VALUE));
    containers.list_size.store(config.get(LIST_MAX_LISTPACK_SIZE), Ordering::Relaxed);
    containers.stream_node_bytes.set(config.get(STREAM_NODE_MAX_BYTES));
    containers.stream_node_entries.set(config.get(STREAM_NODE_MAX_ENTRIES));
    containers.stream_idmp_seconds.set(config.get(STREAM_IDMP_DURATION));
    containers.stream_idmp_size.set(config.get(STREAM_IDMP_MAXSIZE));
    containers.hyperloglog_sparse_bytes.set(config.get(HLL_SPARSE_MAX_BYTES));
}

/// Has what was accepted once be accepted again, whatever the configuration says of what comes now,
/// or has it count again.
pub fn set_replays(server: &Shared, replays: bool) {
    server.keyspace.settings().replays.store(replays, Ordering::Relaxed);
    store_settings(server);
}

/// Has this server follow a primary, or lead: whether keys expire and are evicted here, and whether
/// transactions write the journal or the link to the primary does. The world must be stopped, and a
/// transaction that has it must look at its views again. A server that leads behind a stream that
/// had selected another database turns to the first one by the journal's next record.
pub fn set_replica(server: &Shared, is_replica: bool) {
    server.gates.replica_role.set(is_replica);
    log::set_replica(is_replica);
    // The log says what could not be done.
    let _ = oom_score::adjust(&server.config, is_replica, &server.log);
    server.journal.set_follows(is_replica);
    server.keyspace.local_deadlines().restart(is_replica);
    store_settings(server);
    server.memory.budget.configure(&server.config, &server.gates.replica_role);
}
