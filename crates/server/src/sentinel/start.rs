//! The begin and the end of a Sentinel's thread.
//!
//! Invariant: what is wrong in the configuration file is told before anybody is served.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use base::Random;
use base::io_error_text::strerror;
use config::settings::{LOGLEVEL, REQUIREPASS, TLS_PORT, TLS_REPLICATION};
use config::{ConfigLine, LogLevel, Source};
use engine::runtime::log::log_notice;
use rustix::fs::{Access, access};
use sentinel::{ConfigError, Level, Options, Sentinel};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use super::driver::{ChangeLogLevel, Driver, now};
use super::file;
use super::requests::SentinelRequest;
use crate::net::network::Network;

/// A Sentinel that runs.
pub(crate) struct RunningSentinel {
    stop: oneshot::Sender<()>,
    /// Closed when the thread has ended.
    over: mpsc::Receiver<()>,
}

impl RunningSentinel {
    /// Begins to watch, on a thread of its own, when the port is known.
    pub(crate) fn begin(
        server: &'static Network,
        requests: UnboundedReceiver<SentinelRequest>,
        change_log_level: ChangeLogLevel,
        runtime: Runtime,
    ) -> Result<Self, String> {
        let text = file::read(server).map_err(|error| strerror(&error))?;
        let begun = Sentinel::start(options(server), &text, now(server), Random::from_entropy());
        let (sentinel, actions) = begun.map_err(|error| refusal(server, error))?;
        log_notice!(server.log, "Running mode=sentinel, port={}.", server.identity.port());
        let (stop, stopped) = oneshot::channel();
        let (runs, over) = mpsc::channel();
        let work = move || {
            let _runs: mpsc::Sender<()> = runs;
            runtime.block_on(async move {
                let driver = Driver::new(server, change_log_level, sentinel, requests, stopped);
                driver.run(actions).await;
            });
            // Hosts that are being looked up are not waited for.
            runtime.shutdown_background();
        };
        thread::Builder::new()
            .name("sentinel".to_owned())
            .spawn(work)
            .map_err(|error| format!("Cannot start the Sentinel's thread: {}", strerror(&error)))?;
        Ok(Self { stop, over })
    }

    /// Ends the thread where it is not in the middle of anything, which is waited for.
    pub(crate) fn end(self, patience: Duration) {
        // The thread may have ended already.
        let _ = self.stop.send(());
        // Nothing is ever sent: either it has ended, or patience has.
        let _ = self.over.recv_timeout(patience);
    }
}

fn options(server: &Network) -> Options {
    let password = server.config.get(REQUIREPASS);
    let log_level = match server.config.get(LOGLEVEL) {
        LogLevel::Debug => Level::Debug,
        LogLevel::Verbose => Level::Verbose,
        LogLevel::Notice => Level::Notice,
        LogLevel::Warning => Level::Warning,
        LogLevel::Nothing => Level::Nothing,
    };
    Options {
        port: match (server.config.get(TLS_REPLICATION), server.config.get(TLS_PORT)) {
            (true, port @ 1..) => port,
            _ => server.identity.port(),
        },
        requirepass: (!password.is_empty()).then(|| password.to_vec()),
        log_level,
        is_executable: Box::new(|path| {
            Path::new(path).is_file() && access(path, Access::EXEC_OK).is_ok()
        }),
    }
}

fn refusal(server: &Network, error: ConfigError) -> String {
    let path = server.config.path().unwrap_or(Path::new("")).to_owned();
    let place = ConfigLine { source: Source::File(path), line: error.line, text: error.text };
    place.refuse(error.reason).to_string()
}
