//! `cluster-compatibility-sample-ratio`: what a cluster would refuse is counted on a server that is
//! no node of one, as Redis counts it.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::cluster::{Program, ask, ask_by};
use tests::{Client, Oracle, Server};

const CHECKED: [&str; 2] = ["--cluster-compatibility-sample-ratio", "100"];

fn counted(client: &mut Client) -> i64 {
    client.figure("cluster_incompatible_ops")
}

/// By how much each line raises the count.
fn raises(server: &Server, lines: &[&str]) -> Vec<i64> {
    let (mut client, mut observer) = (server.client(), server.client());
    let raise = |line: &&str| {
        let before = counted(&mut observer);
        ask_by(&mut client, line);
        counted(&mut observer) - before
    };
    lines.iter().map(raise).collect()
}

#[track_caller]
fn duel(lines: &[&str]) {
    let (ours, theirs) = (Server::start(&CHECKED), Oracle::Redis82.start(&CHECKED));
    let (ours, theirs) = (raises(&ours, lines), raises(&theirs, lines));
    let mut differences = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if ours[index] != theirs[index] {
            differences.push(format!("{index} {line}: {} is {}", ours[index], theirs[index]));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(theirs.iter().any(|raise| *raise > 0));
}

#[test]
fn keys_of_several_slots_are_counted() {
    duel(&[
        "SET a 1",
        "MSET a 1 b 2",
        "MSET {a}1 1 {a}2 2",
        "MGET a b",
        "MGET a a",
        "DEL x y",
        "EXISTS a b {a}c",
        "SINTERSTORE d a b",
        "ZUNIONSTORE d 2 a b",
        "SINTERCARD 2 a b",
        "XREAD STREAMS s1 s2 0 0",
        "BLPOP l1 l2 0.01",
        "RENAME zz b",
        "COPY b c",
        "COPY b {b}1",
        "MGET",
        "UNKNOWN a b",
        "PUBLISH a b",
        "KEYS *",
        "OBJECT ENCODING a",
        "COMMAND GETKEYS MGET a b",
        "WATCH a b",
        "UNWATCH",
        "WATCH a",
        "WATCH b",
        "UNWATCH",
    ]);
}

#[test]
fn transactions_over_several_slots_are_counted() {
    duel(&[
        "MULTI",
        "SET a 1",
        "SET b 1",
        "EXEC", //
        "MULTI",
        "SET a 1",
        "SET {a}b 1",
        "EXEC", //
        "MULTI",
        "MSET a 1 b 1",
        "EXEC", //
        "MULTI",
        "SET a 1",
        "MGET a b",
        "SET b 1",
        "EXEC", //
        "MULTI",
        "SELECT 1",
        "SET k v",
        "SELECT 0",
        "EXEC", //
        "MULTI",
        "SET a 1",
        "SET b 1",
        "DISCARD", //
        "MULTI",
        "SWAPDB 0 1",
        "EXEC", //
        "MULTI",
        "SORT l BY w_*",
        "EXEC", //
        "MULTI",
        "MOVE a 1",
        "EXEC", //
        "MULTI",
        "EVAL \"return redis.call('GET', 'q')\" 0",
        "EXEC",
    ]);
}

#[test]
fn other_databases_are_counted() {
    duel(&[
        "SELECT 0",
        "SELECT 1",
        "SELECT 99",
        "SELECT x",
        "SET a 1",
        "SELECT 0",
        "MSET a 1 {b}1 1",
        "MOVE a 1",
        "MOVE a 0",
        "MOVE none 1",
        "MOVE a 99",
        "COPY {b}1 {b}2 DB 1",
        "COPY {b}1 {b}3 DB 0",
        "COPY {b}1 {b}2 DB 99",
        "SWAPDB 0 1",
        "SWAPDB 0 0",
        "SWAPDB 0 99",
        "FLUSHDB",
    ]);
}

#[test]
fn patterns_of_sort_are_counted() {
    duel(&[
        "RPUSH l 1 2",
        "SORT l",
        "SORT l BY w_*",
        "SORT l GET w_*",
        "SORT l GET #",
        "SORT l BY nosort",
        "SORT l BY {l}_*",
        "SORT l BY w_* GET w_* GET {l}_*",
        "SORT_RO l BY w_*",
        "SORT none BY w_*",
        "SORT l STORE {l}to",
    ]);
}

#[test]
fn scripts_are_counted_once() {
    let library = "\"#!lua name=l\\n\
        local f = function(k, a) redis.call('GET', 'x'); redis.call('GET', 'y') end\\n\
        redis.register_function('f', f)\\n\
        redis.register_function{function_name='g', callback=f, flags={'allow-cross-slot-keys'}}\\n\
        redis.register_function{function_name='h', callback=f, \
        flags={'no-cluster', 'allow-cross-slot-keys'}}\"";
    let load = format!("FUNCTION LOAD {library}");
    duel(&[
        "EVAL \"return 1\" 0",
        "EVAL \"return redis.call('GET', 'x')\" 0",
        "EVAL \"return redis.call('GET', KEYS[1])\" 1 a",
        "EVAL \"return redis.call('GET', 'b')\" 1 a",
        "EVAL \"return 1\" 2 a b",
        "EVAL \"return redis.call('GET', KEYS[2])\" 2 a b",
        "EVAL \"return redis.call('MGET', KEYS[1], KEYS[2])\" 2 a b",
        "EVAL \"redis.call('GET', 'x'); redis.call('GET', 'y')\" 0",
        "EVAL \"redis.call('MGET', 'x', 'y')\" 0",
        "EVAL \"redis.call('MGET', 'x', 'y'); redis.call('MGET', 'x', 'y')\" 0",
        "EVAL \"redis.call('SELECT', 1)\" 0",
        "EVAL \"redis.call('SELECT', 0)\" 0",
        "EVAL \"#!lua flags=allow-cross-slot-keys\\n\
         redis.call('GET', 'x'); redis.call('GET', 'y')\" 0",
        "EVAL \"#!lua\\nredis.call('GET', 'x')\" 0",
        "EVAL \"#!lua\\nredis.call('GET', 'x'); redis.call('GET', 'y')\" 0",
        "EVAL \"#!lua\\nredis.call('GET', 'y')\" 1 x",
        "EVAL \"#!lua flags=no-cluster\\nreturn 1\" 0",
        "EVAL \"redis.call('SWAPDB', 0, 1)\" 0",
        "EVAL \"redis.call('PING')\" 0",
        &load,
        "FCALL f 0",
        "FCALL g 0",
        "FCALL h 0",
        "FCALL f 1 x",
        "FCALL g 2 x y",
        "FCALL g 1 x",
    ]);
}

#[test]
fn the_share_that_is_checked_can_be_set() {
    let server = Server::start(&[]);
    let (mut client, mut observer) = (server.client(), server.client());
    let mut ask_many = |requests: usize| {
        (0..requests).for_each(|_| _ = client.call(&["MGET", "a", "b"]));
        let count = counted(&mut observer);
        assert_eq!(ask(&server, "CONFIG RESETSTAT"), "OK");
        count
    };
    assert_eq!(ask_many(100), 0);
    for (ratio, least, most) in [("100", 1000, 1000), ("20", 100, 350), ("0", 0, 0)] {
        let line = format!("CONFIG SET cluster-compatibility-sample-ratio {ratio}");
        assert_eq!(ask(&server, &line), "OK");
        let count = ask_many(1000);
        assert!((least..=most).contains(&count), "{ratio}: {count}");
    }
    for wrong in ["101", "-1"] {
        let line = format!("CONFIG SET cluster-compatibility-sample-ratio {wrong}");
        assert!(ask(&server, &line).starts_with("(error) ERR CONFIG SET failed"));
    }
}

/// A node refuses for good, and counts nothing.
#[test]
fn a_node_counts_nothing() {
    let node = Program::Apus.node(&CHECKED);
    assert_eq!(ask(&node, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    assert!(ask(&node, "MGET a b").starts_with("(error) "));
    assert_eq!(counted(&mut node.client()), 0);
}
