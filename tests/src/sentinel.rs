//! Sentinels, ours and real ones, and the primaries with replicas that they watch.
//!
//! Invariant: a Sentinel that was started answers, and what it wrote into its file is read by the
//! next one that is started there, whichever program that is.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Instant;

use proto::value::Value;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::calls;
use crate::client::{Arrival, Client};
use crate::environment;
use crate::process::{PATIENCE, Process};
use crate::server::{Oracle, Server, eventually, free_port};

/// The name of the primary that is watched.
pub const NAME: &str = "watched";

/// The program that a Sentinel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentinelProgram {
    /// Ours.
    Apus,
    /// A real one.
    Stock(Oracle),
}

/// A running Sentinel with a folder of its own.
pub struct Sentinel {
    process: Process,
    port: u16,
    folder: TempDir,
}

impl SentinelProgram {
    fn path(self) -> PathBuf {
        match self {
            Self::Apus => environment::binary(),
            Self::Stock(oracle) => oracle.program(),
        }
    }

    /// Starts one that watches the primary of a world, which is down after two seconds.
    pub fn watch(self, world: &World, quorum: u32, more: &str) -> Sentinel {
        self.start(&format!("{}{more}", watch_lines(world.primary().port(), quorum)))
    }

    /// Starts one with these lines in its file.
    pub fn start(self, lines: &str) -> Sentinel {
        // Another process may take the free port before it does.
        for _ in 0..5 {
            let folder = tempfile::Builder::new().prefix("apus-test-").tempdir();
            let folder = folder.expect("a temporary folder can be made");
            let port = free_port();
            let text = format!("port {port}\nbind 127.0.0.1\n{lines}");
            std::fs::write(folder.path().join(FILE), text).expect("a new folder can be written to");
            if let Ok(sentinel) = self.start_in(folder, port) {
                return sentinel;
            }
        }
        panic!("{self:?} does not start")
    }

    fn start_in(self, folder: TempDir, port: u16) -> Result<Sentinel, String> {
        let file = folder.path().join(FILE).display().to_string();
        let arguments = [file, "--sentinel".to_owned()];
        let mut process = Process::spawn(&self.path(), &arguments, folder.path());
        let is_ready = |log: &str| log.contains("Sentinel ID is").then_some(());
        if process.wait_for_log(is_ready).is_none() {
            return Err(process.log());
        }
        match self {
            Self::Apus => calls::apus_listens(port),
            Self::Stock(_) => calls::oracle_listens(port),
        }
        Ok(Sentinel { process, port, folder })
    }
}

/// The name of a Sentinel's file.
const FILE: &str = "sentinel.conf";

/// Lines by which a primary is watched, which is down after two seconds: a real Sentinel may take
/// one second to connect to a new primary, and would fail over again.
pub fn watch_lines(port: u16, quorum: u32) -> String {
    format!(
        "sentinel monitor {NAME} 127.0.0.1 {port} {quorum}\n\
         sentinel down-after-milliseconds {NAME} 2000\n\
         sentinel failover-timeout {NAME} 10000\n"
    )
}

impl Sentinel {
    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What its file says now.
    pub fn file(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(FILE)).expect("its file is there")
    }

    /// All that the Sentinel has logged.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// What is logged comes later than what it tells of: waits until the log holds this text.
    #[track_caller]
    pub fn expect_log(&self, text: &str) {
        crate::server::expect_log(text, || self.log());
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(self.port)
    }

    /// A connection that hears all events from here on.
    pub fn listener(&self) -> Client {
        let mut client = self.client();
        client.call(&["PSUBSCRIBE", "*"]);
        client
    }

    /// One reply over a connection of its own.
    pub fn ask(&self, words: &[&str]) -> Value {
        self.client().call(words)
    }

    /// The port where it sees the primary.
    pub fn primary_port(&self) -> Option<u16> {
        let reply = self.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
        let Value::Array(items) = reply else { return None };
        std::str::from_utf8(items.get(1)?.as_bytes()?).ok()?.parse().ok()
    }

    /// A field of what it says of the primary.
    pub fn field(&self, field: &str) -> String {
        let reply = self.ask(&["SENTINEL", "MASTER", NAME]);
        field_of(&reply, field).unwrap_or_default()
    }

    /// Waits until it knows so many replicas and so many other Sentinels.
    pub fn meet(&self, replicas: usize, others: usize) {
        eventually("it knows all", || {
            let is = |field, count: usize| self.field(field) == count.to_string();
            // Nothing else is said of those that are reached.
            let reached = |list: &str, flags: &str| {
                let Value::Array(items) = self.ask(&["SENTINEL", list, NAME]) else { return false };
                items.iter().all(|item| field_of(item, "flags").as_deref() == Some(flags))
            };
            is("num-slaves", replicas)
                && is("num-other-sentinels", others)
                && reached("REPLICAS", "slave")
                && reached("SENTINELS", "sentinel")
        });
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("a child has an id"), signal).expect("a child takes signals");
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait()
    }

    /// Ends the Sentinel, unless it has ended, and starts a program with the file that it leaves.
    pub fn hand_over(mut self, to: SentinelProgram) -> Sentinel {
        if !self.process.has_ended() {
            self.signal(Signal::TERM);
            self.process.wait();
        }
        let port = self.port;
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().expect("a folder"));
        to.start_in(folder, port).unwrap_or_else(|log| panic!("{to:?} does not start:\n{log}"))
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let log = self.log();
        if std::thread::panicking() {
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(40)..];
            eprintln!("the end of the log of port {}:\n{}", self.port, tail.join("\n"));
            return;
        }
        assert!(!log.contains("panicked at"), "the Sentinel panicked:\n{log}");
    }
}

/// A field of an instance as SENTINEL shows it.
pub fn field_of(instance: &Value, field: &str) -> Option<String> {
    let text = |value: &Value| Some(String::from_utf8_lossy(value.as_bytes()?).into_owned());
    match instance {
        Value::Array(items) => items
            .chunks(2)
            .find(|pair| text(&pair[0]).as_deref() == Some(field))
            .map(|pair| &pair[1]),
        Value::Map(pairs) => {
            pairs.iter().find(|(name, _)| text(name).as_deref() == Some(field)).map(|it| &it.1)
        }
        _ => None,
    }
    .and_then(text)
}

/// An event: its name and its text.
pub type Heard = (String, String);

/// All events up to one of this name.
pub fn events_until(listener: &mut Client, last: &str) -> Vec<Heard> {
    let mut events = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(Arrival::Reply(Value::Array(items))) = listener.arrival(left) else {
            panic!("no {last}: {events:?}");
        };
        let text = |at: usize| {
            let bytes = items.get(at).and_then(Value::as_bytes).unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        events.push((text(2), text(3)));
        if text(2) == last {
            return events;
        }
    }
}

/// A primary with replicas, all of Redis 7.0; the first replica is the one to be promoted.
pub struct World {
    servers: Vec<Server>,
}

impl World {
    /// So many replicas, all with these arguments.
    pub fn start(replicas: usize, arguments: &[&str]) -> Self {
        let hasty = [&["--repl-diskless-sync-delay", "0"], arguments].concat();
        let primary = Oracle::Redis70.start(&hasty);
        let of = format!("127.0.0.1 {}", primary.port());
        let mut servers = vec![primary];
        for index in 0..replicas {
            let priority = (10 * (index + 1)).to_string();
            let own = ["--replicaof", &of, "--replica-priority", &priority];
            servers.push(Oracle::Redis70.start(&[&hasty, &own[..]].concat()));
        }
        Self { servers }
    }

    /// A primary with replicas of these programs, Apus where none is named.
    pub fn of(programs: &[Option<Oracle>]) -> Self {
        let start = |program: Option<Oracle>, arguments: &[&str]| {
            let all = [&["--repl-diskless-sync-delay", "0", "--save", ""], arguments].concat();
            match program {
                None => Server::start(&all),
                Some(oracle) => oracle.start(&all),
            }
        };
        let mut servers = vec![start(programs[0], &[])];
        let port = servers[0].port().to_string();
        for (index, program) in programs.iter().enumerate().skip(1) {
            let priority = (10 * index).to_string();
            let own = ["--replicaof", "127.0.0.1", &port, "--replica-priority", &priority];
            servers.push(start(*program, &own));
        }
        Self { servers }
    }

    /// The primary that it began with.
    pub fn primary(&self) -> &Server {
        &self.servers[0]
    }

    /// All servers, the first primary first.
    pub fn servers(&mut self) -> &mut [Server] {
        &mut self.servers
    }

    /// The port of a server, by its place.
    pub fn port(&self, index: usize) -> u16 {
        self.servers[index].port()
    }

    /// Whether a server is the replica of another and has its data.
    pub fn follows(&self, index: usize, of: u16) -> bool {
        let Ok(mut client) = Client::try_connect(self.port(index)) else { return false };
        let Ok(reply) = client.try_call(&["INFO", "replication"]) else { return false };
        let text = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
        let has = |line: &str| text.lines().any(|it| it == line);
        has("role:slave") && has(&format!("master_port:{of}")) && has("master_link_status:up")
    }

    /// A text with the ports of the servers by their places, and ids without their digits.
    pub fn without_ports(&self, text: &str) -> String {
        let words = text.split(' ').map(|word| {
            let mut word = word.to_owned();
            for (index, server) in self.servers.iter().enumerate() {
                word = word.replace(&server.port().to_string(), &format!("PORT{index}"));
            }
            let is_id = word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
            if is_id { "ID".to_owned() } else { word }
        });
        words.collect::<Vec<_>>().join(" ")
    }
}
