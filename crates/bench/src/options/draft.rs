//! The settings of a command line while it is read. Invariant: a draft holds what was said and
//! the defaults, nothing that follows from several flags together: that is `check`'s.

use std::time::Duration;

use super::{
    CustomCommand, DataSize, Encryption, KeyPattern, Keys, Load, Mix, Options, Output, Protocol,
    Statsd, Until, Values, Verify,
};

/// An unfinished `Options`, and the flags that only make sense together with others.
pub(super) struct Draft {
    pub(super) options: Options,
    /// The long names of the flags that were given.
    pub(super) given: Vec<&'static str>,
    pub(super) requests: Option<Until>,
    pub(super) test_time: Option<Duration>,
    pub(super) sizes: Vec<DataSize>,
    pub(super) sizes_by_key: bool,
    pub(super) commands: Vec<CustomCommand>,
    pub(super) clients_start: u32,
    pub(super) clients_step: u32,
    pub(super) step_duration: Duration,
    pub(super) wait_ratio: (u32, u32),
    pub(super) wait_replicas: (u32, u32),
    pub(super) wait_timeout_ms: (u32, u32),
    pub(super) statsd: Statsd,
    pub(super) no_expiry: bool,
    pub(super) address: Option<Uri>,
    pub(super) is_encrypted: bool,
    pub(super) encryption: Encryption,
}

/// What a URI names: each part overrides the flag that says the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Uri {
    pub(super) server: String,
    pub(super) port: Option<u16>,
    pub(super) authenticate: Option<(Option<String>, String)>,
    pub(super) database: Option<u32>,
    pub(super) is_encrypted: bool,
}

impl Draft {
    pub(super) fn new() -> Self {
        Self {
            options: Options::default(),
            given: Vec::new(),
            requests: None,
            test_time: None,
            sizes: Vec::new(),
            sizes_by_key: false,
            commands: Vec::new(),
            clients_start: 0,
            clients_step: 0,
            step_duration: Duration::ZERO,
            wait_ratio: (1, 0),
            wait_replicas: (0, 0),
            wait_timeout_ms: (0, 0),
            statsd: Statsd {
                host: String::new(),
                port: 8125,
                prefix: "memtier".into(),
                label: "default".into(),
            },
            no_expiry: false,
            address: None,
            is_encrypted: false,
            encryption: Encryption::default(),
        }
    }

    /// Whether this flag was given.
    pub(super) fn has(&self, long: &str) -> bool {
        self.given.contains(&long)
    }

    /// The first of these flags that was given.
    pub(super) fn first_of(&self, longs: &[&'static str]) -> Option<&'static str> {
        longs.iter().copied().find(|long| self.has(long))
    }

    /// The command that a flag about commands is about: the last one before it.
    pub(super) fn last_command(&mut self, flag: &str) -> Result<&mut CustomCommand, String> {
        let missing = format!("error: {flag} must follow the command that it is about.");
        self.commands.last_mut().ok_or(missing)
    }
}

/// memtier_benchmark's own.
impl Default for Options {
    fn default() -> Self {
        Self {
            server: "127.0.0.1".into(),
            port: 6379,
            unix_socket: None,
            family: None,
            encryption: None,
            protocol: Protocol::Redis,
            authenticate: None,
            database: 0,
            threads: 4,
            clients: 50,
            until: Until::Requests(10_000),
            pipeline: 1,
            reconnect_interval: None,
            rate_limit: None,
            open_loop: None,
            silence_limit: Duration::from_secs(60),
            ramp: None,
            cluster: false,
            run_count: 1,
            against: Vec::new(),
            load: Load::default(),
            output: Output::default(),
        }
    }
}

impl Default for Load {
    fn default() -> Self {
        Self {
            mix: Mix::Ratio { set: 1, get: 10 },
            wait: None,
            keys: Keys {
                prefix: b"memtier-".to_vec(),
                minimum: 0,
                maximum: 10_000_000,
                patterns: (KeyPattern::Random, KeyPattern::Random),
                median: None,
                stddev: None,
                zipf_exponent: 1.0,
            },
            values: Values { size: DataSize::Fixed(32), offset: 0, random: false, expiry: None },
            multi_key_get: 0,
            verify: Verify::No,
            distinct_client_seed: false,
            randomize: false,
        }
    }
}

impl Default for Output {
    fn default() -> Self {
        Self {
            file: None,
            json: None,
            html: None,
            hdr_prefix: None,
            client_stats: None,
            hide_histogram: false,
            percentiles: vec![50.0, 99.0, 99.9],
            all_runs: false,
            show_config: false,
            debug: false,
            statsd: None,
            progress: true,
        }
    }
}
