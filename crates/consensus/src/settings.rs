//! What an operator or a test sets.

use std::time::Duration;

use openraft::{Config, SnapshotPolicy};

/// Entries that a message carries at most.
const MESSAGE_ENTRIES_MAX: u64 = 64;

/// The times and sizes of the map's Raft.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How often a leader tells that it is there.
    pub heartbeat: Duration,
    /// For so long, and up to twice that, a voter waits for a leader before it asks for votes.
    pub election_timeout: Duration,
    /// For so long a proposal, a read or a change of members is tried.
    pub request_timeout: Duration,
    /// After so many entries the map is written as a snapshot.
    pub snapshot_entries: u64,
    /// So many entries that the snapshot has stay in the log, for nodes that are a little late.
    pub kept_entries: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            heartbeat: Duration::from_millis(250),
            election_timeout: Duration::from_millis(1500),
            request_timeout: Duration::from_secs(5),
            snapshot_entries: 1000,
            kept_entries: 200,
        }
    }
}

impl Settings {
    /// The same for openraft, if times are in the order that it wants.
    pub(crate) fn config(&self) -> Result<Config, String> {
        let millis = |duration: Duration| duration.as_millis() as u64;
        let election_timeout = millis(self.election_timeout);
        let config = Config {
            cluster_name: "map".to_owned(),
            heartbeat_interval: millis(self.heartbeat),
            election_timeout_min: election_timeout,
            election_timeout_max: election_timeout * 2,
            install_snapshot_timeout: millis(self.request_timeout),
            max_payload_entries: MESSAGE_ENTRIES_MAX,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_entries),
            max_in_snapshot_log_to_keep: self.kept_entries,
            replication_lag_threshold: self.kept_entries,
            ..Config::default()
        };
        config.validate().map_err(|error| error.to_string())
    }
}
