//! What the configuration says of replicas.
//!
//! Invariant: times are milliseconds, a zero where a thing is off.

/// The directives that a primary looks at.
#[derive(Clone, Debug)]
pub struct PrimarySettings {
    /// `repl-timeout`.
    pub timeout_ms: u64,
    /// `repl-ping-replica-period`.
    pub ping_period_ms: u64,
    /// `repl-backlog-ttl`; 0 keeps the backlog for ever.
    pub backlog_ttl_ms: u64,
    /// `repl-diskless-sync`.
    pub diskless: bool,
    /// `repl-diskless-sync-delay`.
    pub diskless_delay_ms: u64,
    /// `repl-diskless-sync-max-replicas`; 0 waits for the delay always.
    pub diskless_replicas_max: usize,
    /// Whether a replica that can is told to fetch its snapshot on a second connection, as Redis
    /// 8 does.
    pub rdb_channel: bool,
    /// Whether the same is done as Valkey does it.
    pub dual_channel: bool,
    /// Whether `rdb-write-version` asks for what Redis 6.2 loads.
    pub writes_redis_6: bool,
    /// `min-replicas-to-write`.
    pub replicas_min: usize,
    /// `min-replicas-max-lag`, in milliseconds.
    pub lag_max_ms: u64,
}

impl Default for PrimarySettings {
    fn default() -> Self {
        Self {
            timeout_ms: 60_000,
            ping_period_ms: 10_000,
            backlog_ttl_ms: 3_600_000,
            diskless: true,
            diskless_delay_ms: 5_000,
            diskless_replicas_max: 0,
            rdb_channel: false,
            dual_channel: false,
            writes_redis_6: false,
            replicas_min: 0,
            lag_max_ms: 10_000,
        }
    }
}

/// `client-output-buffer-limit replica`; zeros are no limits.
#[derive(Clone, Copy, Debug)]
pub struct OutputLimit {
    /// Bytes that close a link at once. A limit below the backlog's size is read as that size.
    pub hard: u64,
    /// Bytes that close a link in time.
    pub soft: u64,
    /// After how long.
    pub soft_ms: u64,
}
