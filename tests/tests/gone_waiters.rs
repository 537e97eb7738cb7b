//! Sessions that are over leave nothing in the lines in which they waited for others.

use tests::server::eventually;
use tests::{Client, Server};

/// So many connections come, wait and go.
const CONNECTIONS: usize = 4000;

/// What a connection may leave, in bytes: a line is swept when it has doubled.
const LEFT: i64 = 60;

fn used(client: &mut Client) -> i64 {
    client.info("used_memory").parse().unwrap_or_default()
}

/// Has many connections send this and go: what memory grew by for each.
fn is_left_by(server: &Server, lines: &[&[&str]]) {
    let mut admin = server.client();
    let connect_all = |count: usize| {
        for _ in 0..count {
            let mut client = server.client();
            lines.iter().for_each(|words| client.send(words));
            client.receive();
        }
    };
    connect_all(CONNECTIONS / 4);
    let before = used(&mut admin);
    connect_all(CONNECTIONS);
    eventually("memory is what it was", || used(&mut admin) - before < LEFT * CONNECTIONS as i64);
}

#[test]
fn waits_for_replicas_that_never_come_leave_nothing() {
    let server = Server::start(&["--maxclients", "20000"]);
    is_left_by(&server, &[&["SET", "key", "value"], &["WAIT", "1", "0"]]);
    is_left_by(&server, &[&["SET", "key", "value"], &["WAITAOF", "0", "1", "0"]]);
}

#[test]
fn waits_for_the_end_of_a_pause_leave_nothing() {
    let server = Server::start(&["--maxclients", "20000"]);
    let mut admin = server.client();
    admin.call(&["CLIENT", "PAUSE", "3600000", "WRITE"]);
    is_left_by(&server, &[&["PING"], &["SET", "key", "value"]]);
}
