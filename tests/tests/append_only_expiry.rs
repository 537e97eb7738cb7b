//! What expires, and the append-only file: what is over when the log is run again is gone then, and
//! what the log tells behind a key's end meets no key.

use std::thread;
use std::time::Duration;

use base::quote::split_arguments;
use base::time::Clock;
use proto::value::Value;
use tests::render::render;
use tests::{Client, Server};

use super::append_only::{DURABLE, settle};

#[test]
fn what_expires_while_the_server_is_away_is_gone_and_nothing_else() {
    for preamble in ["yes", "no"] {
        expire_while_away(&[DURABLE, &["--aof-use-rdb-preamble", preamble]].concat());
    }
}

fn expire_while_away(arguments: &[&str]) {
    let mut server = Server::start(arguments);
    let clock = Clock::system();
    // What is to expire later must not expire before all is done, however slow that is.
    let until = (0..8).find_map(|doubling| {
        let until = clock.now_ms() + (500 << doubling);
        server.client().call(&["FLUSHALL"]);
        change_what_expires(&mut server.client(), &until.to_string());
        (clock.now_ms() < until).then_some(until)
    });
    let until = until.expect("the machine can do twenty things in a minute");
    server.kill();
    while clock.now_ms() <= until {
        thread::sleep(Duration::from_millis(10));
    }
    server.restart();
    let mut client = server.client();
    let mut text = |words: &[&str]| {
        let reply = client.call(words);
        String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned()
    };
    assert_eq!(text(&["GET", "string"]), "20");
    assert_eq!(text(&["HGET", "hash", "counted"]), "7");
    assert_eq!(text(&["HGET", "hash", "soon"]), "");
    assert_eq!(text(&["HGET", "hash", "late"]), "2");
    assert_eq!(text(&["LINDEX", "renamed", "2"]), "c");
    assert_eq!(text(&["GET", "copy"]), "1");
    assert_eq!(text(&["HGET", "restored", "more"]), "1");
    assert_eq!(text(&["HGET", "restored", "late"]), "2");
    for gone in ["gone", "list", "set"] {
        assert_eq!(client.call(&["EXISTS", gone]), Value::Integer(0), "{gone}");
    }
    assert_eq!(client.call(&["SCARD", "union"]), Value::Integer(1));
}

/// Commands that find what expires at a moment to come; what was there when each of them ran must
/// be there when it runs again.
fn change_what_expires(client: &mut Client, until: &str) {
    for words in [
        &["SET", "string", "1", "PXAT", until][..],
        &["INCR", "string"],
        &["APPEND", "string", "0"],
        &["PERSIST", "string"],
        &["HSET", "hash", "soon", "1", "late", "2", "counted", "3"],
        &["HPEXPIREAT", "hash", until, "FIELDS", "2", "soon", "counted"],
        &["HINCRBY", "hash", "counted", "4"],
        &["HPERSIST", "hash", "FIELDS", "1", "counted"],
        &["RPUSH", "list", "a", "b"],
        &["PEXPIREAT", "list", until],
        &["RPUSH", "list", "c"],
        &["RENAME", "list", "renamed"],
        &["PERSIST", "renamed"],
        &["SADD", "set", "a"],
        &["PEXPIREAT", "set", until],
        // What comes next is run again behind a base that tells of the deadlines.
        &["BGREWRITEAOF"],
        &["SUNIONSTORE", "union", "set"],
        &["SET", "gone", "1", "PXAT", until],
        &["COPY", "gone", "copy"],
        &["PERSIST", "copy"],
    ] {
        client.call(words);
        if words == ["BGREWRITEAOF"] {
            settle(client);
        }
    }
    let payload = client.call(&["DUMP", "hash"]).as_bytes().expect("it is there").to_vec();
    client.call(&[&b"RESTORE"[..], b"restored", until.as_bytes(), &payload, b"ABSTTL"]);
    client.call(&["HSET", "restored", "more", "1"]);
    client.call(&["PERSIST", "restored"]);
}

/// Writes over a key whose time is over, some of which leave one whose time is over as well.
const OVER_EXPIRED: &[&str] = &[
    "SET k 5",
    "SET k 5 GET",
    "SET k 5 NX",
    "SET k 5 PXAT 1",
    "SET k 5 GET PXAT 1",
    "SET k 5 NX PXAT 1",
    "SET k 5 GET EXAT 1",
    "MSETEX 1 k 5 PXAT 1",
    "MSETEX 1 k 5 NX PXAT 1",
    "MSETEX 2 k 5 k 6 NX PXAT 1",
    "GETSET k 5",
    "GETEX k PXAT 1",
    "SETNX k 5",
    "MSETNX k 5",
    "APPEND k 5",
    "SETRANGE k 0 5",
    "COPY other k",
    "COPY other k REPLACE",
    "RENAMENX other k",
    "BITOP AND k k other",
    "SORT k STORE k",
    "EVAL \"redis.call('GET', KEYS[1]) return redis.call('SET', KEYS[1], 5, 'PXAT', 1)\" 1 k",
];

#[test]
fn what_is_written_over_a_key_whose_time_is_over_is_told_behind_its_end() {
    let mut server = Server::start(DURABLE);
    for write in OVER_EXPIRED {
        let mut client = server.client();
        let mut pipeline = |lines: &[&str]| {
            let words = |line: &&str| split_arguments(line.as_bytes()).expect("it is quoted well");
            client.pipeline(&lines.iter().map(words).collect::<Vec<_>>());
        };
        pipeline(&["FLUSHALL", "DEBUG SET-ACTIVE-EXPIRE 0", "SET other 7", "SET k x PX 1"]);
        thread::sleep(Duration::from_millis(3));
        // What comes meets what the write has left.
        pipeline(&[write, "INCR k", "INCR k"]);
        let before = render(&client.call(&["GET", "k"]));
        server.kill();
        server.restart();
        let after = render(&server.client().call(&["GET", "k"]));
        assert_eq!(after, before, "{write}");
    }
}
