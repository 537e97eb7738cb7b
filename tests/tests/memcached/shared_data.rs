//! One data set for clients of memcached and of Redis.

use proto::value::Value;
use tests::server::eventually;

use super::{Talk, start};

#[test]
fn items_are_strings_and_strings_are_items() {
    let server = start(&[]);
    let (mut talk, mut redis) = (Talk::to(&server), server.client());
    talk.ask("set k 7 100 5\r\nhello\r\n", "STORED\r\n");
    assert_eq!(redis.call(&["GET", "k"]).as_bytes(), Some(&b"hello"[..]));
    assert_eq!(redis.call(&["TTL", "k"]), Value::Integer(100));
    // What a Redis client stores has no flags, and another CAS value.
    let before = talk.cas("k");
    redis.call(&["SET", "k", "world", "EX", "50"]);
    talk.ask("mg k f t v\r\n", "VA 5 f0 t50\r\nworld\r\n");
    assert_ne!(talk.cas("k"), before);
    // What changes it in part keeps them.
    talk.ask("set n 9 0 2\r\n41\r\n", "STORED\r\n");
    assert_eq!(redis.call(&["INCR", "n"]), Value::Integer(42));
    redis.call(&["APPEND", "n", "0"]);
    redis.call(&["RENAME", "n", "m"]);
    redis.call(&["COPY", "m", "copy"]);
    redis.call(&["EXPIRE", "m", "1000"]);
    talk.ask("get m copy\r\n", "VALUE m 9 3\r\n420\r\nVALUE copy 9 3\r\n420\r\nEND\r\n");
    for edit in [&["APPEND", "m", "1"][..], &["SETRANGE", "m", "0", "9"], &["INCR", "m"]] {
        let before = talk.cas("m");
        redis.call(edit);
        assert_ne!(talk.cas("m"), before, "{edit:?}");
    }
}

/// A moment that comes while all data stand still is put off until they no longer do.
#[test]
fn items_are_not_forgotten_in_a_pause() {
    let server = start(&[]);
    let (mut talk, mut redis) = (Talk::to(&server), server.client());
    talk.ask("set k 0 0 1\r\nx\r\nset marker 0 2 1\r\nx\r\n", "STORED\r\nSTORED\r\n");
    talk.ask("flush_all 1\r\n", "OK\r\n");
    redis.call(&["CLIENT", "PAUSE", "600000", "WRITE"]);
    eventually("the marker is over, which is behind the moment", || {
        redis.call(&["GET", "marker"]) == Value::Null
    });
    assert_eq!(redis.call(&["GET", "k"]).as_bytes(), Some(&b"x"[..]));
    redis.call(&["CLIENT", "UNPAUSE"]);
    eventually("the items are forgotten", || redis.call(&["GET", "k"]) == Value::Null);
}

#[test]
fn other_types_are_no_items() {
    let server = start(&[]);
    let (mut talk, mut redis) = (Talk::to(&server), server.client());
    redis.call(&["RPUSH", "list", "a"]);
    let refusal = "SERVER_ERROR the key holds a value of another type than string\r\n";
    talk.play(&[
        ("get list\r\n", "END\r\n"),
        ("mg list v\r\n", "EN\r\n"),
        ("me list\r\n", "EN\r\n"),
        ("add list 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("append list 0 0 1\r\nx\r\n", refusal),
        ("incr list 1\r\n", refusal),
        ("mg list v N30\r\n", "EN\r\n"),
    ]);
    assert_eq!(redis.call(&["LLEN", "list"]), Value::Integer(1));
    talk.ask("set list 0 0 1\r\nx\r\nget list\r\n", "STORED\r\nVALUE list 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn items_lie_in_the_database_that_is_said() {
    let server = start(&["--memcached-database", "3"]);
    let (mut talk, mut redis) = (Talk::to(&server), server.client());
    talk.ask("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    assert_eq!(redis.call(&["EXISTS", "k"]), Value::Integer(0));
    redis.call(&["SELECT", "3"]);
    assert_eq!(redis.call(&["EXISTS", "k"]), Value::Integer(1));
}

/// Whether some bytes of a reply are these.
fn holds(reply: &Value, text: &str) -> bool {
    let bytes = format!("{:?}", text.as_bytes());
    format!("{reply:?}").contains(bytes.trim_matches(['[', ']']))
}

#[test]
fn clients_that_watch_listen_or_track_are_told_of_memcached_writes() {
    let server = start(&["--notify-keyspace-events", "KEA"]);
    let (mut talk, mut redis) = (Talk::to(&server), server.client());
    redis.call(&["WATCH", "k"]);
    let mut tracking = server.client3();
    tracking.call(&["CLIENT", "TRACKING", "ON"]);
    tracking.call(&["GET", "k"]);
    let mut listener = server.client();
    listener.call(&["SUBSCRIBE", "__keyevent@0__:set"]);
    let mut monitor = server.client();
    monitor.call(&["MONITOR"]);
    talk.ask("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    assert!(holds(&listener.receive(), "__keyevent@0__:set"));
    assert!(holds(&monitor.receive(), r#""SET" "k" "x""#));
    assert!(holds(&tracking.receive(), "invalidate"));
    redis.call(&["MULTI"]);
    redis.call(&["SET", "k", "y"]);
    assert_eq!(redis.call(&["EXEC"]), Value::NullArray, "the watched key was changed");
}

#[test]
fn reading_an_item_is_no_change() {
    let server = start(&[]);
    let (mut talk, mut redis) = (Talk::to(&server), server.client());
    redis.call(&["SET", "k", "x"]);
    redis.call(&["WATCH", "k"]);
    talk.cas("k");
    redis.call(&["MULTI"]);
    redis.call(&["SET", "k", "y"]);
    assert_ne!(redis.call(&["EXEC"]), Value::NullArray, "a CAS value that is told changes nothing");
}

#[test]
fn the_gates_are_the_same() {
    let server = start(&[]);
    let (mut talk, mut redis) = (Talk::to(&server), server.client());
    talk.ask("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    redis.call(&["CONFIG", "SET", "maxmemory", "1mb", "maxmemory-policy", "noeviction"]);
    let full = "SERVER_ERROR out of memory storing object\r\n";
    // What may be used is found out by the first commands that find none left.
    talk.ask("set k 0 0 1\r\ny\r\n", full);
    talk.ask("get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
    redis.call(&["CONFIG", "SET", "maxmemory", "0"]);
    redis.call(&["CLIENT", "PAUSE", "100000", "WRITE"]);
    talk.ask("get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
    talk.send("set k 0 0 1\r\nz\r\n");
    let paused = || {
        let list = server.client().call(&["CLIENT", "LIST"]);
        String::from_utf8_lossy(list.as_bytes().expect("a text")).contains("flags=b")
    };
    tests::server::eventually("the client waits", paused);
    redis.call(&["CLIENT", "UNPAUSE"]);
    talk.hear("the SET that waited", b"STORED\r\n");
    talk.is_in_step();
    // The same with a request that comes in pieces.
    redis.call(&["CLIENT", "PAUSE", "100000", "WRITE"]);
    talk.send("set k 0 0 1\r\n");
    let listed = |text: &str| {
        let list = server.client().call(&["CLIENT", "LIST"]);
        String::from_utf8_lossy(list.as_bytes().expect("a text")).contains(text)
    };
    tests::server::eventually("the first piece is read", || listed(" qbuf=13 "));
    talk.send("y\r\n");
    tests::server::eventually("the client waits", paused);
    redis.call(&["CLIENT", "UNPAUSE"]);
    talk.hear("the SET that came in pieces and waited", b"STORED\r\n");
    talk.is_in_step();
}
