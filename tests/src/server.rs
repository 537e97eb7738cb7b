//! Servers under test and the real ones they are compared with, both as one value.
//! Invariant: a started server answers PING; a dropped one is dead and left no panic behind.

use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};

use proto::value::Value;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::calls;
use crate::client::Client;
use crate::environment;
use crate::process::{PATIENCE, Process};

/// A running server with a folder of its own.
pub struct Server {
    process: Process,
    program: PathBuf,
    /// What the server was started with, for a start in the same folder again.
    arguments: Vec<String>,
    port: u16,
    /// The password that the harness itself needs, if any.
    password: Option<String>,
    is_oracle: bool,
    /// Whether its log may show a panic.
    may_panic: bool,
    folder: TempDir,
}

impl Server {
    /// Starts Apus on a free port with these further arguments.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_in(new_folder(), &[], arguments)
    }

    /// Starts Apus with a configuration file of this text.
    pub fn start_with_config(text: &str, arguments: &[&str]) -> Self {
        Self::start_configured(|_| {}, text, arguments)
    }

    /// The same in a folder that `prepare` puts files in before.
    pub fn start_configured(prepare: impl FnOnce(&Path), text: &str, arguments: &[&str]) -> Self {
        let folder = new_folder();
        prepare(folder.path());
        let file = folder.path().join("apus.conf");
        std::fs::write(&file, text).expect("a new folder can be written to");
        Self::start_in(folder, &[file.display().to_string()], arguments)
    }

    /// Starts Apus in a folder that `prepare` puts files in before.
    pub fn start_prepared(prepare: impl FnOnce(&Path), arguments: &[&str]) -> Self {
        let folder = new_folder();
        prepare(folder.path());
        Self::start_in(folder, &[], arguments)
    }

    /// Starts Apus with its folder on a disk of its own that is soon full, which this user must be
    /// allowed to mount. What lies there is gone with the process, and is seen by
    /// [`disk`](Self::disk).
    pub fn start_on_small_disk(megabytes: u32, arguments: &[&str]) -> Self {
        let unshare = |command: &[&str]| {
            let arguments = ["--map-root-user", "--mount"].iter().chain(command);
            arguments.map(|word| (*word).to_owned()).collect::<Vec<String>>()
        };
        let probe = Command::new("unshare").args(unshare(&["true"])).status();
        let may_mount = probe.is_ok_and(|status| status.success());
        assert!(may_mount, "this user may not mount: `unshare --map-root-user --mount` fails");
        let folder = new_folder();
        let path = folder.path().to_str().expect("a temporary folder has a simple name");
        let script =
            format!("mount -t tmpfs -o size={megabytes}m none {path} && cd {path} && exec \"$@\"");
        let binary = environment::binary().display().to_string();
        let first = unshare(&["sh", "-c", &script, "sh", &binary]);
        Self::start_program("unshare".into(), folder, &first, arguments)
    }

    fn start_in(folder: TempDir, first: &[String], own: &[&str]) -> Self {
        Self::start_program(environment::binary(), folder, first, own)
    }

    fn start_program(program: PathBuf, folder: TempDir, first: &[String], own: &[&str]) -> Self {
        let mut arguments = first.to_vec();
        arguments.extend(common_arguments(0, folder.path()));
        arguments.extend(["--listen-on-any-port", "yes"].map(str::to_owned));
        // On a slow machine a command that waits for another is no other than on a fast one.
        arguments.extend(["--busy-reply-threshold", "60000"].map(str::to_owned));
        // Tests fail to log in as often as they like.
        arguments.extend(["--failed-auth-delay", "0"].map(str::to_owned));
        arguments.extend(own.iter().map(|argument| (*argument).to_owned()));
        let process = Process::spawn(&program, &arguments, folder.path());
        let password = value_of("--requirepass", own).map(str::to_owned);
        let is_oracle = false;
        let mut server = Self {
            process,
            program,
            arguments,
            port: 0,
            password,
            is_oracle,
            may_panic: false,
            folder,
        };
        server.become_ready();
        server
    }

    /// Kills the server, as the system would: without a word before.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// A test has it panic: that is no failure.
    pub fn may_panic(&mut self) {
        self.may_panic = true;
    }

    /// Whether its process is over.
    pub fn has_ended(&mut self) -> bool {
        self.process.has_ended()
    }

    /// Starts the server again after its end, with the arguments it had, in the folder as it was
    /// left.
    pub fn restart(&mut self) {
        self.restart_hastily();
        self.become_ready();
    }

    /// As `restart`, and does not wait until it serves.
    pub fn restart_hastily(&mut self) {
        assert!(self.process.has_ended(), "one server at a time has the folder");
        let log = self.process.log();
        assert!(self.may_panic || !log.contains("panicked at"), "the server panicked:\n{log}");
        self.process = Process::spawn(&self.program, &self.arguments, self.folder.path());
    }

    /// Waits until it serves.
    pub fn become_ready(&mut self) {
        let (is_oracle, known_port) = (self.is_oracle, self.port);
        let port = self.process.wait_for_log(|log| {
            let is_ready = log.contains("Ready to accept connections");
            let port = || if is_oracle { Some(known_port) } else { listening_port(log) };
            is_ready.then(port).flatten()
        });
        let Some(port) = port else {
            let (program, log) = (self.program.display(), self.process.log());
            panic!("{program} {} does not start:\n{log}", self.arguments.join(" "));
        };
        self.port = port;
        if is_oracle { calls::oracle_listens(port) } else { calls::apus_listens(port) }
    }

    /// Runs Apus with arguments that must keep it from starting: its exit status and its output.
    pub fn refuses(arguments: &[&str]) -> (ExitStatus, String) {
        let folder = new_folder();
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        let mut process = Process::spawn(&environment::binary(), &arguments, folder.path());
        (process.wait(), process.log())
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the server is a real one, not the one under test.
    pub fn is_oracle(&self) -> bool {
        self.is_oracle
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Copies what it has saved into the folder of another one, which starts with it.
    pub fn snapshot(&self) -> impl Fn(&Path) + use<> {
        let bytes = std::fs::read(self.folder().join("dump.rdb")).expect("it has saved");
        move |folder| std::fs::write(folder.join("dump.rdb"), &bytes).expect("a new folder")
    }

    /// Its working folder, which also holds its data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its working folder as the process sees it, which may have mounted something there.
    pub fn disk(&self) -> PathBuf {
        let path = self.folder().strip_prefix("/").expect("a temporary folder is absolute");
        PathBuf::from(format!("/proc/{}/root", self.pid())).join(path)
    }

    /// How much memory it occupies, in bytes.
    pub fn resident(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// The most memory that it occupied since it was started.
    pub fn peak(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, field: &str) -> u64 {
        let file = format!("/proc/{}/status", self.pid());
        let status =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kilobytes =
            line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
        let kilobytes: u64 = kilobytes.expect("the kernel tells how much a process occupies");
        kilobytes * 1024
    }

    /// All that the server has logged.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// What is logged comes later than what it tells of: waits until the log holds this text.
    #[track_caller]
    pub fn expect_log(&self, text: &str) {
        expect_log(text, || self.log());
    }

    /// Waits until the log of a server that may end meanwhile holds this text.
    pub fn wait_for_log(&mut self, text: &str) {
        let found = self.process.wait_for_log(|log| log.contains(text).then_some(()));
        assert!(found.is_some(), "the log never says {text:?}:\n{}", self.log());
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(self.port)
    }

    /// A new connection that speaks RESP3.
    pub fn client3(&self) -> Client {
        let mut client = self.client();
        let reply = client.call(&["HELLO", "3"]);
        assert!(matches!(reply, Value::Map(_)), "HELLO 3: {reply:?}");
        client
    }

    /// Sends SIGTERM and waits for the end.
    pub fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.process.wait()
    }

    /// Waits for it to end by itself, for example after SHUTDOWN.
    pub fn wait(mut self) -> ExitStatus {
        self.process.wait()
    }

    /// Sends a signal. One that stops the process has done so: on a machine under load threads run
    /// on until one of them takes the signal.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("a child has an id"), signal).expect("a child takes signals");
        if signal == Signal::STOP {
            eventually("all threads stand still", || self.stands_still());
        }
    }

    /// Whether each thread of the process is stopped, as the kernel tells.
    fn stands_still(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let state = |stat: String| stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('T'));
        tasks.expect("the process is there").all(|task| {
            // A thread that is gone does nothing more.
            let stat = task.and_then(|task| std::fs::read_to_string(task.path().join("stat")));
            stat.map_or(true, |stat| state(stat).unwrap_or(false))
        })
    }

    /// How many panics INFO admits; 0 where it does not say or cannot be asked.
    fn panics(&mut self) -> u64 {
        if self.process.has_ended() {
            return 0;
        }
        let Ok(mut client) = Client::try_connect(self.port) else { return 0 };
        if let Some(password) = &self.password {
            client.call(&["AUTH", password]);
        }
        let reply = client.try_call(&["INFO", "everything"]);
        let text = reply.ok().and_then(|reply| reply.as_bytes().map(<[u8]>::to_vec));
        let text = String::from_utf8_lossy(&text.unwrap_or_default()).into_owned();
        let field = text.lines().find_map(|line| line.strip_prefix("panics:"));
        field.map_or(0, |count| count.trim().parse().unwrap_or(0))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(40)..];
            eprintln!("the end of the log of port {}:\n{}", self.port, tail.join("\n"));
            return;
        }
        if self.is_oracle || self.may_panic {
            return;
        }
        let panics = self.panics();
        self.process.kill();
        let log = self.log();
        assert!(panics == 0 && !log.contains("panicked at"), "the server panicked:\n{log}");
    }
}

/// A real server to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oracle {
    /// Redis 6.2, a peer of replication alone.
    Redis62,
    /// Redis 7.0, from Debian.
    Redis70,
    /// Redis 8.2.
    Redis82,
    /// Valkey 9.1.
    Valkey91,
}

impl Oracle {
    /// All that replies are compared with.
    pub const ALL: [Self; 3] = [Self::Redis70, Self::Redis82, Self::Valkey91];

    /// Starts Redis 7.0.
    pub fn redis70() -> Server {
        Self::Redis70.start(&[])
    }

    /// Starts Redis 8.2.
    pub fn redis82() -> Server {
        Self::Redis82.start(&[])
    }

    /// Starts Valkey 9.1.
    pub fn valkey91() -> Server {
        Self::Valkey91.start(&[])
    }

    /// Starts Apus and this server with the same further arguments.
    pub fn beside(self, arguments: &[&str]) -> [Server; 2] {
        [Server::start(arguments), self.start(arguments)]
    }

    /// Starts the server with these further arguments. Nothing is kept on disk unless they say so.
    pub fn start(self, arguments: &[&str]) -> Server {
        self.start_prepared(|_| {}, arguments)
    }

    /// Starts the server in a folder that `prepare` puts files in before.
    pub fn start_prepared(self, prepare: impl Fn(&Path), arguments: &[&str]) -> Server {
        let program = self.program();
        // Another process may take the free port before the server does.
        for _ in 0..5 {
            if let Some(server) = self.try_start(&program, &prepare, arguments) {
                return server;
            }
        }
        panic!("{self:?} ({}) does not start", program.display());
    }

    /// Its binary.
    pub fn program(self) -> PathBuf {
        environment::recorded(match self {
            Self::Redis62 => "redis62",
            Self::Redis70 => "redis70",
            Self::Redis82 => "redis82",
            Self::Valkey91 => "valkey91",
        })
    }

    fn try_start(
        self,
        program: &Path,
        prepare: impl Fn(&Path),
        arguments: &[&str],
    ) -> Option<Server> {
        let folder = new_folder();
        prepare(folder.path());
        let port = free_port();
        let mut all = common_arguments(port, folder.path());
        all.extend(["--save", "", "--appendonly", "no"].map(str::to_owned));
        all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        let mut process = Process::spawn(program, &all, folder.path());
        process.wait_for_log(|log| log.contains("Ready to accept connections").then_some(()))?;
        calls::oracle_listens(port);
        let password = value_of("--requirepass", arguments).map(str::to_owned);
        let (program, is_oracle) = (program.to_path_buf(), true);
        Some(Server {
            process,
            program,
            arguments: all,
            port,
            password,
            is_oracle,
            may_panic: false,
            folder,
        })
    }
}

/// Where ports are taken from that a server is told: below those from which the system takes what
/// connects, so that no connection has one before its server does; ten thousand above lies that of
/// a cluster's bus.
const TOLD_PORTS: RangeInclusive<u16> = 10_000..=22_000;

/// A port that nobody listens on at this moment, and that this process has given to nobody else
/// lately.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Two processes begin at different places.
    let (first, count) = (*TOLD_PORTS.start(), TOLD_PORTS.len() as u32);
    let begin = std::process::id().wrapping_mul(997);
    for _ in 0..count {
        let given = GIVEN.fetch_add(1, Ordering::Relaxed);
        let port = first + (begin.wrapping_add(given) % count) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("the loopback has no free port")
}

pub(crate) fn common_arguments(port: u16, folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let port = port.to_string();
    ["--port", &port, "--bind", "127.0.0.1", "--dir", &folder].map(str::to_owned).to_vec()
}

/// The port of the line `Listening on 127.0.0.1:PORT`, or of that for all addresses.
pub(crate) fn listening_port(log: &str) -> Option<u16> {
    let heads = ["Listening on 127.0.0.1:", "Listening on 0.0.0.0:"];
    let (_, after) = heads.iter().find_map(|head| log.split_once(head))?;
    let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    after[..end].parse().ok()
}

/// What follows a directive on the command line.
fn value_of<'a>(directive: &str, arguments: &[&'a str]) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| *argument == directive)?;
    arguments.get(at + 1).copied()
}

fn new_folder() -> TempDir {
    tempfile::Builder::new().prefix("apus-test-").tempdir().expect("a temporary folder can be made")
}

/// Waits until `condition` holds; fails with `what` when it never does.
pub(crate) fn expect_log(text: &str, log: impl Fn() -> String) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !log().contains(text) {
        assert!(std::time::Instant::now() < deadline, "the log never says {text:?}:\n{}", log());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Waits until something is so.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "never: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
