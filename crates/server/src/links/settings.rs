//! The directives of replication, as the engines take them.

use config::Config;
use config::DisklessLoad;
use config::settings::{
    APPENDONLY, CLIENT_OUTPUT_BUFFER_LIMIT, DUAL_CHANNEL_REPLICATION_ENABLED, MASTERAUTH,
    MASTERUSER, MIN_REPLICAS_MAX_LAG, MIN_REPLICAS_TO_WRITE, RDB_WRITE_VERSION, REPL_BACKLOG_TTL,
    REPL_DISKLESS_LOAD, REPL_DISKLESS_SYNC, REPL_DISKLESS_SYNC_DELAY,
    REPL_DISKLESS_SYNC_MAX_REPLICAS, REPL_PING_REPLICA_PERIOD, REPL_RDB_CHANNEL, REPL_TIMEOUT,
    REPLICA_ANNOUNCE_IP, REPLICA_ANNOUNCE_PORT, REPLICA_FULL_SYNC_BUFFER_LIMIT, TLS_PORT,
    TLS_REPLICATION,
};
use persist::rdb::writes_redis_6;
use replication::primary::{OutputLimit, PrimarySettings};
use replication::replica::{LoadMode, ReplicaSettings};

use crate::net::network::Network;

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
        dual_channel: config.get(DUAL_CHANNEL_REPLICATION_ENABLED),
        writes_redis_6: writes_redis_6(config.get(RDB_WRITE_VERSION)),
        replicas_min: config.get(MIN_REPLICAS_TO_WRITE),
        lag_max_ms: u64::from(config.get(MIN_REPLICAS_MAX_LAG)) * SECOND_MS,
    }
}

/// The version of Valkey that we name to primaries that choose the form of their data by it.
const VALKEY: &str = "9.0.0";

/// What a replica looks at.
pub(super) fn of_replica(server: &Network) -> ReplicaSettings {
    let config = &server.config;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let given = |bytes: &[u8]| Some(bytes.to_vec()).filter(|bytes| !bytes.is_empty());
    let announced = Some(config.get(REPLICA_ANNOUNCE_PORT)).filter(|port| *port != 0);
    ReplicaSettings {
        user: given(&config.get(MASTERUSER)),
        password: given(&config.get(MASTERAUTH)),
        listening_port: announced.unwrap_or(own_port(server)),
        announced_ip: given(&config.get(REPLICA_ANNOUNCE_IP)).map(|ip| text(&ip)),
        valkey_version: Some(VALKEY),
        cluster_node: server.cluster_duties.get().map(|node| node.own_name()),
        timeout_ms: u64::from(config.get(REPL_TIMEOUT)) * SECOND_MS,
        load: load_mode(server),
        rdb_channel: config.get(REPL_RDB_CHANNEL),
        dual_channel: config.get(DUAL_CHANNEL_REPLICATION_ENABLED),
        held_max: held_max(config),
        has_aof: config.get(APPENDONLY),
        databases: server.keyspace.database_count() as u32,
        ..ReplicaSettings::default()
    }
}

/// How data of a full sync that come now are taken in.
pub(super) fn load_mode(server: &Network) -> LoadMode {
    match server.config.get(REPL_DISKLESS_LOAD) {
        // Nothing is lost by what is loaded at once.
        DisklessLoad::OnEmptyDb if server.keyspace.is_empty() => LoadMode::Flush,
        DisklessLoad::Disabled | DisklessLoad::OnEmptyDb => LoadMode::Disk,
        DisklessLoad::SwapDb => LoadMode::Swap,
        DisklessLoad::FlushBeforeLoad | DisklessLoad::FlushDb => LoadMode::Flush,
    }
}

/// The port that others are told: that of TLS where they come by it.
fn own_port(server: &Network) -> u16 {
    let encrypted = server.config.get(TLS_PORT);
    let is_secret = server.config.get(TLS_REPLICATION) && encrypted != 0;
    if is_secret { encrypted } else { server.identity.port() }
}

/// How much of a stream may be held until its data are loaded; zeros are no limit.
fn held_max(config: &Config) -> u64 {
    let given = config.get(REPLICA_FULL_SYNC_BUFFER_LIMIT);
    let fallback = config.get(CLIENT_OUTPUT_BUFFER_LIMIT).replica.hard;
    [given, fallback].into_iter().find(|limit| *limit != 0).unwrap_or(u64::MAX)
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
