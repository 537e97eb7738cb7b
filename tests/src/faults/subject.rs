//! A server whose system calls may fail, so it may refuse to start, close connections and end.
//!
//! Invariant: whatever happens, each command is answered or its connection closed within a bound.

use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use proto::value::Value;
use rustix::process::{Pid, Signal, kill_process};

use super::Injector;
use crate::client::{Arrival, Client};
use crate::environment;
use crate::process::Process;
use crate::server::{common_arguments, listening_port};

/// How long a reply, a start and an end may take.
pub const BOUND: Duration = Duration::from_secs(30);

/// Such a server.
pub struct Subject {
    process: Process,
    port: u16,
    /// The injector, which may have calls of the server fail.
    pub injector: Injector,
}

impl Subject {
    /// Starts one in a folder with a configuration file, `apus.conf`, that is there.
    pub fn start(folder: &Path, mut injector: Injector, own: &[&str]) -> Self {
        let mut arguments = vec![folder.join("apus.conf").display().to_string()];
        arguments.extend(common_arguments(0, folder));
        arguments.extend(["--listen-on-any-port", "yes"].map(str::to_owned));
        arguments.extend(own.iter().map(|&word| word.to_owned()));
        let process =
            Process::spawn_under(&mut injector, &environment::binary(), &arguments, folder);
        Self { process, port: 0, injector }
    }

    /// Whether the server comes to serve, rather than to its end.
    pub fn serves(&mut self) -> bool {
        let port = self.process.wait_for_log(Self::port_in);
        self.port = port.unwrap_or(0);
        assert!(
            port.is_some() || self.process.has_ended(),
            "it neither serves nor ends:\n{}",
            self.log()
        );
        port.is_some()
    }

    /// The port that a log names, once it serves.
    pub fn port_in(log: &str) -> Option<u16> {
        log.contains("Ready to accept connections").then(|| listening_port(log)).flatten()
    }

    /// The port it was found to listen on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server listens somewhere else from now on.
    pub fn moved_to(&mut self, port: u16) {
        self.port = port;
    }

    /// All that the server has logged.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Whether its process is over.
    pub fn has_ended(&mut self) -> bool {
        self.process.has_ended()
    }

    /// The reply to a command on a connection of its own; none if that was closed.
    pub fn ask(&self, words: &[&str]) -> Option<Value> {
        let mut client = Client::try_connect(self.port).ok()?;
        ask(&mut client, words)
    }

    /// The same until it is answered in a way that is wanted.
    pub fn ask_until(&mut self, words: &[&str], is_wanted: impl Fn(&Value) -> bool) -> bool {
        let deadline = Instant::now() + BOUND;
        let mut last = None;
        while Instant::now() < deadline {
            last = self.ask(words);
            if last.as_ref().is_some_and(&is_wanted) {
                return true;
            }
            if self.has_ended() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{words:?} gets no other reply than {last:?}:\n{}", self.log());
    }

    /// What INFO says.
    pub fn info(&self, field: &str) -> Option<String> {
        let report = self.ask(&["INFO", "everything"])?;
        let report = String::from_utf8_lossy(report.as_bytes()?).into_owned();
        let found = report.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        found.map(|value| value.trim().to_owned())
    }

    /// Sends a signal, if it is there.
    pub fn signal(&mut self, signal: Signal) {
        if self.has_ended() {
            return;
        }
        let id = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("a child has an id"), signal).expect("a child takes signals");
    }

    /// Waits so long for its end.
    pub fn ends_within(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        while !self.has_ended() {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Waits for its end, and for all it had to say.
    pub fn wait(&mut self) -> ExitStatus {
        let status = self.process.wait();
        self.injector.join();
        status
    }

    /// Ends the server without a word.
    pub fn kill(&mut self) {
        self.process.kill();
        self.injector.join();
    }
}

/// The reply to a command; none if the connection was closed.
pub fn ask(client: &mut Client, words: &[&str]) -> Option<Value> {
    let bytes = crate::client::encode(words);
    client.try_send_raw(&bytes).ok()?;
    match client.arrival(BOUND) {
        Ok(Arrival::Reply(value)) => Some(value),
        Ok(Arrival::Silence) => panic!("no reply to {words:?}"),
        Ok(Arrival::Closed) | Err(_) => None,
    }
}
