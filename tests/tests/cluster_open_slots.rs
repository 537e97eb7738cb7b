//! Keys of a slot on the move that MIGRATE takes away while a command is under way: what the
//! command stores is whole, or the client is told to come again.

use tests::cluster::{Program, ask, ask_by, await_whole, id, meet};
use tests::render::render;
use tests::server::eventually;
use tests::{Client, Server};

const APUS: Program = Program::Apus;

/// The slot of `{a}`.
const SLOT: u16 = 15_495;

/// A node with all slots, and one that takes some.
fn halves() -> [Server; 2] {
    let nodes = [APUS.node(&["--enable-debug-command", "local"]), APUS.node(&[])];
    assert_eq!(ask(&nodes[0], "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    meet(&nodes[1], &nodes[0]);
    await_whole(&nodes.each_ref(), 2);
    nodes
}

/// What is there, the command, the key that goes, what the command answers of all keys.
const CASES: &[(&[&str], &str, &str, &str)] = &[
    (
        &["SADD {a}big 1 2", "SADD {a}small 3"],
        "SUNIONSTORE {a}to {a}big {a}small",
        "{a}small",
        "(integer) 3",
    ),
    (
        &["ZADD {a}big 1 x 2 y", "ZADD {a}small 3 z"],
        "ZUNIONSTORE {a}to 2 {a}big {a}small",
        "{a}small",
        "(integer) 3",
    ),
    (
        &["SADD {a}big 1 2", "SADD {a}small 2"],
        "SDIFFSTORE {a}to {a}big {a}small",
        "{a}small",
        "(integer) 1",
    ),
    (
        &["SET {a}big x", "SET {a}small longer"],
        "BITOP OR {a}to {a}big {a}small",
        "{a}small",
        "(integer) 6",
    ),
    (
        &["DEL {a}to", "PFADD {a}to 9", "PFADD {a}big 1 2", "PFADD {a}small 3"],
        "PFMERGE {a}to {a}big {a}small",
        "{a}small",
        "OK",
    ),
    (&["RPUSH {a}big 2 1"], "SORT {a}big STORE {a}to", "{a}big", "(integer) 2"),
];

/// Opens the slot at both ends, or closes it.
fn set_slot([source, target]: &[Server; 2], is_open: bool) {
    let (here, there) = match is_open {
        true => (format!("MIGRATING {}", id(target)), format!("IMPORTING {}", id(source))),
        false => ("STABLE".to_owned(), "STABLE".to_owned()),
    };
    assert_eq!(ask(target, &format!("CLUSTER SETSLOT {SLOT} {there}")), "OK");
    assert_eq!(ask(source, &format!("CLUSTER SETSLOT {SLOT} {here}")), "OK");
}

fn clear(node: &Server) {
    let mut client = node.client();
    for key in ["{a}big", "{a}small", "{a}to"] {
        ask_by(&mut client, "ASKING");
        ask_by(&mut client, &format!("DEL {key}"));
    }
}

#[test]
fn what_computes_apart_keeps_the_keys_of_a_slot_on_the_move() {
    let nodes = halves();
    let [source, target] = &nodes;
    let (mut admin, mut client) = (source.client(), source.client());
    let failpoint = |client: &mut Client, word: &str| {
        let said = ask_by(client, &format!("DEBUG FAILPOINT APART {word}"));
        assert!(said.starts_with("(integer)"), "{said}");
    };
    for (before, line, key, answer) in CASES {
        for line in [&"SET {a}to x"].into_iter().chain(*before) {
            let said = ask_by(&mut admin, line);
            assert!(!said.starts_with("(error)"), "{line} {said}");
        }
        set_slot(&nodes, true);
        failpoint(&mut admin, "HELD");
        client.send(&line.split(' ').collect::<Vec<_>>());
        // Behind the command, or between its phases.
        let name = line.split(' ').next().unwrap_or_default().to_lowercase();
        eventually("the command has begun", || {
            ask_by(&mut admin, "CLIENT LIST").contains(&format!("cmd={name} "))
        });
        let moved =
            ask_by(&mut admin, &format!("MIGRATE 127.0.0.1 {} {key} 0 5000", target.port()));
        failpoint(&mut admin, "OFF");
        assert_eq!(moved, "OK", "{line}");
        let said = render(&client.receive());
        let is_sent_on = said.starts_with("(error) TRYAGAIN") || said.starts_with("(error) ASK");
        assert!(said == *answer || is_sent_on, "{line}: {said}");
        clear(target);
        set_slot(&nodes, false);
        clear(source);
    }
}

/// Holds a key until `maxclients` is this.
const HOLDS: &str = "repeat until string.find(redis.call('INFO', 'clients'), 'maxclients:4321')";
/// Leaves the worker, and meets a key then that was not named, and that another holds.
const WIDENS: &str = "for turn = 1, 2000000 do end return redis.call('INCR', '{b}x')";

/// The reply to a transaction of these commands, which is given its locks back once `{a}small` has
/// gone to the target.
fn begin_again(nodes: &[Server; 2], commands: &[&[&str]]) -> String {
    let [source, target] = nodes;
    let mut admin = source.client();
    for line in ["SET {a}k 1", "SET {a}small 100", "SET {b}y 1"] {
        assert_eq!(ask_by(&mut admin, line), "OK");
    }
    set_slot(nodes, true);
    let (mut holder, mut client) = (source.client(), source.client());
    holder.send(&["EVAL", HOLDS, "1", "{b}y"]);
    eventually("a script holds a key", || ask_by(&mut admin, "CLIENT LIST").contains("cmd=eval "));
    assert_eq!(ask_by(&mut client, "MULTI"), "OK");
    for command in commands {
        client.call(command);
    }
    client.send(&["EXEC"]);
    eventually("the transaction has begun", || {
        ask_by(&mut admin, "CLIENT LIST").contains("cmd=exec ")
    });
    // Where the transaction holds the key, the key goes once the locks are given back.
    let line = format!("MIGRATE 127.0.0.1 {} {{a}}small 0 5000", target.port());
    assert_eq!(ask_by(&mut admin, &line), "OK");
    assert_eq!(ask_by(&mut admin, "CONFIG SET maxclients 4321"), "OK");
    holder.receive();
    render(&client.receive())
}

#[test]
fn a_transaction_that_begins_again_looks_for_the_keys_of_a_slot_on_the_move() {
    let commands: [&[&str]; 2] = [&["EVAL", WIDENS, "1", "{a}k"], &["INCR", "{a}small"]];
    let said = begin_again(&halves(), &commands);
    let is_sent_on = said.starts_with("(error) TRYAGAIN") || said.starts_with("(error) ASK");
    assert!(said.contains("(integer) 101") || is_sent_on, "{said}");
}

/// A client that knows no cluster is not told where its key went.
#[test]
fn a_transaction_that_begins_again_is_sent_on_after_its_keys() {
    let nodes = halves();
    assert_eq!(ask(&nodes[0], "CONFIG SET cluster-proxy yes"), "OK");
    let commands: [&[&str]; 2] = [&["EVAL", WIDENS, "1", "{a}small"], &["INCR", "{a}small"]];
    let said = begin_again(&nodes, &commands);
    assert!(said.contains("2) (integer) 101"), "{said}");
}
