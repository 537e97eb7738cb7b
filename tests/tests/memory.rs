//! MEMORY: what takes the memory, and advice.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use proto::value::Value;
use tests::server::eventually;
use tests::{Client, Duel, Oracle, Server, check};

const DEBUG: &[&str] = &["--enable-debug-command", "yes"];

/// Whatever has the same reply on Redis 8.2.
const COMMON: &str = r#"
    MEMORY
    MEMORY NOSUCH
    MEMORY HELP
    MEMORY HELP x
    MEMORY DOCTOR
    MEMORY DOCTOR x
    MEMORY PURGE
    MEMORY PURGE x
    MEMORY STATS x
    MEMORY MALLOC-STATS x
    MEMORY USAGE
    MEMORY USAGE nosuch
    SET k v
    MEMORY USAGE k SAMPLES
    MEMORY USAGE k SAMPLES x
    MEMORY USAGE k SAMPLES -1
    MEMORY USAGE k FOO 1
    MEMORY USAGE k SAMPLES 1 x
    MEMORY USAGE nosuch SAMPLES 0
    COMMAND GETKEYS MEMORY USAGE k
    COMMAND GETKEYSANDFLAGS MEMORY USAGE k SAMPLES 5
    COMMAND INFO memory|usage memory|stats memory|doctor memory|purge memory|help
"#;

#[test]
fn replies_are_those_of_redis() {
    for connect in [Server::client, Server::client3] {
        let (ours, theirs) = (Server::start(DEBUG), Oracle::Redis82.start(DEBUG));
        let mut duel = Duel::new(connect(&ours), connect(&theirs), 0);
        for line in COMMON.lines().map(str::trim).filter(|line| !line.is_empty()) {
            duel.run(base::quote::split_arguments(line.as_bytes()).unwrap());
        }
    }
}

fn names(client: &mut Client) -> Vec<String> {
    let Value::Map(fields) = client.call(&["MEMORY", "STATS"]) else { panic!("a map") };
    let name = |field: &Value| String::from_utf8(field.as_bytes().unwrap().to_vec()).unwrap();
    fields.iter().map(|(field, _)| name(field)).collect()
}

#[test]
fn stats_has_the_fields_of_redis() {
    let (ours, theirs) = (Server::start(DEBUG), Oracle::redis82());
    let (mut ours, mut theirs) = (ours.client3(), theirs.client3());
    for client in [&mut ours, &mut theirs] {
        check(client, "> SET k v EX 100\nOK\n> SELECT 3\nOK\n> SET k v\nOK");
    }
    assert_eq!(names(&mut ours), names(&mut theirs));
}

fn usage(client: &mut Client, key: &str) -> i64 {
    match client.call(&["MEMORY", "USAGE", key, "SAMPLES", "0"]) {
        Value::Integer(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn usage_grows_with_the_value() {
    let server = Server::start(DEBUG);
    let mut client = server.client();
    for (key, length) in [("short", 5), ("middle", 1000), ("long", 100_000)] {
        client.call(&["SET", key, &"x".repeat(length)]);
    }
    let [short, middle, long] = ["short", "middle", "long"].map(|key| usage(&mut client, key));
    assert!((16..64).contains(&short), "{short}");
    assert!((1000..1400).contains(&middle), "{middle}");
    assert!((100_000..120_000).contains(&long), "{long}");
    // Asking is no access.
    check(&mut client, "> OBJECT FREQ short\n~ (error) *");
}

#[test]
fn the_doctor_sees_a_peak() {
    let server = Server::start(DEBUG);
    let mut client = server.client3();
    check(&mut client, "> MEMORY DOCTOR\n~ Hi Sam, this instance is empty*");
    check(&mut client, "> DEBUG POPULATE 50000 a 500\nOK");
    client.call(&["MEMORY", "STATS"]);
    check(&mut client, "> FLUSHALL\nOK\n> DEBUG POPULATE 15000 a 500\nOK");
    let mut report = String::new();
    eventually("what was flushed is given back", || {
        let reply = client.call(&["MEMORY", "DOCTOR"]);
        report = String::from_utf8(reply.as_bytes().unwrap().to_vec()).unwrap();
        report.contains(" * Peak memory: In the past this instance used more than 150%")
    });
    assert!(report.ends_with("I'm here to keep you safe, Sam. I want to help you.\n"), "{report}");
    check(&mut client, "> MEMORY MALLOC-STATS\n~ Entries: * bytes used*\n...");
}

#[test]
fn small_blocks_go_back_to_the_system() {
    const MEGABYTE: u64 = 1 << 20;
    let server = Server::start(DEBUG);
    let mut client = server.client();
    for length in ["40", "1000"] {
        let before = server.resident();
        let keys = 100_000_000 / length.parse::<u64>().unwrap().max(400);
        check(&mut client, &format!("> DEBUG POPULATE {keys} key {length}\nOK"));
        let grown = server.resident() - before;
        check(&mut client, "> FLUSHALL\nOK\n> MEMORY PURGE\nOK");
        eventually("memory is given back", || {
            server.resident().saturating_sub(before) < grown / 4 + 8 * MEGABYTE
        });
    }
}
