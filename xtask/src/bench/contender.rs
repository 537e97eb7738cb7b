//! The servers that are compared: ours and its peers. Invariant: all get the same flags and the
//! same core; the process that answers is the one that is measured.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{pipe, process};
use crate::shell;

/// The core that every server runs on; the generator has the next one.
pub(super) const CORE: &str = "0";

/// What all of them are started with: no persistence, room for the crowd of connections.
pub(super) const FLAGS: &[&str] =
    &["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--maxclients", "10100"];

const PATIENCE: Duration = Duration::from_secs(20);

/// A server that can be started.
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) version: String,
    /// The flags it gets beyond those of all.
    pub(super) own_flags: &'static [&'static str],
    program: PathBuf,
}

/// Ours first, then the peers that `setup` has found.
pub(super) fn all() -> Result<Vec<Contender>, String> {
    let file = shell::target().join("test-env/oracles.json");
    let text = fs::read_to_string(&file)
        .map_err(|error| format!("{}: {error}; run `cargo xtask setup`", file.display()))?;
    let paths: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let ours = shell::target().join("release/apus");
    let mut contenders = vec![Contender::new("Apus", ours, &["--worker-threads", "1"])?];
    for (name, key) in
        [("Redis 7.0", "redis70"), ("Redis 8.2", "redis82"), ("Valkey 9.1", "valkey91")]
    {
        let path = paths[key].as_str().ok_or_else(|| format!("oracles.json has no {key}"))?;
        contenders.push(Contender::new(name, PathBuf::from(path), &[])?);
    }
    Ok(contenders)
}

impl Contender {
    fn new(
        name: &'static str,
        program: PathBuf,
        own_flags: &'static [&'static str],
    ) -> Result<Self, String> {
        let banner = shell::output(&mut shell::command(&program, &["--version"]))?;
        let version = banner.lines().next().unwrap_or_default().to_owned();
        Ok(Self { name, version, own_flags, program })
    }

    /// Starts it on its core and on a free port, and waits until it answers.
    pub(super) fn start(&self) -> Result<Running, String> {
        let port = free_port()?;
        let folder = shell::target().join("bench").join(self.name.replace(' ', "-"));
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let log = folder.join("log");
        let output = File::create(&log).map_err(|error| error.to_string())?;
        let mut command = Command::new("taskset");
        command.args(["-c", CORE]).arg(&self.program).args(FLAGS).args(self.own_flags);
        command.args(["--port", &port.to_string(), "--dir"]).arg(&folder);
        command.stdout(output.try_clone().map_err(|error| error.to_string())?).stderr(output);
        let child = command.spawn().map_err(|error| format!("taskset: {error}"))?;
        let mut running = Running { child, port };
        running.wait().map_err(|error| format!("{}: {error}; see {}", self.name, log.display()))?;
        Ok(running)
    }
}

/// A started server; it ends when dropped.
pub(super) struct Running {
    child: Child,
    pub(super) port: u16,
}

impl Running {
    /// Its process id: `taskset` becomes the server, so it is the child's.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for this very process to answer, since somebody else may have taken the port.
    fn wait(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("it ended at once: {status}"));
            }
            let answer = pipe::connect(self.port).and_then(|stream| pipe::info(&stream, "server"));
            if let Ok(text) = &answer {
                let pid = process::field(text, "process_id:").and_then(|pid| pid.parse().ok());
                let is_ours = pid == Some(self.pid());
                return if is_ours { Ok(()) } else { Err(format!("{pid:?} has its port")) };
            }
            if Instant::now() > deadline {
                return Err(format!("it does not answer: {answer:?}"));
            }
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It keeps nothing, so it need not end in order; one that has ended already is no fault.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}
