//! Work that a server is given while calls of it fail: writers with a ledger, changes of what can
//! be changed at run time, and what asks for threads and memory.
//!
//! Invariant: none of it takes a failed call for its own failure; each reply may be an error, or
//! the connection closed.

use std::time::{Duration, Instant};

use proto::value::Value;
use tempfile::TempDir;

use super::ledger::Ledger;
use super::subject::{BOUND, Subject};
use crate::Client;
use crate::server::free_port;

const WRITERS: usize = 3;

/// What a server is started with whose calls fail.
pub const ARGUMENTS: [&str; 14] = [
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
    "--save",
    "3600 1",
    "--worker-threads",
    "2",
    "--auto-aof-rewrite-percentage",
    "0",
    "--enable-debug-command",
    "local",
    "--enable-protected-configs",
    "yes",
];

/// A new folder with a configuration and a file of users.
pub fn folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("apus-test-").tempdir();
    let folder = folder.expect("a temporary folder can be made");
    let text = "aclfile users.acl\n";
    std::fs::write(folder.path().join("apus.conf"), text).expect("a new folder");
    std::fs::write(folder.path().join("users.acl"), "").expect("a new folder");
    folder
}

/// Waits until a field of INFO that counts what is under way says that nothing is.
pub fn await_idle(subject: &mut Subject, field: &str) {
    let deadline = Instant::now() + BOUND;
    while subject.info(field).is_some_and(|value| value != "0") && !subject.has_ended() {
        assert!(Instant::now() < deadline, "{field} for ever:\n{}", subject.log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Has writers fill a ledger, by so many steps each, and does something meanwhile.
pub fn write_while(
    subject: &mut Subject,
    ledger: &Ledger,
    steps: u64,
    meanwhile: impl FnOnce(&mut Subject),
) {
    let port = subject.port();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || ledger.write(port, writer, 0, steps));
        }
        meanwhile(subject);
    });
}

/// Changes what can be changed at run time.
pub fn steer(subject: &mut Subject) {
    let lines: [&[&str]; 9] = [
        &["CONFIG", "SET", "worker-threads", "4"],
        &["CONFIG", "SET", "bind", "127.0.0.1 127.0.0.2"],
        &["CONFIG", "SET", "maxclients", "20000"],
        &["CONFIG", "SET", "worker-threads", "1"],
        &["CONFIG", "SET", "appendonly", "no"],
        &["CONFIG", "SET", "appendonly", "yes"],
        &["CONFIG", "REWRITE"],
        &["ACL", "SETUSER", "somebody", "on", "+get"],
        &["ACL", "SAVE"],
    ];
    for words in lines {
        subject.ask(words);
    }
    let port = free_port();
    let moved = subject.ask(&["CONFIG", "SET", "port", &port.to_string()]);
    // Where the reply is lost somebody may listen there, too.
    let is_ok = moved.as_ref().is_some_and(|reply| *reply == Value::Simple("OK".into()));
    if is_ok || moved.is_none() && Client::try_connect(port).is_ok() {
        subject.moved_to(port);
    }
    await_idle(subject, "aof_rewrite_in_progress");
}

/// What asks for threads and memory.
pub fn work_hard(subject: &Subject) {
    const LONG: &str = "local n = 0 for i = 1, 3000 do n = n + #redis.call('GET', KEYS[1] .. i) end
        return n";
    const LOOP: &str = "local n = 0 for i = 1, 300000 do n = n + i end return n";
    let works: [&[&str]; 8] = [
        &["EVAL", LOOP, "0"],
        &["EVAL", LOOP, "1", "old:1"],
        &["EVAL", LONG, "1", "old:"],
        &["KEYS", "*"],
        &["SORT", "old:list", "LIMIT", "0", "1"],
        &["DEBUG", "DIGEST"],
        &["DEBUG", "POPULATE", "2000", "many", "100"],
        &["EVAL", LOOP, "1", "old:2"],
    ];
    std::thread::scope(|scope| {
        for words in works {
            scope.spawn(move || subject.ask(words));
        }
    });
}
