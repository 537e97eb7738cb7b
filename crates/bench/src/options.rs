//! The words of a command line as a value. Invariant: an `Options` that `parse` returned is
//! consistent: everything that excludes something else was refused there, with memtier's reason.

mod check;
mod draft;
mod encryption;
mod flags;
mod help;
mod parse;
#[cfg(test)]
mod tests;
mod texts;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use help::{help, version};

/// Everything that one run needs to know. Defaults are memtier_benchmark's.
#[derive(Clone, Debug)]
pub struct Options {
    /// `-s`, default 127.0.0.1. Several addresses of a name are tried in turn.
    pub server: String,
    /// `-p`, default 6379.
    pub port: u16,
    /// `-S`: used instead of server and port.
    pub unix_socket: Option<PathBuf>,
    /// `-4`, `-6`: addresses of one family only.
    pub family: Option<Family>,
    /// `--tls`.
    pub encryption: Option<Encryption>,
    /// `-P`.
    pub protocol: Protocol,
    /// User and password of `-a` (`PASS` or `USER:PASS`) or of the URI.
    pub authenticate: Option<(Option<String>, String)>,
    /// `--select-db`.
    pub database: u32,
    /// `-t`, default 4.
    pub threads: u32,
    /// `-c`: connections per thread, default 50.
    pub clients: u32,
    /// When to stop.
    pub until: Until,
    /// `--pipeline`: requests under way per connection, default 1.
    pub pipeline: u32,
    /// `--reconnect-interval`: requests after which a connection is closed and made anew.
    pub reconnect_interval: Option<u64>,
    /// `--rate-limiting`: requests per second per connection (memtier's meaning).
    pub rate_limit: Option<u64>,
    /// `--open-loop RATE` (ours): requests per second over all connections, sent by the clock and
    /// timed from when they should have been sent.
    pub open_loop: Option<f64>,
    /// `--silence-limit` (ours), default 60 s: without any reply for so long the run is given up;
    /// zero waits for ever.
    pub silence_limit: Duration,
    /// `--clients-start`, `--clients-step`, `--step-duration`: clients per thread grow in steps.
    pub ramp: Option<Ramp>,
    /// `--cluster-mode`.
    pub cluster: bool,
    /// `-x`, default 1.
    pub run_count: u32,
    /// `--against` (ours): servers that get the same load in turn with the first.
    pub against: Vec<Peer>,
    /// What is sent.
    pub load: Load,
    /// What is printed and written.
    pub output: Output,
}

/// `-4` or `-6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `-4`.
    Ipv4,
    /// `-6`.
    Ipv6,
}

/// How connections are encrypted. A server's certificate is compared with the authorities, and with
/// no name, as memtier does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encryption {
    /// `--cert`: what the client shows.
    pub certificate: Option<PathBuf>,
    /// `--key`.
    pub key: Option<PathBuf>,
    /// `--cacert`: the authorities that are trusted.
    pub authorities: Option<PathBuf>,
    /// `--tls-skip-verify`: any certificate will do.
    pub trusts_all: bool,
    /// `--tls-protocols`, as OpenSSL names them, between blanks; all where it is empty.
    pub protocols: String,
    /// `--tls-resume` (ours): what is agreed with a server goes for its next connections.
    pub resumes: bool,
    /// `--sni`: the name that is told to the server.
    pub sni: Option<String>,
}

/// A server of `--against`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its host.
    pub server: String,
    /// Its port.
    pub port: u16,
}

/// `-P`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `redis`: RESP2 without a `HELLO`.
    Redis,
    /// `resp2`: `HELLO 2` first.
    Resp2,
    /// `resp3`: `HELLO 3` first.
    Resp3,
    /// `memcache_text`: the classic text protocol of memcached.
    MemcacheText,
    /// `memcache_binary`: the binary protocol of memcached.
    MemcacheBinary,
}

/// When a run is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Until {
    /// `-n`: so many requests per connection (default 10,000).
    Requests(u64),
    /// `-n allkeys`: until every key of the range was written once.
    AllKeys,
    /// `--test-time`.
    Time(Duration),
}

/// Growing numbers of connections per thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ramp {
    /// Connections per thread at the beginning.
    pub start: u32,
    /// How many come at each step, up to `clients`.
    pub step: u32,
    /// How long a step lasts.
    pub every: Duration,
}

/// What is sent: requests, keys and values.
#[derive(Clone, Debug)]
pub struct Load {
    /// The kinds of request, and how many of each in turn.
    pub mix: Mix,
    /// `--wait-ratio`, `--num-slaves`, `--wait-timeout`.
    pub wait: Option<Wait>,
    /// Keys.
    pub keys: Keys,
    /// Values.
    pub values: Values,
    /// `--multi-key-get`: keys per MGET; 0 sends GET.
    pub multi_key_get: u32,
    /// `--data-verify`, `--verify-only`.
    pub verify: Verify,
    /// `--distinct-client-seed`.
    pub distinct_client_seed: bool,
    /// `--randomize`: other seeds in each run.
    pub randomize: bool,
}

/// Which requests, in which proportion.
#[derive(Clone, Debug, PartialEq)]
pub enum Mix {
    /// `--ratio SET:GET`, default 1:10.
    Ratio {
        /// SETs in turn.
        set: u32,
        /// GETs in turn.
        get: u32,
    },
    /// `--command`, each with its ratio and key pattern.
    Commands(Vec<CustomCommand>),
}

/// One `--command`.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomCommand {
    /// Its words, with `__key__` and `__data__` where they are to be filled in.
    pub words: Vec<Vec<u8>>,
    /// `--command-ratio`, default 1.
    pub ratio: u32,
    /// `--command-key-pattern`, default R.
    pub key_pattern: KeyPattern,
}

/// `WAIT` requests among the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// So many SETs, then so many `WAIT`s: `--wait-ratio SETS:WAITS`.
    pub ratio: (u32, u32),
    /// `--num-slaves`, a range.
    pub replicas: (u32, u32),
    /// `--wait-timeout`, a range in milliseconds.
    pub timeout_ms: (u32, u32),
}

/// Which keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Keys {
    /// `--key-prefix`, default `memtier-`.
    pub prefix: Vec<u8>,
    /// `--key-minimum`, default 0.
    pub minimum: u64,
    /// `--key-maximum`, included; default 10,000,000, at most `i64::MAX`.
    pub maximum: u64,
    /// `--key-pattern SET:GET`, default R:R.
    pub patterns: (KeyPattern, KeyPattern),
    /// `--key-median`: of pattern G; the middle of the range unless given.
    pub median: Option<f64>,
    /// `--key-stddev`: of pattern G; a sixth of the range unless given.
    pub stddev: Option<f64>,
    /// `--key-zipf-exp`: of pattern Z, between 0 and 5, default 1.
    pub zipf_exponent: f64,
}

/// How the next key is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPattern {
    /// R: uniform.
    Random,
    /// S: one after the other, every connection by itself.
    Sequential,
    /// P: sequential, each connection over its own part of the range.
    Parallel,
    /// G: normal distribution.
    Gaussian,
    /// Z: Zipf, by the number of the key: key 0 is left out, 1 is the most frequent.
    Zipf,
}

/// Which values.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// Sizes.
    pub size: DataSize,
    /// `--data-offset`: write by SETRANGE, read by GETRANGE, at this offset.
    pub offset: u32,
    /// `-R`: random bytes instead of `x`.
    pub random: bool,
    /// `--expiry-range`: seconds. Without one under `--no-expiry`.
    pub expiry: Option<(u32, u32)>,
}

/// Sizes of values in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum DataSize {
    /// `-d`, default 32.
    Fixed(u32),
    /// `--data-size-range MIN-MAX`; `--data-size-pattern` R (anew each time) or S (by key).
    Range {
        /// Smallest.
        minimum: u32,
        /// Largest.
        maximum: u32,
        /// Pattern S: the size grows with the key's number, over the key range.
        by_key: bool,
    },
    /// `--data-size-list SIZE:WEIGHT,...`.
    List(Vec<(u32, u32)>),
}

/// Whether values that are read are compared with what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// No.
    No,
    /// `--data-verify`: write as the ratio says, then read everything back and compare.
    AfterWriting,
    /// `--verify-only`: only read and compare.
    Only,
}

/// What is printed and written.
#[derive(Clone, Debug)]
pub struct Output {
    /// `-o`: the report goes there rather than to the standard output.
    pub file: Option<PathBuf>,
    /// `--json-out-file`.
    pub json: Option<PathBuf>,
    /// `--html-out-file` (ours): one self-contained page with plots.
    pub html: Option<PathBuf>,
    /// `--hdr-file-prefix`.
    pub hdr_prefix: Option<PathBuf>,
    /// `--client-stats`: prefix of a file per connection.
    pub client_stats: Option<PathBuf>,
    /// `--hide-histogram`.
    pub hide_histogram: bool,
    /// `--print-percentiles`, default 50, 99, 99.9.
    pub percentiles: Vec<f64>,
    /// `--print-all-runs`.
    pub all_runs: bool,
    /// `--show-config`.
    pub show_config: bool,
    /// `-D`.
    pub debug: bool,
    /// `--statsd-*`.
    pub statsd: Option<Statsd>,
    /// Whether the progress is told on the standard error: drawn on a terminal, a line now and then
    /// elsewhere.
    pub progress: bool,
}

/// `--statsd-host`, `--statsd-port`, `--statsd-prefix`, `--statsd-run-label`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statsd {
    /// Where to send; loopback in every test.
    pub host: String,
    /// Default 8125.
    pub port: u16,
    /// Default `memtier`.
    pub prefix: String,
    /// Default `default`.
    pub label: String,
}

/// What a command line asks for.
#[derive(Clone, Debug)]
pub enum Request {
    /// A run.
    Run(Box<Options>),
    /// A preset of several runs: its name and its own words.
    Preset(String, Vec<String>),
    /// `--help`.
    Help,
    /// `--version`.
    Version,
}

impl Family {
    /// Whether an address is of this family.
    #[must_use]
    pub fn holds(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == Self::Ipv4)
    }
}
