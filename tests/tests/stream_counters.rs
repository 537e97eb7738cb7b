//! Counters of streams at the greatest number that a command can say: whatever comes of them is
//! kept by a log of either form, a snapshot and a payload, and a replica has the same.

use tests::render::render;
use tests::replication::{await_replica, follow};
use tests::{Client, Server, check};

use crate::append_only::{DURABLE, differences, settle, state};

/// Requests for one stream each, `K`; `MOST` is the greatest number.
const SCRIPTS: &[&str] = &[
    "XADD K 1-1 a b; XSETID K 5-5 ENTRIESADDED MOST MAXDELETEDID 0-0; XADD K 6-1 a b",
    "XADD K 1-1 a b; XSETID K 5-5 ENTRIESADDED MOST; XGROUP CREATE K g 0 ENTRIESREAD MOST; \
     XADD K 6-1 a b; XADD K 6-2 a b; XREADGROUP GROUP g c STREAMS K >",
    "XADD K 1-1 a b; XSETID K 5-5 ENTRIESADDED MOST; XADD K 6-1 a b; XGROUP CREATE K g $; \
     XADD K 6-2 a b; XREADGROUP GROUP g c NOACK STREAMS K >; XADD K 6-3 a b; \
     XREADGROUP GROUP g c NOACK STREAMS K >",
    "XADD K 1-1 a b; XGROUP CREATE K g 0; XREADGROUP GROUP g c STREAMS K >; \
     XCLAIM K g c 0 1-1 RETRYCOUNT MOST; XCLAIM K g d 0 1-1",
    "XADD K 1-1 a b; XGROUP CREATE K g 0; XREADGROUP GROUP g c STREAMS K >; \
     XCLAIM K g c 0 1-1 RETRYCOUNT MOST; XAUTOCLAIM K g d 0 0",
    "XADD K 1-1 a b; XGROUP CREATE K g 0; XREADGROUP GROUP g c STREAMS K >; \
     XNACK K g FATAL IDS 1 1-1; XCLAIM K g c 0 1-1",
    "XADD K 1-1 a b; XGROUP CREATE K g 0; XREADGROUP GROUP g c STREAMS K >; \
     XNACK K g FATAL IDS 1 1-1; XREADGROUP GROUP g c CLAIM 0 STREAMS K >; \
     XREADGROUP GROUP g c CLAIM 0 STREAMS K >",
    "XADD K 1-1 a b; XSETID K 5-5 ENTRIESADDED MOST; XADD K 6-1 a b; XADD K 6-2 a b; \
     XGROUP CREATE K g 0; XREADGROUP GROUP g c COUNT 1 STREAMS K >; XTRIM K ACKED MAXLEN 1; \
     XDEL K 6-1",
];

/// Runs the requests of a script for a stream of this name.
fn run(client: &mut Client, script: &str, key: &str) {
    for request in script.split("; ") {
        let request = request.replace("MOST", &i64::MAX.to_string());
        let words: Vec<&str> =
            request.split(' ').map(|word| if word == "K" { key } else { word }).collect();
        let reply = render(&client.call(&words));
        assert!(!reply.starts_with("(error)"), "{request}: {reply}");
    }
}

#[test]
fn whatever_counters_come_to_is_kept() {
    for preamble in ["yes", "no"] {
        let mut server = Server::start(&[DURABLE, &["--aof-use-rdb-preamble", preamble]].concat());
        let replica = Server::start(&["--enable-debug-command", "yes"]);
        follow(&replica, server.port());
        await_replica(&server, &replica);
        let mut client = server.client();
        for (number, script) in SCRIPTS.iter().enumerate() {
            run(&mut client, script, &format!("s{number}"));
        }
        await_replica(&server, &replica);
        let digest = |server: &Server| render(&server.client().call(&["DEBUG", "DIGEST"]));
        assert_eq!(digest(&replica), digest(&server));
        let before = state(&mut client);
        let is_kept = |server: &Server, what: &str| {
            let found = state(&mut server.client());
            assert!(found == before, "{what}, {preamble}: {}", differences(&before, &found));
        };
        drop(client);
        server.kill();
        server.restart();
        is_kept(&server, "the records of the log");
        let mut client = server.client();
        client.call(&["BGREWRITEAOF"]);
        settle(&mut client);
        server.kill();
        server.restart();
        is_kept(&server, "the base of the log");
        let mut client = server.client();
        for number in 0..SCRIPTS.len() {
            let key = format!("s{number}");
            let payload = client.call(&["DUMP", &key]);
            let payload = payload.as_bytes().expect("the stream is there");
            let restored = client.call(&[b"RESTORE", key.as_bytes(), b"0", payload, b"REPLACE"]);
            assert_eq!(render(&restored), "OK", "{key}");
        }
        is_kept(&server, "payloads");
        check(&mut client, "> DEBUG RELOAD\nOK");
        is_kept(&server, "a snapshot");
    }
}
