//! The client libraries of other languages, run against a server. Invariant: what a suite passed
//! and failed is left in the environment's `reports`, so that CI can add it to its sum.

use std::process::Command;

use crate::environment::{folder, recorded, repository};
use crate::server::Server;

/// Runs the session of redis-py, sync and asyncio, in both protocols.
pub fn redis_py(server: &Server) {
    let script = repository().join("tests/clients/python/session.py");
    run("redis-py", Command::new(recorded("python")).arg(script), server);
}

/// Runs the session of ioredis.
pub fn ioredis(server: &Server) {
    let script = repository().join("tests/clients/npm/session.js");
    let libraries = recorded("npm").join("node_modules");
    let mut command = Command::new(recorded("node"));
    run("ioredis", command.arg(script).env("NODE_PATH", libraries), server);
}

/// Runs the session of go-redis in both protocols.
pub fn go_redis(server: &Server) {
    run("go-redis", &mut Command::new(recorded("go_session")), server);
}

/// Runs the session of Jedis.
pub fn jedis(server: &Server) {
    let script = repository().join("tests/clients/maven/Session.java");
    let libraries = recorded("java_libraries").join("*");
    let mut command = Command::new(recorded("java"));
    run("jedis", command.arg("-cp").arg(libraries).arg(script), server);
}

/// Runs a session, which ends with a line `N passed, N failed`, and reports it.
fn run(name: &str, command: &mut Command, server: &Server) {
    let output = command.arg(server.port().to_string()).output();
    let output = output.unwrap_or_else(|error| panic!("{name}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{text}{errors}", output.status);
    let count = text.lines().last().unwrap_or_default();
    report(name, count);
}

/// Leaves a suite's count (`N passed, N failed`) for `cargo xtask ci`.
pub fn report(name: &str, count: &str) {
    let reports = folder().join("reports");
    let written = std::fs::create_dir_all(&reports)
        .and_then(|()| std::fs::write(reports.join(name), format!("{count}\n")));
    written.unwrap_or_else(|error| panic!("{}: {error}", reports.display()));
}
