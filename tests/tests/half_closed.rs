//! Clients that end their side of the connection behind their requests: what was done before is
//! answered, whatever the last request waits for.

use proto::value::Value;
use tests::client::encode;
use tests::server::eventually;
use tests::{Oracle, Server};

/// What comes back for these requests when nothing comes behind them.
fn answers(server: &Server, requests: &[&[&str]]) -> Vec<u8> {
    let mut client = server.client();
    client.send_raw(&requests.iter().flat_map(|words| encode(words)).collect::<Vec<_>>());
    client.end_sending();
    client.receive_to_close()
}

#[test]
fn what_was_written_before_a_wait_is_acknowledged_once_it_is_safe() {
    const OPTIONS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
    let waits: [&[&str]; 4] = [
        &["BLPOP", "nothing", "0"],
        &["BLPOP", "nothing", "0.05"],
        &["XREAD", "BLOCK", "0", "STREAMS", "nothing", "0"],
        &["BLMOVE", "nothing", "other", "LEFT", "LEFT", "0"],
    ];
    for server in Oracle::Redis82.beside(&OPTIONS) {
        for wait in waits {
            for _ in 0..10 {
                let requests: [&[&str]; 4] = [&["SET", "k", "v"], &["GET", "k"], wait, &["PING"]];
                let answers = answers(&server, &requests);
                assert_eq!(answers.escape_ascii().to_string(), r"+OK\r\n$1\r\nv\r\n", "{wait:?}");
            }
        }
    }
}

#[test]
fn a_pause_keeps_nobody_from_the_answers_before_it() {
    const OPTIONS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
    for server in Oracle::Redis82.beside(&OPTIONS) {
        let mut admin = server.client();
        admin.call(&["SET", "k", "v"]);
        admin.call(&["CLIENT", "PAUSE", "100000", "WRITE"]);
        for _ in 0..10 {
            let requests: [&[&str]; 3] = [&["GET", "k"], &["SET", "late", "v"], &["PING"]];
            assert_eq!(answers(&server, &requests), b"$1\r\nv\r\n");
        }
        admin.call(&["CLIENT", "UNPAUSE"]);
        assert_eq!(admin.call(&["EXISTS", "late"]), Value::Integer(0));
    }
}

/// Whichever comes first, the element or the end: nothing is taken from a queue and lost, as some
/// of these are in Redis 8.2.
#[test]
fn an_element_goes_to_the_client_that_ends_its_side_or_stays() {
    let waits: [&[&str]; 3] = [
        &["BLPOP", "queue", "0"],
        &["BLMPOP", "0", "1", "queue", "LEFT"],
        &["BRPOP", "queue", "9"],
    ];
    let server = Server::start(&[]);
    let mut pusher = server.client();
    for round in 0..100 {
        let mut waiter = server.client();
        waiter.send(waits[round % waits.len()]);
        eventually("it waits", || pusher.figure("blocked_clients") == 1);
        let element = format!("element {round}");
        pusher.send(&["RPUSH", "queue", &element]);
        waiter.end_sending();
        let given = String::from_utf8_lossy(&waiter.receive_to_close()).contains(&element);
        assert_eq!(pusher.receive(), Value::Integer(1));
        let kept = pusher.call(&["LPOP", "queue"]) == Value::Bulk(element.into_bytes());
        assert!(given != kept, "round {round}: given {given}, kept {kept}");
    }
}
