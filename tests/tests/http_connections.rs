//! Connections of HTTP that cost something: whose answer is made is not displaced by strangers, and
//! answers that nobody reads take a bounded sum.

use std::io::Write;
use std::net::TcpStream;

use serde_json::json;
use tests::http::send;
use tests::server::{eventually, free_port};
use tests::{Server, check};

fn start(more: &[&str]) -> (Server, u16) {
    let port = free_port();
    let text = port.to_string();
    (Server::start(&[&["--http-port", &text], more].concat()), port)
}

/// Connections that have sent this, and read nothing.
fn strangers(port: u16, count: usize, request: &str) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        // A connection may be ended before.
        let _ = stream.write_all(request.as_bytes());
        stream
    };
    (0..count).map(connect).collect()
}

/// Strangers that say nothing, or half of a request, take no answer from its asker.
#[test]
fn a_request_that_is_being_served_is_not_displaced() {
    let (server, port) = start(&["--http-commands", "all", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    let asker = std::thread::spawn(move || send(port, "POST", "/api/command", "", "DEBUG SLEEP 2"));
    eventually("it is being served", || client.figure("connected_clients") == 2);
    let _silent = strangers(port, 70, "");
    let _half = strangers(port, 70, "GET /healthz HTTP/1.1\r\nHost: a\r\n");
    // Those before have been accepted, as connections are in turn.
    assert_eq!(send(port, "GET", "/healthz", "", "").status, 200);
    let answer = asker.join().expect("it is answered");
    assert_eq!(answer.json()["reply"], json!({"status": "OK"}));
}

/// Answers that nobody reads cost so much and no more, and no key goes for more than that.
#[test]
fn answers_that_are_not_read_are_bounded() {
    let (server, port) = start(&["--maxmemory", "300mb", "--maxmemory-policy", "allkeys-lru"]);
    let mut client = server.client();
    for number in 0..1000 {
        client.call(&["SET", &format!("k{number}"), "v"]);
    }
    client.call(&["SET", "big", &"x".repeat(8_000_000)]);
    let ask = |headers: &str| send(port, "POST", "/api/command", headers, "GET big").status;
    assert_eq!(ask(""), 200);
    let request =
        "POST /api/command HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\n\r\nGET big";
    let mut readers = Vec::new();
    eventually("there is no room for another answer", || {
        readers.extend(strangers(port, 1, request));
        ask("") == 503
    });
    readers.extend(strangers(port, 40, request));
    assert!(client.figure("used_memory") < 150_000_000, "forty answers are 320 MB");
    check(&mut client, "> DBSIZE\n(integer) 1001");
    assert_eq!(client.figure("evicted_keys"), 0);
    assert_eq!(send(port, "GET", "/healthz", "", "").status, 200);
    drop(readers);
    eventually("there is room again", || ask("") == 200);
}

/// A reply is bounded as the JSON that it becomes.
#[test]
fn control_bytes_count_as_what_they_become() {
    let (server, port) = start(&[]);
    let mut client = server.client();
    let ask = |line: &str| send(port, "POST", "/api/command", "", line);
    client.call(&["SET", "small", &"\u{1}".repeat(1_000_000)]);
    client.call(&["SET", "big", &"\u{1}".repeat(2_000_000)]);
    let reply = ask("GET small").json()["reply"].clone();
    assert_eq!(reply.as_str().map(str::len), Some(1_000_000));
    let refused = ask("GET big");
    assert_eq!(refused.status, 413, "{}", refused.body);
}
