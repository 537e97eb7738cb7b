//! The directives of replication, as the engines take them.

use config::Config;
use config::settings::{
    CLIENT_OUTPUT_BUFFER_LIMIT, MIN_REPLICAS_MAX_LAG, MIN_REPLICAS_TO_WRITE, REPL_BACKLOG_TTL,
    REPL_DISKLESS_SYNC, REPL_DISKLESS_SYNC_DELAY, REPL_DISKLESS_SYNC_MAX_REPLICAS,
    REPL_PING_REPLICA_PERIOD, REPL_RDB_CHANNEL, REPL_TIMEOUT,
};
use replication::primary::{OutputLimit, PrimarySettings};

const SECOND_MS: u64 = 1000;

/// What a primary looks at.
pub(super) fn of_primary(config: &Config) -> PrimarySettings {
    PrimarySettings {
        timeout_ms: u64::from(config.get(REPL_TIMEOUT)) * SECOND_MS,
        ping_period_ms: u64::from(config.get(REPL_PING_REPLICA_PERIOD)) * SECOND_MS,
        backlog_ttl_ms: config.get(REPL_BACKLOG_TTL).saturating_mul(SECOND_MS),
        diskless: config.get(REPL_DISKLESS_SYNC),
        diskless_delay_ms: u64::from(config.get(REPL_DISKLESS_SYNC_DELAY)) * SECOND_MS,
        diskless_replicas_max: config.get(REPL_DISKLESS_SYNC_MAX_REPLICAS),
        rdb_channel: config.get(REPL_RDB_CHANNEL),
        replicas_min: config.get(MIN_REPLICAS_TO_WRITE),
        lag_max_ms: u64::from(config.get(MIN_REPLICAS_MAX_LAG)) * SECOND_MS,
    }
}

/// What may wait for one replica.
pub(super) fn output_limit(config: &Config) -> OutputLimit {
    let limit = config.get(CLIENT_OUTPUT_BUFFER_LIMIT).replica;
    OutputLimit {
        hard: limit.hard,
        soft: limit.soft,
        soft_ms: limit.soft_seconds.saturating_mul(SECOND_MS),
    }
}
