//! Clients that wait for a sorted set get no member whose time is over, whichever command waits and
//! however the members come.

use std::time::Duration;

use base::quote::split_arguments;
use proto::value::Value;
use tests::render::{render, text};
use tests::server::eventually;
use tests::watching::say;
use tests::{Client, Server};

/// The requests that wait for `dst`, and what the client gets of the members `b` (1) and `c` (2).
const WAITERS: &[(&str, &str)] = &[
    ("BZPOPMIN dst 0", "1) \"dst\"\n2) \"b\"\n3) \"1\""),
    ("BZPOPMAX dst 0", "1) \"dst\"\n2) \"c\"\n3) \"2\""),
    ("BZPOPMIN other dst 0", "1) \"dst\"\n2) \"b\"\n3) \"1\""),
    ("BZMPOP 0 1 dst MIN", "1) \"dst\"\n2) 1) 1) \"b\"\n      2) \"1\""),
    ("BZMPOP 0 2 other dst MAX COUNT 1", "1) \"dst\"\n2) 1) 1) \"c\"\n      2) \"2\""),
];

/// How `src`, whose members `a` (0) and `z` (9) are over, comes to be `dst`.
const WAYS: &[&str] = &[
    "RENAME src dst",
    "RENAMENX src dst",
    "COPY src dst",
    "MULTI; RENAME src dst; EXEC",
    "MULTI; COPY src dst; PING; EXEC",
    "EVAL \"return redis.call('RENAME', 'src', 'dst')\" 0",
    "EVAL \"return redis.call('COPY', KEYS[1], KEYS[2])\" 2 src dst",
    "ZUNIONSTORE dst 1 src",
    "ZRANGESTORE dst src 0 -1",
    "RENAME src dst2; SELECT 1; RENAME dst dst3; SELECT 0; RENAME dst2 dst",
    "COPY src dst DB 1; SWAPDB 0 1",
    "SELECT 1; COPY dst src DB 0 REPLACE; SELECT 0; RENAME src dst",
    "RENAME src moved; SELECT 1; DEL dst; SELECT 0; COPY moved dst DB 1; SELECT 1; MOVE dst 0",
];

fn wait(server: &Server, line: &str, client: &mut Client) -> Client {
    let mut waiter = server.client();
    let id = waiter.id();
    let words = split_arguments(line.as_bytes()).expect("no quotes");
    waiter.send(&words);
    eventually("the client waits", || {
        let line = client.call(&["CLIENT", "LIST", "ID", &id]);
        render(&line).contains("flags=b")
    });
    waiter
}

#[test]
fn no_waiter_gets_a_member_whose_time_is_over() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    say(&mut client, "DEBUG SET-ACTIVE-EXPIRE 0");
    let mut wrong = Vec::new();
    for &(line, expected) in WAITERS {
        for &way in WAYS {
            say(&mut client, "SELECT 0; FLUSHALL; ZADD src 0 a 1 b 2 c 9 z; COPY src dst DB 1");
            for database in ["0", "1"] {
                let key = if database == "0" { "src" } else { "dst" };
                say(&mut client, &format!("SELECT {database}"));
                say(&mut client, &format!("EXPIREMEMBER {key} a 1 ms; EXPIREMEMBER {key} z 1 ms"));
            }
            say(&mut client, "SELECT 0");
            std::thread::sleep(Duration::from_millis(5));
            let mut waiter = wait(&server, line, &mut client);
            say(&mut client, way);
            let got = render(&waiter.receive());
            if got.trim() != expected {
                wrong.push(format!("{line}; {way}:\n{got}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What expired while nobody could be served is told, and is gone from the log as from memory.
#[test]
fn what_expires_before_a_waiter_is_told_and_logged() {
    let arguments = ["--enable-debug-command", "yes", "--appendonly", "yes"];
    let server = Server::start(&arguments);
    let (mut client, mut ear) = (server.client(), server.client());
    say(&mut client, "DEBUG SET-ACTIVE-EXPIRE 0; CONFIG SET notify-keyspace-events KEA");
    say(&mut client, "ZADD src 0 a; EXPIREMEMBER src a 1 ms; ZADD other 1 b");
    std::thread::sleep(Duration::from_millis(5));
    say(&mut ear, "SUBSCRIBE __keyspace@0__:dst");
    let mut waiter = wait(&server, "BZPOPMIN dst other2 0", &mut client);
    say(&mut client, "RENAME src dst");
    let mut payload = || match ear.receive() {
        Value::Array(items) => text(&items[2]),
        other => panic!("a message is an array: {other:?}"),
    };
    let heard = [(); 3].map(|()| payload());
    assert_eq!(heard[0], "rename_to", "{heard:?}");
    assert_eq!(heard[2], "del", "{heard:?}");
    assert_eq!(render(&client.call(&["EXISTS", "dst"])), "(integer) 0");
    say(&mut client, "DEBUG LOADAOF");
    assert_eq!(render(&client.call(&["EXISTS", "dst"])), "(integer) 0");
    say(&mut client, "RENAME other other2");
    assert_eq!(render(&waiter.receive()).trim(), "1) \"other2\"\n2) \"b\"\n3) \"1\"");
}
