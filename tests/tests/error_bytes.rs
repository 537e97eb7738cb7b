//! Errors carry a client's bytes as Redis does: every byte as it came, line ends as spaces, and
//! nothing behind a NUL.

use proto::value::Value;
use tests::{Oracle, Server};

/// Words in other encodings, with line ends and with a NUL.
const AWKWARD: [&[u8]; 5] = [
    &[0x80, 0x81, 0xa0, 0xbf, 0xc0, 0xc3, 0xe2, 0xf0, 0xfe, 0xff],
    b"gr\xfc\xdfe",
    b"a\x80\r\nb\xffc\0d",
    b"\r\n\x80x\r\n",
    b"\xf0\x9f\x98",
];

/// Requests whose errors show a word; `@` stands for it.
const SHOWING: [&str; 24] = [
    "@",
    "@ y @",
    "CLIENT @",
    "OBJECT @ k",
    "CONFIG @",
    "CONFIG SET @ 1",
    "CONFIG SET maxmemory @",
    "CONFIG SET loglevel @",
    "EXPIRE k 1 @",
    "LATENCY GRAPH @",
    "DEBUG ERROR @",
    "DEBUG @",
    "HELLO 3 @",
    "HELLO 3 SETNAME @",
    "CLIENT SETNAME @",
    "CLIENT SETINFO @ x",
    "CLIENT SETINFO LIB-name @",
    "CLIENT KILL TYPE @",
    "CLIENT KILL USER @",
    "CLIENT LIST TYPE @",
    "CLIENT LIST @",
    "ACL CAT @",
    "ACL DRYRUN @ get",
    "SCAN 0 @ 1",
];

#[test]
fn every_byte_comes_back_as_from_redis() {
    let allowed = ["--enable-debug-command", "yes"];
    let servers = [Server::start(&allowed), Oracle::Redis82.start(&allowed)];
    let [mut ours, mut theirs] = servers.each_ref().map(Server::client);
    let long = [0xff; 300];
    for word in AWKWARD.into_iter().chain([&long[..]]) {
        for request in SHOWING {
            let words =
                request.split(' ').map(|part| if part == "@" { word } else { part.as_bytes() });
            let words: Vec<&[u8]> = words.collect();
            let expected = theirs.call(&words);
            assert!(matches!(expected, Value::Error(_)), "{request} shows nothing: {expected:?}");
            assert_eq!(ours.call(&words), expected, "{request}");
        }
    }
}

/// INFO counts errors by their codes; what DEBUG ERROR makes up is no line of its own.
#[test]
fn codes_of_errors_are_words() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    for text in [&b"\r\nforged:1"[..], b"\xff\xfe x", b"MADEUP x", b"GET"] {
        client.call(&[b"DEBUG", b"ERROR", text]);
    }
    let Value::Bulk(report) = client.call(&["INFO", "errorstats"]) else {
        panic!("INFO is text");
    };
    let report = String::from_utf8(report).expect("names and numbers are ASCII");
    let lines: Vec<&str> = report.split("\r\n").collect();
    // A line of one word has no code, as in Redis.
    assert_eq!(lines[1..4], ["errorstat_ERR:count=3", "errorstat_MADEUP:count=1", ""]);
}
