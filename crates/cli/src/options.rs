//! What `apus cli` was asked for: redis-cli's flags, and the command behind them.
//!
//! Invariant: options are complete and do not contradict each other; words are bytes, since keys
//! are.

mod flags;
mod modes;
mod parse;
#[cfg(test)]
mod tests;
mod uri;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use flags::help;
pub(crate) use parse::Request;

/// How replies are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// For people: types are shown, strings are quoted.
    Standard,
    /// For programs: nothing but the bytes.
    Raw,
    /// A line of comma-separated values.
    Csv,
    /// JSON, with text as it is.
    Json,
    /// JSON that is ASCII.
    QuotedJson,
}

/// What is done instead of sending one command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mode {
    /// The command of the command line, or those that are typed.
    Commands,
    /// `--scan`.
    Scan,
    /// `--eval`, of this file.
    Eval(PathBuf),
    /// `--eval` and `--ldb`, of this file.
    Debug(PathBuf, Debugging),
    /// `--latency`.
    Latency,
    /// `--latency-history`.
    LatencyHistory,
    /// `--latency-dist`.
    LatencySpectrum,
    /// `--intrinsic-latency`, for so long.
    IntrinsicLatency(Duration),
    /// `--lru-test`, with so many keys.
    LruTest(u64),
    /// `--stat`.
    Stat,
    /// `--pipe`.
    Pipe,
    /// `--bigkeys`.
    BigKeys,
    /// `--memkeys`.
    MemoryKeys,
    /// `--keystats`.
    KeyStats,
    /// `--hotkeys`.
    HotKeys,
    /// `--rdb` and `--functions-rdb`, to this file.
    Snapshot(PathBuf, SnapshotContent),
    /// `--replica`.
    Replica,
}

/// What a script that is debugged does to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Debugging {
    /// Nothing: what it has changed is rolled back.
    Forked,
    /// The script does what it does otherwise, and no other client is served meanwhile.
    Synchronous,
}

/// What of a server's data is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotContent {
    /// All of it.
    Everything,
    /// The libraries of functions.
    Functions,
}

/// How encrypted connections are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Encryption {
    pub(crate) sni: Option<String>,
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) authorities_folder: Option<PathBuf>,
    pub(crate) trusts_all: bool,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) ciphers: Option<String>,
    pub(crate) suites: Option<String>,
}

/// The user that the client says to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

/// Whose arguments come from the standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum FromStdin {
    /// None.
    #[default]
    Nothing,
    /// The last argument.
    Last,
    /// The argument that is this word.
    Tag(String),
}

/// What `apus cli` was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) socket: Option<PathBuf>,
    /// How long a connection may take to be made.
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) login: Login,
    /// Whether the password stood on the command line.
    pub(crate) shows_password: bool,
    pub(crate) asks_password: bool,
    pub(crate) warns_of_password: bool,
    pub(crate) database: u64,
    /// The protocol that was asked for.
    pub(crate) protocol: Option<u8>,
    pub(crate) is_encrypted: bool,
    pub(crate) encryption: Encryption,
    /// How often the command runs; for ever if there is no number.
    pub(crate) repeat: Option<u64>,
    pub(crate) interval: Option<Duration>,
    pub(crate) from_stdin: FromStdin,
    /// What stands between elements of a raw reply, and behind the reply.
    pub(crate) element_delimiter: Vec<u8>,
    pub(crate) reply_delimiter: Vec<u8>,
    pub(crate) follows_redirections: bool,
    pub(crate) fails_on_errors: bool,
    pub(crate) output: Option<Output>,
    pub(crate) quoted_input: bool,
    pub(crate) shows_pushes: Option<bool>,
    pub(crate) mode: Mode,
    pub(crate) pattern: Option<Vec<u8>>,
    /// `--count`: how much SCAN looks at in one call.
    pub(crate) scan_count: Option<u64>,
    /// `--cursor`: where a scan begins.
    pub(crate) cursor: u64,
    /// `--top`: how many of the greatest keys are told.
    pub(crate) top: usize,
    /// How many elements of a container its size is guessed from; 0 for all.
    pub(crate) memory_samples: Option<u64>,
    /// How long `--pipe` waits for replies after all is sent; for ever if there is no time.
    pub(crate) pipe_timeout: Option<Duration>,
    /// `--ldb` and `--ldb-sync-mode`.
    pub(crate) debugging: Option<Debugging>,
    /// The command and its arguments.
    pub(crate) words: Vec<Vec<u8>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 6379,
            socket: None,
            connect_timeout: None,
            login: Login::default(),
            shows_password: false,
            asks_password: false,
            warns_of_password: true,
            database: 0,
            protocol: None,
            is_encrypted: false,
            encryption: Encryption::default(),
            repeat: Some(1),
            interval: None,
            from_stdin: FromStdin::Nothing,
            element_delimiter: b"\n".to_vec(),
            reply_delimiter: b"\n".to_vec(),
            follows_redirections: false,
            fails_on_errors: false,
            output: None,
            quoted_input: false,
            shows_pushes: None,
            mode: Mode::Commands,
            pattern: None,
            scan_count: None,
            cursor: 0,
            top: 10,
            memory_samples: None,
            pipe_timeout: Some(Duration::from_secs(30)),
            debugging: None,
            words: Vec::new(),
        }
    }
}

impl Options {
    /// Changes how encrypted connections are made; whether they are is said by `--tls`.
    fn encryption_with(&mut self, change: impl FnOnce(&mut Encryption)) -> Result<(), String> {
        change(&mut self.encryption);
        Ok(())
    }

    /// The server, for messages.
    pub(crate) fn server(&self) -> String {
        match &self.socket {
            Some(path) => path.display().to_string(),
            None if self.host.contains(':') => format!("[{}]:{}", self.host, self.port),
            None => format!("{}:{}", self.host, self.port),
        }
    }
}
