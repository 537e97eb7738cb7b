//! A primary that was replaced while it was down acknowledges nothing when it starts again, however
//! long its data take to be loaded.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use tests::client::encode;
use tests::cluster::{Program, ask, ask_by};
use tests::server::eventually;
use tests::shards::{Shards, is_linked};

/// The slot of `foo`.
const SLOT: i64 = 12_182;
/// So many keys are loaded, in three seconds: longer than a node that starts waits for others.
const KEYS: usize = 150;
const DELAY: &[&str] = &[
    "--key-load-delay",
    "20000",
    "--enable-debug-command",
    "yes",
    "--cluster-require-full-coverage",
    "no",
];

/// What a node answers to a write on a connection of its own; nothing where nobody listens.
fn write_to(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(&encode(&["RPUSH", "{foo}list", "x"])).ok()?;
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.last() != Some(&b'\n') {
        stream.read_exact(&mut byte).ok()?;
        line.extend(byte);
    }
    Some(String::from_utf8_lossy(&line).into_owned())
}

#[test]
fn a_replaced_primary_acknowledges_nothing_when_it_starts() {
    let mut shards = Shards::start(Program::Apus, DELAY, SLOT);
    let mut client = shards.of(0).client();
    for key in 0..KEYS {
        assert_eq!(ask_by(&mut client, &format!("SET {{foo}}{key} x")), "OK");
    }
    assert_eq!(ask_by(&mut client, "SAVE"), "OK");
    eventually("the replica has all", || {
        is_linked(shards.of(1)) && ask(shards.of(1), "DBSIZE") == format!("(integer) {KEYS}")
    });
    drop(client);
    shards.replace(0);
    eventually("the replica serves", || ask(shards.of(1), "SET {foo}new x") == "OK");
    let place = shards.places[0];
    shards.nodes[place].restart_hastily();
    let port = shards.nodes[place].port();
    // Each write is refused until the node knows that it is none to take it.
    for _ in 0..10_000 {
        match write_to(port) {
            Some(line) if line.starts_with("-MOVED ") => return,
            Some(line) => assert!(line.starts_with('-'), "acknowledged: {line}"),
            None => {}
        }
        sleep(Duration::from_millis(2));
    }
    panic!("the node never sent clients on");
}
