//! The ways in which EXEC ends, and what is left of its client's requests then: a client that ends
//! itself, replies that are not wanted, scripts that are not to run.
//!
//! Invariant: Redis 8.2 is asked the same.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::client::encode;
use tests::cluster::{Program, ask, id};
use tests::render::{render, text};
use tests::{Oracle, Server};

use crate::cluster_moves::{Moving, SLOT};

fn both() -> [Server; 2] {
    [Server::start(&[]), Oracle::redis82()]
}

fn requests(lines: &[&[&str]]) -> Vec<u8> {
    lines.iter().flat_map(|words| encode(words)).collect()
}

/// What a client of its own is sent for these requests, up to the end of its connection.
fn to_the_end(server: &Server, lines: &[&[&str]], behind: usize) -> String {
    let mut client = server.client();
    let mut bytes = requests(lines);
    (0..behind).for_each(|_| bytes.extend(encode(&["INCR", "behind"])));
    client.send_raw(&bytes);
    String::from_utf8_lossy(&client.receive_to_close()).into_owned()
}

/// A client that ends itself in the middle of a transaction: the transaction is done, its replies
/// end there, and nothing that stands behind it is done.
#[test]
fn nothing_is_done_behind_an_exec_that_ends_its_client() {
    let kill: &[&str] = &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"];
    let scenes: [&[&[&str]]; 3] = [
        &[&["MULTI"], kill, &["EXEC"]],
        &[&["MULTI"], &["SET", "a", "1"], kill, &["SET", "b", "2"], &["GET", "b"], &["EXEC"]],
        &[&["MULTI"], &["SET", "a", "1"], kill, &["CLIENT", "ID"], &["EXEC"]],
    ];
    let [ours, theirs] = both();
    for lines in scenes {
        let told = [&ours, &theirs].map(|server| {
            let told = to_the_end(server, lines, 200);
            let mut other = server.client();
            let keys = ["a", "b", "behind"].map(|key| render(&other.call(&["GET", key])));
            other.call(&["FLUSHALL"]);
            (told, keys)
        });
        assert_eq!(told[0], told[1], "{lines:?}");
    }
}

/// Whatever the end of EXEC is, a client that wants no reply is sent none.
#[test]
fn an_exec_that_is_sent_on_answers_nobody_who_wants_no_reply() {
    const APUS: Program = Program::Apus;
    const REDIS82: Program = Program::Stock(Oracle::Redis82);
    for program in [APUS, REDIS82] {
        let moving = Moving::start([program, program, program]);
        let (from, to) = (moving.from(), &moving.nodes[moving.to]);
        assert_eq!(ask(from, "SET {foo}1 v"), "OK");
        assert_eq!(ask(from, &format!("CLUSTER SETSLOT {SLOT} MIGRATING {}", id(to))), "OK");
        for read in [&["GET", "{foo}2"][..], &["MGET", "{foo}1", "{foo}2"]] {
            let lines: [&[&str]; 6] = [
                &["CLIENT", "REPLY", "OFF"],
                &["MULTI"],
                read,
                &["EXEC"],
                &["CLIENT", "REPLY", "ON"],
                &["ECHO", "e"],
            ];
            let mut client = from.client();
            client.send_raw(&requests(&lines));
            let replies = [0, 1].map(|_| text(&client.receive()));
            assert_eq!(replies, ["OK", "e"], "{read:?}");
        }
    }
}

/// A session that asked for the debugger, which is not there, has no script run on live data,
/// whatever way its scripts come.
#[test]
fn no_script_of_a_session_that_asked_for_the_debugger_runs() {
    let server = Server::start(&[]);
    let mut client = server.client();
    client.call(&["SCRIPT", "DEBUG", "YES"]);
    let eval: Vec<&str> = vec!["EVAL", "return redis.call('INCR', KEYS[1])", "1", "count"];
    for reply in client.pipeline(&vec![eval.clone(); 8]) {
        assert!(render(&reply).starts_with("(error) "), "{reply:?}");
    }
    // A long queue leaves its worker.
    for others in [0, 600] {
        let mut lines: Vec<Vec<&str>> = vec![vec!["MULTI"]];
        lines.extend(vec![vec!["GET", "k"]; others]);
        lines.extend([eval.clone(), vec!["EXEC"]]);
        let replies = client.pipeline(&lines);
        let last = render(replies.last().unwrap());
        assert!(last.lines().last().unwrap().contains("(error) "), "{others}: {last}");
    }
    assert_eq!(render(&client.call(&["GET", "count"])), "(nil)");
}
