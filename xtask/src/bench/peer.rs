//! The servers that are compared: ours and its peers. Invariant: all get the same flags; the
//! process that answers is the one that is measured.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bench::outcome::ServerUsage;
use bench::usage::Watch;
use serde_json::Value;

use super::{pipe, process};
use crate::shell;

/// What all of them are started with: no persistence, room for the crowd of connections.
pub(super) const FLAGS: &[&str] =
    &["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--maxclients", "10100"];

const PATIENCE: Duration = Duration::from_secs(20);

/// For saving and loading gigabytes.
const LONG_PATIENCE: Duration = Duration::from_secs(300);

/// How often a server at work is asked: seldom enough to leave it alone.
const OFTEN: Duration = Duration::from_millis(20);

/// How often a starting server is asked: what a start takes is known to this.
const ASKING: Duration = Duration::from_millis(1);

/// A server that takes part: ours, or one that it is compared with.
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) version: String,
    pub(super) program: PathBuf,
}

/// How many threads of ours serve; peers have one that executes, whatever is said.
#[derive(Clone, Copy)]
pub(super) enum Workers {
    /// As many as the server chooses.
    Default,
    Exactly(usize),
}

/// Ours first, then the peers that `setup` has found.
pub(super) fn all(ours: PathBuf) -> Result<Vec<Peer>, String> {
    let mut peers = vec![Peer::new(OURS, ours)?];
    for (name, key) in [(REDIS_70, "redis70"), (REDIS_82, "redis82"), (VALKEY_91, "valkey91")] {
        peers.push(Peer::new(name, installed(key)?)?);
    }
    Ok(peers)
}

/// Ours, and an older build of it.
pub(super) fn before(ours: PathBuf, older: PathBuf) -> Result<Vec<Peer>, String> {
    Ok(vec![Peer::new(OURS, ours)?, Peer::new(BEFORE, older)?])
}

/// A program that `setup` has found, by its key.
pub(super) fn installed(key: &str) -> Result<PathBuf, String> {
    let file = shell::target().join("test-env/oracles.json");
    let text = fs::read_to_string(&file)
        .map_err(|error| format!("{}: {error}; run `cargo xtask setup`", file.display()))?;
    let paths: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let path = paths[key].as_str().ok_or_else(|| format!("oracles.json has no {key}"))?;
    Ok(PathBuf::from(path))
}

pub(super) const OURS: &str = "Apus";
/// An older build of ours.
pub(super) const BEFORE: &str = "Apus before";
pub(super) const REDIS_70: &str = "Redis 7.0";
pub(super) const REDIS_82: &str = "Redis 8.2";
pub(super) const VALKEY_91: &str = "Valkey 9.1";

impl Peer {
    pub(super) fn new(name: &'static str, program: PathBuf) -> Result<Self, String> {
        let banner = shell::output(&mut shell::command(&program, &["--version"]))?;
        let version = banner.lines().next().unwrap_or_default().to_owned();
        Ok(Self { name, version, program })
    }

    /// Starts the server on these cores and on a free port, and waits until it answers.
    pub(super) fn start(
        &self,
        cores: &str,
        workers: Workers,
        more: &[&str],
    ) -> Result<Running, String> {
        self.start_in(&shell::target().join("bench"), None, cores, (workers, more))
    }

    /// Starts the server with its folder below this one, and with this snapshot, which becomes its
    /// own.
    pub(super) fn start_in(
        &self,
        root: &Path,
        snapshot: Option<&Path>,
        cores: &str,
        (workers, more): (Workers, &[&str]),
    ) -> Result<Running, String> {
        let port = free_port()?;
        let folder = root.join(port.to_string());
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        if let Some(snapshot) = snapshot {
            let own = folder.join(SNAPSHOT);
            fs::rename(snapshot, own).map_err(|error| error.to_string())?;
        }
        let log = folder.join("log");
        let output = File::create(&log).map_err(|error| error.to_string())?;
        let mut command = Command::new("taskset");
        command.args(["-c", cores]).arg(&self.program).args(FLAGS).args(more);
        if let (OURS | BEFORE, Workers::Exactly(count)) = (self.name, workers) {
            command.args(["--worker-threads", &count.to_string()]);
        }
        command.args(["--port", &port.to_string(), "--dir"]).arg(&folder);
        command.stdout(output.try_clone().map_err(|error| error.to_string())?).stderr(output);
        let began = Instant::now();
        let child = command.spawn().map_err(|error| format!("taskset: {error}"))?;
        let mut running = Running { child, port, folder, started_in: Duration::ZERO };
        running.wait().map_err(|error| format!("{}: {error}; see {}", self.name, log.display()))?;
        running.started_in = began.elapsed();
        Ok(running)
    }

    /// Masters that share the slots of one cluster, one on each of these cores.
    pub(super) fn start_cluster(&self, cores: &[String]) -> Result<Vec<Running>, String> {
        let mut masters: Vec<Running> = Vec::new();
        for (index, core) in cores.iter().enumerate() {
            let bus = free_port()?;
            let flags = ["--cluster-enabled", "yes", "--cluster-port", &bus.to_string()];
            let master = self.start(core, Workers::Default, &flags)?;
            let slot = |index: usize| index * SLOTS / cores.len();
            let (first, last) = (slot(index).to_string(), (slot(index + 1) - 1).to_string());
            pipe::order(master.port, &["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
            if let Some(known) = masters.first() {
                let (port, bus) = (known.port.to_string(), known.bus()?);
                pipe::order(master.port, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
            }
            masters.push(master);
        }
        let deadline = Instant::now() + PATIENCE;
        for master in &masters {
            while !master.knows(masters.len())? {
                if Instant::now() > deadline {
                    return Err(format!("a cluster of {} does not come together", self.name));
                }
                sleep(Duration::from_millis(50));
            }
        }
        Ok(masters)
    }
}

const SLOTS: usize = 16_384;

/// What all servers call the snapshot in their folder.
const SNAPSHOT: &str = "dump.rdb";

/// A started server, which ends when dropped.
pub(super) struct Running {
    child: Child,
    pub(super) port: u16,
    folder: PathBuf,
    /// From its start to its first reply.
    pub(super) started_in: Duration,
}

impl Running {
    /// Its process id: `taskset` becomes the server, so it is the child's.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where its snapshots are.
    pub(super) fn snapshot(&self) -> PathBuf {
        self.folder.join(SNAPSHOT)
    }

    /// A field of a section of its INFO.
    pub(super) fn info(&self, section: &str, name: &str) -> Result<String, String> {
        let text = pipe::text(self.port, &["INFO", section])?;
        let value = process::field(&text, &format!("{name}:")).map(str::to_owned);
        value.ok_or_else(|| format!("INFO {section} has no {name}"))
    }

    /// A field of its INFO that is a number.
    pub(super) fn number(&self, section: &str, name: &str) -> Result<f64, String> {
        let value = self.info(section, name)?;
        value.parse().map_err(|_| format!("{name} is {value}"))
    }

    /// Waits, asking now and then, until a field of its INFO is this.
    pub(super) fn reaches(&self, section: &str, name: &str, value: &str) -> Result<(), String> {
        let deadline = Instant::now() + LONG_PATIENCE;
        while self.info(section, name)? != value {
            if Instant::now() > deadline {
                return Err(format!("{name} does not become {value}"));
            }
            sleep(OFTEN);
        }
        Ok(())
    }

    /// A look at its clocks.
    pub(super) fn watch(&self) -> Watch {
        Watch::of(&[self.pid()])
    }

    /// What the server has used since a look at its clocks.
    pub(super) fn used(&self, watch: &Watch) -> Result<ServerUsage, String> {
        watch.end().0.ok_or_else(|| format!("process {} is gone", self.pid()))
    }

    /// Its resident bytes.
    pub(super) fn resident(&self) -> Result<f64, String> {
        self.used(&self.watch()).map(|used| used.rss as f64)
    }

    /// Ends the server in order, so that it writes what it keeps for its end.
    pub(super) fn end(mut self) -> Result<(), String> {
        let said = pipe::line(&pipe::connect(self.port)?, &["SHUTDOWN", "NOSAVE"])?;
        if !said.is_empty() {
            return Err(format!("SHUTDOWN: {said}"));
        }
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("a server ended badly: {status}")) }
    }

    /// The port of its cluster bus.
    fn bus(&self) -> Result<String, String> {
        let nodes = pipe::text(self.port, &["CLUSTER", "NODES"])?;
        let bus = nodes.split('@').nth(1).and_then(|rest| rest.split([' ', ',']).next());
        bus.map(str::to_owned).ok_or_else(|| format!("it knows no bus: {nodes}"))
    }

    /// Whether its cluster is whole and of this size.
    fn knows(&self, masters: usize) -> Result<bool, String> {
        let state = pipe::text(self.port, &["CLUSTER", "INFO"])?;
        let is = |label: &str, value: &str| process::field(&state, label) == Some(value);
        Ok(is("cluster_state:", "ok") && is("cluster_known_nodes:", &masters.to_string()))
    }

    /// Waits for this very process to answer, since somebody else may have taken the port.
    fn wait(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("it ended at once: {status}"));
            }
            let answer = pipe::text(self.port, &["INFO", "server"]);
            if let Ok(text) = &answer {
                let pid = process::field(text, "process_id:").and_then(|pid| pid.parse().ok());
                let is_ours = pid == Some(self.pid());
                return if is_ours { Ok(()) } else { Err(format!("{pid:?} has its port")) };
            }
            if Instant::now() > deadline {
                return Err(format!("it does not answer: {answer:?}"));
            }
            sleep(ASKING);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The server keeps nothing, so it need not end in order; one that has ended already is no
        // fault.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A port that nobody listens on at this moment.
pub(super) fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}
