//! What the users' programs see: sessions of client libraries of memcached, each with the real one
//! and then with ours, which is started by the command line of memcached. And our own generator.

use std::process::Command;

use tests::clients::report;
use tests::environment::{binary, recorded, repository};
use tests::memcached::Memcached;

/// Runs a session, which ends with a line `N passed, N failed`, with both servers.
fn sessions(name: &str, command: impl Fn() -> Command) {
    run(name, command(), &Memcached::start(&[]));
    let count = run(name, command(), &Memcached::start_ours(&[]));
    report(name, &count);
}

fn run(name: &str, mut command: Command, server: &Memcached) -> String {
    let output = command.arg(server.port().to_string()).output();
    let output = output.unwrap_or_else(|error| panic!("{name}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let log = server.log();
    assert!(output.status.success(), "{name}: {}\n{text}{errors}\n{log}", output.status);
    text.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn pymemcache_sessions() {
    sessions("pymemcache", || python("memcached.py"));
}

#[test]
fn python_memcached_sessions() {
    sessions("python-memcached", || python("pure_memcached.py"));
}

fn python(session: &str) -> Command {
    let mut command = Command::new(recorded("python"));
    command.arg(repository().join("tests/clients/python").join(session));
    command
}

#[test]
fn gomemcache_sessions() {
    sessions("gomemcache", || Command::new(recorded("gomemcache_session")));
}

#[test]
fn memjs_sessions() {
    sessions("memjs", || {
        let mut command = Command::new(recorded("node"));
        command.env("NODE_PATH", recorded("memjs").join("node_modules"));
        command.arg(repository().join("tests/clients/memjs/session.js"));
        command
    });
}

#[test]
fn spymemcached_sessions() {
    sessions("spymemcached", || {
        let mut command = Command::new(recorded("java"));
        command.arg("-cp").arg(recorded("spymemcached_libraries").join("*"));
        command.arg(repository().join("tests/clients/spymemcached/Session.java"));
        command
    });
}

/// What `apus bench` has written it reads back from both servers, in both protocols that it speaks.
#[test]
fn our_generator() {
    for server in [Memcached::start(&[]), Memcached::start_ours(&[])] {
        for protocol in ["memcache_text", "memcache_binary"] {
            let mut command = Command::new(binary());
            command.args(["bench", "-p", &server.port().to_string(), "-P", protocol]);
            command.args(["-t", "2", "-c", "3", "-n", "300", "--pipeline", "7", "--ratio", "1:1"]);
            command.args(["--key-maximum", "50", "--data-size-range", "1-9000", "--data-verify"]);
            let output = command.arg("--hide-histogram").output().expect("it runs");
            let text = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{protocol}: {text}{errors}");
            let totals = text.lines().find(|line| line.starts_with("Totals"));
            assert!(totals.is_some(), "{protocol}: {text}");
        }
    }
}
