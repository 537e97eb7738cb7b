//! A node of a cluster by itself, and what its clients are told.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::time::Duration;

use tests::cluster::{
    Program, address, ask, ask_by, await_whole, create, follow, id, meet, owners, state,
};
use tests::server::eventually;
use tests::{Arrival, Client, Oracle, Server, check};

const APUS: Program = Program::Apus;
const REDIS70: Program = Program::Stock(Oracle::Redis70);
const REDIS82: Program = Program::Stock(Oracle::Redis82);
const VALKEY91: Program = Program::Stock(Oracle::Valkey91);

/// A node that has all slots and serves.
fn lone(program: Program) -> Server {
    let node = program.node(&[]);
    assert_eq!(ask(&node, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    await_whole(&[&node], 1);
    node
}

/// What a node that has all slots is asked.
const LINES: &[&str] = &[
    "SET foo 1",
    "GET foo",
    "MSET a 1 b 2",
    "MSET {a}1 1 {a}2 2",
    "MGET {a}1 {a}2",
    "MGET a b",
    "SELECT 1",
    "SELECT 0",
    "SELECT x",
    "CLUSTER KEYSLOT foo",
    "CLUSTER KEYSLOT {a}b",
    "CLUSTER KEYSLOT {}x",
    "CLUSTER COUNTKEYSINSLOT 12182",
    "CLUSTER COUNTKEYSINSLOT 16384",
    "CLUSTER COUNTKEYSINSLOT -1",
    "CLUSTER GETKEYSINSLOT 12182 10",
    "CLUSTER GETKEYSINSLOT 12182 0",
    "CLUSTER GETKEYSINSLOT 12182 -1",
    "CLUSTER GETKEYSINSLOT 16384 1",
    "CLUSTER ADDSLOTS 1",
    "CLUSTER ADDSLOTS 1 1",
    "CLUSTER ADDSLOTS 16384",
    "CLUSTER ADDSLOTS x",
    "CLUSTER ADDSLOTSRANGE 5 1",
    "CLUSTER ADDSLOTSRANGE 1",
    "CLUSTER DELSLOTS 7",
    "CLUSTER DELSLOTS 7",
    "CLUSTER DELSLOTSRANGE 8 9",
    "CLUSTER ADDSLOTSRANGE 7 9",
    "CLUSTER SET-CONFIG-EPOCH -1",
    "CLUSTER SET-CONFIG-EPOCH 5",
    "CLUSTER SET-CONFIG-EPOCH 6",
    "CLUSTER BUMPEPOCH",
    "CLUSTER FORGET 0123456789012345678901234567890123456789",
    "CLUSTER REPLICATE 0123456789012345678901234567890123456789",
    "CLUSTER FAILOVER",
    "CLUSTER FAILOVER SOON",
    "CLUSTER RESET",
    "CLUSTER RESET NOW",
    "CLUSTER FLUSHSLOTS",
    "CLUSTER MEET nowhere 1",
    "CLUSTER MEET 127.0.0.1 x",
    "CLUSTER MEET 127.0.0.1 1 x",
    "CLUSTER SETSLOT 1 STABLE",
    "CLUSTER SETSLOT 1 NOWHERE",
    "CLUSTER SETSLOT 16384 STABLE",
    "CLUSTER SETSLOT 1 MIGRATING 0123456789012345678901234567890123456789",
    "CLUSTER SETSLOT 1 IMPORTING 0123456789012345678901234567890123456789",
    "CLUSTER SETSLOT 1 NODE 0123456789012345678901234567890123456789",
    "CLUSTER COUNT-FAILURE-REPORTS 0123456789012345678901234567890123456789",
    "CLUSTER REPLICAS 0123456789012345678901234567890123456789",
    "CLUSTER SAVECONFIG",
    "CLUSTER LINKS",
    "CLUSTER SLOT-STATS SLOTSRANGE 2 1",
    "CLUSTER SLOT-STATS SLOTSRANGE 12181 12183",
    "CLUSTER SLOT-STATS ORDERBY key-count LIMIT 2",
    "CLUSTER SLOT-STATS ORDERBY key-count LIMIT 0",
    "CLUSTER SLOT-STATS ORDERBY nothing",
    "ASKING",
    "READONLY",
    "READWRITE",
    "REPLICAOF NO ONE",
    "FAILOVER",
    "MULTI",
    "SET foo 2",
    "SET bar 2",
    "EXEC",
    "MULTI",
    "SET foo 3",
    "GET foo",
    "EXEC",
    "EVAL \"return redis.call('GET', KEYS[1])\" 1 foo",
    "EVAL \"return redis.call('GET', KEYS[1])\" 2 foo bar",
    "EXISTS foo bar",
    "WATCH foo bar",
];

/// What is wrong with commands is said in Redis' words.
#[test]
fn a_lone_node_answers_as_redis_does() {
    let (ours, theirs) = (lone(APUS), lone(REDIS82));
    let mut clients = [ours.client(), theirs.client()];
    for line in LINES {
        let [ours, theirs] = clients.each_mut().map(|client| ask_by(client, line));
        assert_eq!(ours, theirs, "{line}");
    }
}

#[test]
fn what_is_not_served_is_said() {
    let node = APUS.node(&[]);
    let mut client = node.client();
    check(&mut client, "> GET foo\n(error) CLUSTERDOWN Hash slot not served\n> PING\nPONG");
    check(
        &mut client,
        "> CLUSTER ADDSLOTS 12182\nOK\n> GET foo\n(error) CLUSTERDOWN The cluster is down",
    );
    check(&mut client, "> CONFIG SET cluster-require-full-coverage no\nOK");
    eventually("one slot is served", || ask_by(&mut client, "SET foo 1") == "OK");
    check(&mut client, "> GET bar\n(error) CLUSTERDOWN Hash slot not served");
    assert_eq!(node.client().info("cluster_enabled"), "1");
    assert_eq!(node.client().info("redis_mode"), "cluster");
}

/// What a node knew, it knows after a start.
#[test]
fn a_node_finds_its_slots_and_its_name_again() {
    let mut node = lone(APUS);
    let name = id(&node);
    node.kill();
    node.restart();
    assert_eq!(id(&node), name);
    await_whole(&[&node], 1);
}

/// A node of Apus with nodes of the real servers, whichever of them is told first. Redis 8 and
/// Valkey 9 take each other's extensions for their own, so a cluster has one of the two.
#[test]
fn nodes_of_all_servers_meet_and_send_clients_to_each_other() {
    for third in [REDIS82, VALKEY91] {
        meet_and_redirect(&[APUS, REDIS70, third].map(|program| program.node(&[])));
    }
}

fn meet_and_redirect(nodes: &[Server; 3]) {
    let thirds = ["0 5460", "5461 10922", "10923 16383"];
    for (index, (node, slots)) in nodes.iter().zip(thirds).enumerate() {
        assert_eq!(ask(node, &format!("CLUSTER ADDSLOTSRANGE {slots}")), "OK");
        assert_eq!(ask(node, &format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1)), "OK");
    }
    meet(&nodes[0], &nodes[1]);
    meet(&nodes[2], &nodes[0]);
    let all: Vec<&Server> = nodes.iter().collect();
    await_whole(&all, 3);
    let expected = owners(&nodes[1]);
    assert_eq!(expected.len(), 3);
    assert!(nodes.iter().all(|node| owners(node) == expected));
    for key in ["foo", "bar", "a", "b", "hello"] {
        for first in nodes {
            let said = |node: &Server| ask(node, &format!("GET {key}"));
            let moved: Vec<String> =
                nodes.iter().map(said).filter(|said| said.contains("MOVED")).collect();
            assert_eq!(moved.len(), 2, "{key}");
            assert!(moved.iter().all(|said| *said == moved[0]), "{moved:?}");
            follow(&all, first, &["SET", key, "value"]);
            let got = follow(&all, first, &["GET", key]);
            assert_eq!(got.as_bytes(), Some(b"value".as_slice()), "{key}");
        }
    }
}

/// A slot on the move, both ways between Apus and Redis.
#[test]
fn keys_of_a_slot_on_the_move_are_found_where_they_are() {
    for programs in [[APUS, REDIS82], [REDIS82, APUS], [APUS, APUS]] {
        let nodes = programs.map(|program| program.node(&[]));
        let third = APUS.node(&[]);
        create(&[&nodes[0], &nodes[1], &third], 0);
        let all = [&nodes[0], &nodes[1], &third];
        let owner_port = owners(&third).iter().find(|it| it.0 <= 12182 && 12182 <= it.1).unwrap().2;
        let from = all.iter().position(|node| i64::from(node.port()) == owner_port).unwrap();
        let to = if from == 0 { 1 } else { 0 };
        let (from, to) = (all[from], all[to]);
        let (from_id, to_id) = (id(from), id(to));
        assert_eq!(ask(from, "MSET {foo}1 a {foo}2 b"), "OK");
        assert_eq!(ask(to, &format!("CLUSTER SETSLOT 12182 IMPORTING {from_id}")), "OK");
        assert_eq!(ask(from, &format!("CLUSTER SETSLOT 12182 MIGRATING {to_id}")), "OK");
        assert_eq!(ask(from, "GET {foo}1"), "\"a\"");
        let there = address(to);
        assert_eq!(ask(from, "GET {foo}3"), format!("(error) ASK 12182 {there}"));
        assert_eq!(ask(from, "SET {foo}3 c"), format!("(error) ASK 12182 {there}"));
        let again = "(error) TRYAGAIN Multiple keys request during rehashing of slot";
        assert_eq!(ask(from, "MGET {foo}1 {foo}3"), again);
        let moved = format!("(error) MOVED 12182 {}", address(from));
        let mut client = to.client();
        assert_eq!(ask_by(&mut client, "GET {foo}1"), moved);
        check(&mut client, "> ASKING\nOK\n> SET {foo}3 c\nOK\n> ASKING\nOK\n> GET {foo}3\n\"c\"");
        assert_eq!(ask_by(&mut client, "GET {foo}3"), moved);
        check(&mut client, "> ASKING\nOK");
        assert_eq!(ask_by(&mut client, "MGET {foo}1 {foo}3"), again);
        check(&mut client, "> ASKING\nOK\n> MULTI\nOK\n> SET {foo}4 d\nQUEUED\n> EXEC\n1) OK");
        let port = to.port();
        let migrate = format!("MIGRATE 127.0.0.1 {port} \"\" 0 5000 KEYS {{foo}}1 {{foo}}2");
        assert_eq!(ask(from, &migrate), "OK");
        assert_eq!(ask(to, &format!("CLUSTER SETSLOT 12182 NODE {to_id}")), "OK");
        assert_eq!(ask(from, &format!("CLUSTER SETSLOT 12182 NODE {to_id}")), "OK");
        eventually("all send clients to the new owner", || {
            ask(from, "GET {foo}1") == format!("(error) MOVED 12182 {there}")
        });
        assert_eq!(
            ask(to, "MGET {foo}1 {foo}2 {foo}3 {foo}4"),
            "1) \"a\"\n2) \"b\"\n3) \"c\"\n4) \"d\""
        );
        assert_eq!(ask(to, "CLUSTER COUNTKEYSINSLOT 12182"), "(integer) 4");
        await_whole(&all, 3);
    }
}

#[test]
fn a_message_comes_to_subscribers_of_all_nodes() {
    let nodes = [APUS, REDIS70, VALKEY91].map(|program| program.node(&[]));
    create(&nodes.each_ref(), 0);
    for publisher in &nodes {
        let mut listeners: Vec<Client> = nodes.iter().map(Server::client).collect();
        for listener in &mut listeners {
            listener.call(&["SUBSCRIBE", "news"]);
        }
        // The links may be made just now.
        let mut heard = [false; 3];
        eventually("the message comes to all", || {
            publisher.client().call(&["PUBLISH", "news", "hello"]);
            for (listener, heard) in listeners.iter_mut().zip(&mut heard) {
                if let Ok(Arrival::Reply(message)) = listener.arrival(Duration::ZERO) {
                    assert!(tests::render::render(&message).contains("hello"), "{message:?}");
                    *heard = true;
                }
            }
            heard == [true; 3]
        });
    }
}

#[test]
fn a_forgotten_node_is_gone_from_all() {
    let nodes = [APUS, REDIS82, APUS, APUS].map(|program| program.node(&[]));
    create(&[&nodes[0], &nodes[1], &nodes[2]], 0);
    meet(&nodes[0], &nodes[3]);
    let all: Vec<&Server> = nodes.iter().collect();
    await_whole(&all, 4);
    let gone = id(&nodes[3]);
    assert_eq!(ask(&nodes[3], "CLUSTER RESET HARD"), "OK");
    assert_ne!(id(&nodes[3]), gone);
    for node in &nodes[..3] {
        let said = ask(node, &format!("CLUSTER FORGET {gone}"));
        assert!(said == "OK" || said.contains("Unknown node"), "{said}");
    }
    await_whole(&all[..3], 3);
    assert_eq!(state(&nodes[3], "cluster_known_nodes"), "1");
}
