//! The client libraries of other languages, run against a server: sessions of ours, and the
//! suites that the libraries carry themselves. Invariant: what passed and failed is left in the
//! environment's `reports`, so that CI can add it to its sum.

mod exclusions;
mod suites;

pub use suites::{go_redis_suite, redis_py_suite};

use std::process::Command;

use crate::environment::{folder, recorded, repository};
use crate::process::Process;
use crate::sentinel::{NAME, Sentinel, World};
use crate::server::Server;

/// The Unix socket, in the server's own folder, that sessions use where there is one.
pub const SOCKET: &str = "server.sock";

/// Runs the session of redis-py, sync and asyncio, in both protocols.
pub fn redis_py(server: &Server) {
    let script = repository().join("tests/clients/python/session.py");
    run("redis-py", Command::new(recorded("python")).arg(script), server);
}

/// Runs the session of ioredis.
pub fn ioredis(server: &Server) {
    node("ioredis", "session.js", server);
}

/// Runs a day of libraries that live on scripts: BullMQ, Redlock, a rate limiter.
pub fn script_users(server: &Server) {
    node("script-users", "users.js", server);
}

/// A client library that finds a primary by a Sentinel.
#[derive(Clone, Copy, Debug)]
pub enum SentinelClient {
    /// Of Python.
    RedisPy,
    /// Of JavaScript.
    Ioredis,
    /// Of Java.
    Jedis,
    /// Of Go.
    GoRedis,
}

/// Has a client write by way of a Sentinel, lets the primary end, and waits until the client writes
/// somewhere else.
pub fn through_failover(client: SentinelClient, sentinel: &Sentinel, world: &mut World) {
    let script = |path: &str| repository().join("tests/clients").join(path).display().to_string();
    let mut command = match client {
        SentinelClient::RedisPy => {
            let mut command = Command::new(recorded("python"));
            command.arg(script("python/failover.py"));
            command
        }
        SentinelClient::Ioredis => {
            let mut command = Command::new(recorded("node"));
            let libraries = recorded("npm").join("node_modules");
            command.arg(script("npm/failover.js")).env("NODE_PATH", libraries);
            command
        }
        SentinelClient::Jedis => {
            let mut command = Command::new(recorded("java"));
            let libraries = recorded("java_libraries").join("*");
            command.arg("-cp").arg(libraries).arg(script("maven/Failover.java"));
            command
        }
        SentinelClient::GoRedis => {
            let mut command = Command::new(recorded("go_session"));
            command.arg("failover");
            command
        }
    };
    command.args([&sentinel.port().to_string(), NAME]);
    let mut process = Process::of(&mut command);
    let says = |process: &mut Process, word: &str| {
        let said = process.wait_for_log(|log| log.contains(word).then_some(()));
        assert!(said.is_some(), "{client:?} never says {word}:\n{}", process.log());
    };
    says(&mut process, "ready");
    world.servers()[0].kill();
    says(&mut process, "moved");
    assert!(process.wait().success(), "{client:?}:\n{}", process.log());
}

fn node(name: &str, script: &str, server: &Server) {
    let script = repository().join("tests/clients/npm").join(script);
    let libraries = recorded("npm").join("node_modules");
    let mut command = Command::new(recorded("node"));
    run(name, command.arg(script).env("NODE_PATH", libraries), server);
}

/// Runs the session of go-redis in both protocols.
pub fn go_redis(server: &Server) {
    run("go-redis", &mut Command::new(recorded("go_session")), server);
}

/// Runs the session of rueidis, which keeps copies of what it reads.
pub fn rueidis(server: &Server) {
    run("rueidis", &mut Command::new(recorded("rueidis_session")), server);
}

/// Runs the session of Jedis in both protocols.
pub fn jedis(server: &Server) {
    let script = repository().join("tests/clients/maven/Session.java");
    let libraries = recorded("java_libraries").join("*");
    let mut command = Command::new(recorded("java"));
    run("jedis", command.arg("-cp").arg(libraries).arg(script), server);
}

/// Has clients work on the same keys at once, and checks what they saw with Porcupine.
pub fn linearizable(server: &Server, operations: usize, seed: u64) {
    let arguments = [u64::from(server.port()), operations as u64, seed].map(|it| it.to_string());
    let output = Command::new(recorded("linearizable")).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("linearizable: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}{errors}", output.status);
    if !server.is_oracle() {
        report("porcupine", text.lines().last().unwrap_or_default());
    }
}

/// The same through failovers, between two nodes with these ports: what has WAIT behind it. The
/// caller fails over again and again, until all is done; what was printed.
pub fn linearizable_through_failovers(
    ports: [u16; 2],
    operations: usize,
    seed: u64,
    mut fail_over: impl FnMut(),
) -> String {
    let mut command = Command::new(recorded("linearizable"));
    let numbers = [operations as u64, seed, u64::from(ports[0]), u64::from(ports[1])];
    command.arg("failover").args(numbers.map(|it| it.to_string()));
    let mut process = Process::of(&mut command);
    while !process.has_ended() {
        fail_over();
    }
    let text = process.log();
    assert!(process.wait().success(), "{text}");
    report("porcupine-failover", text.lines().last().unwrap_or_default());
    text
}

/// Runs a session, which ends with a line `N passed, N failed`, and reports it. Its arguments are
/// the port, the Unix socket or `-`, and `newest` where the server knows Redis 8.10's commands.
fn run(name: &str, command: &mut Command, server: &Server) {
    let socket = server.folder().join(SOCKET);
    let socket = if socket.exists() { socket.display().to_string() } else { "-".to_owned() };
    let level = if server.is_oracle() { "stable" } else { "newest" };
    let output = command.args([&server.port().to_string(), &socket, level]).output();
    let output = output.unwrap_or_else(|error| panic!("{name}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{text}{errors}", output.status);
    if !server.is_oracle() {
        report(name, text.lines().last().unwrap_or_default());
    }
}

/// Leaves a suite's count (`N passed, N failed`) for `cargo xtask ci`.
pub fn report(name: &str, count: &str) {
    let reports = folder().join("reports");
    let written = std::fs::create_dir_all(&reports)
        .and_then(|()| std::fs::write(reports.join(name), format!("{count}\n")));
    written.unwrap_or_else(|error| panic!("{}: {error}", reports.display()));
}
