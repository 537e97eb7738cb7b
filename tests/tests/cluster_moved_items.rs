//! What Redis has no words for goes with the keys of slots that move: the flags of memcached's
//! clients, and that a key is never evicted. A node of Valkey gets the keys without.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::Oracle;
use tests::Server;
use tests::cluster::{Program, ask, create, id};
use tests::memcached::Connection;
use tests::server::{eventually, free_port};

use crate::cluster_slot_moves::{Cluster, SLOT};

const APUS: Program = Program::Apus;

/// Three nodes, the last of which has the slot of `foo`; its port for memcached's clients, and that
/// of the first one, where that has one.
fn start(target: Program, durable: &[&str]) -> (Cluster, [u16; 2]) {
    let ports = [free_port(), free_port()];
    let node = |port: u16, further: &[&str]| {
        let port = port.to_string();
        APUS.node(&[&["--memcached-port", &port], further].concat())
    };
    let first = match target {
        Program::Apus => node(ports[1], durable),
        other => other.node(&[]),
    };
    let nodes = [first, APUS.node(&[]), node(ports[0], &[])];
    create(&nodes.each_ref(), 0);
    (Cluster { nodes, from: 2, to: 0 }, ports)
}

/// Stores an item.
fn set(port: u16, key: &str, flags: u32, expiry: u32, value: &str) {
    let request = format!("set {{foo}}{key} {flags} {expiry} {}\r\n{value}\r\n", value.len());
    assert_eq!(Connection::to(port).line(&request).trim_end(), "STORED", "{key}");
}

/// An item as memcached's clients get it, with its flags.
fn get(port: u16, key: &str) -> (u32, String) {
    let said = Connection::to(port).text(format!("get {{foo}}{key}\r\n").as_bytes());
    let said = String::from_utf8(said).unwrap();
    let mut lines = said.lines();
    let head = lines.next().unwrap();
    let flags = head.split(' ').nth(2).unwrap_or_else(|| panic!("{key}: {said}"));
    (flags.parse().unwrap(), lines.next().unwrap().to_owned())
}

/// Whether a key of the slot is never evicted; the key stays as it is.
fn is_sticky(node: &Server, key: &str) -> bool {
    let is_sticky = ask(node, &format!("STICK {{foo}}{key}")) == "(integer) 0";
    if !is_sticky {
        assert_eq!(ask(node, &format!("UNSTICK {{foo}}{key}")), "(integer) 1", "{key}");
    }
    is_sticky
}

/// Keys that move in the snapshot.
fn fill(cluster: &Cluster, port: u16) {
    set(port, "item", 7, 0, "x");
    set(port, "timed", 9, 1000, "hello");
    set(port, "number", 4_294_967_295, 0, "41");
    set(port, "large", 11, 0, &"y".repeat(200_000));
    set(port, "changed", 12, 0, "old");
    set(port, "reset", 13, 0, "old");
    let source = cluster.from();
    for line in [
        "SET {foo}plain 1",
        "SET {foo}once 1",
        "RPUSH {foo}list a b",
        "SET {foo}later 1",
        "STICK {foo}list {foo}once {foo}item {foo}reset",
    ] {
        let said = ask(source, line);
        assert!(!said.contains("error"), "{line}: {said}");
    }
    for number in 0..200 {
        assert_eq!(ask(source, &format!("SET {{foo}}{number} {}", "x".repeat(500))), "OK");
    }
}

/// Moves the slot so slowly that something is done in the middle, which comes behind the snapshot.
fn move_with_changes(cluster: &Cluster, port: u16) {
    let (source, target) = (cluster.from(), cluster.to());
    assert_eq!(ask(source, "CONFIG SET cluster-slot-move-rate 100000"), "OK");
    let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {SLOT} {SLOT} NODE {}", id(target));
    assert_eq!(ask(source, &line), "OK");
    eventually("keys have come", || {
        ask(target, &format!("CLUSTER COUNTKEYSINSLOT {SLOT}")) != "(integer) 0"
    });
    set(port, "changed", 21, 0, "new");
    set(port, "late", 22, 1000, "late");
    let append = "append {foo}timed 0 0 1\r\n!\r\n";
    assert_eq!(Connection::to(port).line(append).trim_end(), "STORED");
    assert_eq!(Connection::to(port).line("incr {foo}number 1\r\n").trim_end(), "42");
    let mut client = source.client();
    for line in [
        "SET {foo}reset new",
        "UNSTICK {foo}once",
        "MULTI",
        "STICK {foo}later",
        "SET {foo}within 1",
        "STICK {foo}within",
        "EXEC",
    ] {
        let said = tests::cluster::ask_by(&mut client, line);
        assert!(!said.contains("error"), "{line}: {said}");
    }
    assert_eq!(ask(source, "CONFIG SET cluster-slot-move-rate 0"), "OK");
    assert_eq!(Cluster::ending(source), "success");
    cluster.await_gone();
}

fn is_all_there(target: &Server, port: u16) {
    assert_eq!(get(port, "item"), (7, "x".to_owned()));
    assert_eq!(get(port, "timed"), (9, "hello!".to_owned()));
    assert_eq!(get(port, "number"), (4_294_967_295, "42".to_owned()));
    assert_eq!(get(port, "large"), (11, "y".repeat(200_000)));
    assert_eq!(get(port, "changed"), (21, "new".to_owned()));
    assert_eq!(get(port, "late"), (22, "late".to_owned()));
    assert_eq!(get(port, "reset"), (0, "new".to_owned()));
    assert_eq!(get(port, "plain"), (0, "1".to_owned()));
    for key in ["timed", "late"] {
        let left: i64 = ask(target, &format!("TTL {{foo}}{key}"))[10..].parse().unwrap();
        assert!((900..=1000).contains(&left), "{key}: {left}");
    }
    for key in ["list", "item", "reset", "later", "within"] {
        assert!(is_sticky(target, key), "{key}");
    }
    for key in ["plain", "once", "changed", "late"] {
        assert!(!is_sticky(target, key), "{key}");
    }
}

/// What the target has its log has, too.
#[test]
fn flags_and_what_sticks_move_between_nodes_of_apus() {
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let (mut cluster, [source, target]) = start(APUS, &durable);
    fill(&cluster, source);
    move_with_changes(&cluster, source);
    is_all_there(cluster.to(), target);
    cluster.nodes[0].kill();
    cluster.nodes[0].restart();
    tests::cluster::await_whole(&cluster.all(), 3);
    is_all_there(cluster.to(), target);
}

#[test]
fn a_node_of_valkey_gets_the_keys_alone() {
    let (cluster, [source, _]) = start(Program::Stock(Oracle::Valkey91), &[]);
    fill(&cluster, source);
    move_with_changes(&cluster, source);
    let value = |key: &str| ask(cluster.to(), &format!("GET {{foo}}{key}"));
    for (key, expected) in [
        ("item", "x"),
        ("timed", "hello!"),
        ("number", "42"),
        ("changed", "new"),
        ("late", "late"),
        ("reset", "new"),
        ("within", "1"),
    ] {
        assert_eq!(value(key), format!("\"{expected}\""), "{key}");
    }
    assert_eq!(ask(cluster.to(), "STRLEN {foo}large"), "(integer) 200000");
    assert_eq!(ask(cluster.to(), "LLEN {foo}list"), "(integer) 2");
}

/// Only what brings slots may store items so.
#[test]
fn items_are_not_stored_by_other_clients() {
    let node = APUS.node(&[]);
    assert_eq!(ask(&node, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    let refused = "(error) ERR CLUSTER SYNCITEM should only be used by slot migration clients";
    eventually("the node serves", || ask(&node, "EXISTS foo") == "(integer) 0");
    assert_eq!(ask(&node, "CLUSTER SYNCITEM foo 0 1 x"), refused);
    assert_eq!(ask(&node, "EXISTS foo"), "(integer) 0");
}
