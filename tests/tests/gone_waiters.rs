//! What is over leaves nothing: sessions in the lines in which they waited for others, scripts with
//! the threads that ran them.

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

#[test]
fn scripts_that_were_flushed_leave_nothing_with_any_thread() {
    /// Each of half a megabyte.
    const SCRIPTS: usize = 40;
    let server = Server::start(&[]);
    let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
    let before = used(&mut clients[0]);
    let text = "x".repeat(500_000);
    let digests = (0..SCRIPTS).map(|number| {
        let source = format!("local text = [[{text}]] return {number}");
        let digest = clients[0].call(&["SCRIPT", "LOAD", &source]);
        String::from_utf8_lossy(digest.as_bytes().unwrap_or_default()).into_owned()
    });
    let digests: Vec<String> = digests.collect();
    let calls = |digests: &[String]| -> Vec<Vec<String>> {
        let words = |digest: &String| ["EVALSHA", digest, "0"].map(str::to_owned).to_vec();
        digests.iter().map(words).collect()
    };
    for client in &mut clients {
        client.pipeline(&calls(&digests));
    }
    // Within a transaction that leaves its worker, too.
    let long = ["EVAL", "for turn = 1, 1000000 do end return 1", "0"].map(str::to_owned).to_vec();
    let one = |word: &str| vec![vec![word.to_owned()]];
    let all = [one("MULTI"), vec![long], calls(&digests), one("EXEC")].concat();
    clients[0].pipeline(&all);
    assert!(used(&mut clients[0]) - before > (SCRIPTS * text.len()) as i64 / 2);
    clients[0].call(&["SCRIPT", "FLUSH"]);
    eventually("memory is what it was", || used(&mut clients[0]) - before < 4_000_000);
}
