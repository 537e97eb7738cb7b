//! CLUSTER FLUSHSLOT (Valkey): the keys of one slot go in all databases, at once for clients, for
//! replicas of all kinds, for the log, and for whoever listens, watches or keeps copies. The slot
//! here is 5061, that of `{bar}`.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use proto::value::Value;
use tests::cluster::{Program, ask, ask_by, await_whole, id, meet};
use tests::render::render;
use tests::server::eventually;
use tests::shards::is_linked;
use tests::{Client, Oracle, Server};

const APUS: Program = Program::Apus;
const VALKEY: Program = Program::Stock(Oracle::Valkey91);
const REDIS: Program = Program::Stock(Oracle::Redis82);

/// A node that serves all slots.
fn lone(program: Program, further: &[&str]) -> Server {
    let node = program.node(further);
    assert_eq!(ask(&node, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    eventually("all is served", || tests::cluster::state(&node, "cluster_state") == "ok");
    node
}

/// What clients of both protocols are told.
fn said(program: Program, further: &[&str], lines: &[&str]) -> Vec<String> {
    let node = lone(program, further);
    let (mut two, mut three) = (node.client(), node.client3());
    let by = |client: &mut Client| -> Vec<String> {
        lines.iter().map(|line| ask_by(client, line)).collect()
    };
    [by(&mut two), by(&mut three)].concat()
}

#[track_caller]
fn duel(further: &[&str], lines: &[&str]) {
    let (ours, theirs) = (said(APUS, further, lines), said(VALKEY, further, lines));
    for (index, (own, other)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(own, other, "{}", lines[index % lines.len()]);
    }
}

#[test]
fn arguments_are_read_as_valkey_reads_them() {
    let lines = [
        "",
        " x",
        " -1",
        " 16384",
        " 99999999999999999999",
        " 0 x",
        " x x",
        " 0 SYNC",
        " 0 async",
        " 16383",
        " 0 SYNC SYNC",
        " x SYNC SYNC",
        " 05061",
    ]
    .map(|rest| format!("CLUSTER FLUSHSLOT{rest}"));
    duel(&[], &lines.each_ref().map(String::as_str));
}

#[test]
fn the_keys_of_the_slot_go_and_no_others() {
    duel(
        &["--cluster-databases", "4"],
        &[
            "MSET {bar}1 1 {bar}2 2",
            "RPUSH {bar}list a b",
            "SET foo 1",
            "SELECT 3",
            "SET {bar}3 3",
            "SET foo 3",
            "SELECT 1",
            "CLUSTER FLUSHSLOT 5061",
            "CLUSTER COUNTKEYSINSLOT 5061",
            "CLUSTER FLUSHSLOT 5061 SYNC",
            "DBSIZE",
            "SELECT 3",
            "KEYS *",
            "SELECT 0",
            "KEYS *",
            "EXISTS {bar}1",
        ],
    );
}

#[test]
fn transactions_and_scripts_run_it() {
    duel(
        &[],
        &[
            "SET {bar}1 1",
            "MULTI",
            "SET {bar}2 2",
            "CLUSTER FLUSHSLOT 5061",
            "SET {bar}3 3",
            "EXEC",
            "CLUSTER GETKEYSINSLOT 5061 10",
            "EVAL \"return redis.call('CLUSTER', 'FLUSHSLOT', '5061')\" 0",
            "CLUSTER COUNTKEYSINSLOT 5061",
            "SET {bar}1 1",
            "EVAL_RO \"return redis.pcall('CLUSTER', 'FLUSHSLOT', '5061')\" 0",
            "CLUSTER COUNTKEYSINSLOT 5061",
            "WATCH {bar}1 foo",
            "CLUSTER FLUSHSLOT 5061",
            "MULTI",
            "PING",
            "EXEC",
            "WATCH {bar}1 foo",
            "CLUSTER FLUSHSLOT 5061",
            "MULTI",
            "PING",
            "EXEC",
        ],
    );
}

#[test]
fn users_need_the_command_and_all_databases() {
    duel(
        &[],
        &[
            "ACL SETUSER deputy on nopass ~foo* +@all",
            "ACL DRYRUN deputy CLUSTER FLUSHSLOT 5061",
            "ACL SETUSER deputy -@dangerous",
            "ACL DRYRUN deputy CLUSTER FLUSHSLOT 5061",
            "COMMAND GETKEYS CLUSTER FLUSHSLOT 5061",
        ],
    );
}

#[test]
fn a_server_without_a_cluster_refuses() {
    let (ours, theirs) = (Server::start(&[]), Oracle::valkey91());
    for line in ["CLUSTER FLUSHSLOT 1", "CLUSTER FLUSHSLOT x", "CLUSTER FLUSHSLOT 1 2 3"] {
        assert_eq!(ask(&ours, line), ask(&theirs, line), "{line}");
    }
}

/// All of them are told of each key that went: the names in any order.
#[test]
fn listeners_and_clients_with_copies_are_told() {
    let told = |program: Program| {
        let node = lone(program, &["--notify-keyspace-events", "Eg"]);
        let (mut listener, mut copier, mut client) =
            (node.client3(), node.client3(), node.client());
        client.call(&["MSET", "{bar}1", "1", "{bar}2", "2", "{bar}3", "3"]);
        listener.call(&["SUBSCRIBE", "__keyevent@0__:del"]);
        copier.call(&["CLIENT", "TRACKING", "ON"]);
        for key in ["{bar}1", "{bar}3"] {
            copier.call(&["GET", key]);
        }
        assert_eq!(ask_by(&mut client, "CLUSTER FLUSHSLOT 5061"), "OK");
        let mut told: Vec<String> = (0..3).map(|_| render(&listener.receive())).collect();
        told.extend((0..2).map(|_| render(&copier.receive())));
        told.sort();
        told
    };
    assert_eq!(told(APUS), told(VALKEY));
}

/// A key whose time is over, and that nobody has removed yet, counts as one of the slot.
#[test]
fn expired_keys_go_with_the_rest() {
    let node = lone(APUS, &["--enable-debug-command", "yes"]);
    let mut client = node.client();
    assert_eq!(ask_by(&mut client, "DEBUG SET-ACTIVE-EXPIRE 0"), "OK");
    assert_eq!(ask_by(&mut client, "SET {bar}1 1 PX 1"), "OK");
    assert_eq!(ask_by(&mut client, "SET {bar}2 2"), "OK");
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(ask_by(&mut client, "CLUSTER COUNTKEYSINSLOT 5061"), "(integer) 2");
    assert_eq!(ask_by(&mut client, "CLUSTER FLUSHSLOT 5061"), "OK");
    assert_eq!(ask_by(&mut client, "CLUSTER COUNTKEYSINSLOT 5061"), "(integer) 0");
    assert_eq!((client.figure("expired_keys"), client.figure("evicted_keys")), (1, 0));
}

/// So many keys are too much for a worker.
#[test]
fn a_large_slot_goes_whole() {
    const KEYS: usize = 30_000;
    let node = lone(APUS, &["--appendonly", "yes"]);
    let mut client = node.client();
    let fill = |client: &mut Client| {
        let sets =
            (0..KEYS).map(|number| vec!["SET".to_owned(), format!("{{bar}}{number}"), "v".into()]);
        client.pipeline(&sets.collect::<Vec<_>>());
        assert_eq!(ask_by(client, "CLUSTER COUNTKEYSINSLOT 5061"), format!("(integer) {KEYS}"));
    };
    fill(&mut client);
    assert_eq!(ask_by(&mut client, "SET foo 1"), "OK");
    assert_eq!(ask_by(&mut client, "CLUSTER FLUSHSLOT 5061"), "OK");
    assert_eq!(ask_by(&mut client, "DBSIZE"), "(integer) 1");
    fill(&mut client);
    assert_eq!(ask_by(&mut client, "MULTI"), "OK");
    assert_eq!(ask_by(&mut client, "CLUSTER FLUSHSLOT 5061"), "QUEUED");
    assert_eq!(ask_by(&mut client, "EXEC"), "1) OK");
    assert_eq!(ask_by(&mut client, "DBSIZE"), "(integer) 1");
}

#[test]
fn the_log_has_it() {
    let mut node =
        lone(APUS, &["--appendonly", "yes", "--appendfsync", "always", "--cluster-databases", "4"]);
    let mut client = node.client();
    for line in [
        "MSET {bar}1 1 {bar}2 2",
        "SET foo 1",
        "SELECT 2",
        "SET {bar}2 2",
        "SET foo 2",
        "SELECT 3",
        "CLUSTER FLUSHSLOT 5061",
        "SET foo 3",
    ] {
        assert_eq!(ask_by(&mut client, line), "OK", "{line}");
    }
    node.kill();
    node.restart();
    let mut client = node.client();
    let sizes = |client: &mut Client| {
        ["0", "1", "2", "3"].map(|database| {
            assert_eq!(ask_by(client, &format!("SELECT {database}")), "OK");
            ask_by(client, "DBSIZE")
        })
    };
    let [one, none] = ["(integer) 1", "(integer) 0"];
    assert_eq!(sizes(&mut client), [one, none, one, one]);
    assert_eq!(ask_by(&mut client, "CLUSTER COUNTKEYSINSLOT 5061"), none);
}

/// A primary and its replica in one cluster.
fn shard(primary: Program, replica: Program, further: &[&str]) -> [Server; 2] {
    let nodes = [lone(primary, further), replica.node(further)];
    meet(&nodes[1], &nodes[0]);
    await_whole(&nodes.each_ref(), 2);
    assert_eq!(ask(&nodes[1], &format!("CLUSTER REPLICATE {}", id(&nodes[0]))), "OK");
    eventually("the replica is linked", || is_linked(&nodes[1]));
    nodes
}

fn replicas_follow(primary: Program, replica: Program, further: &[&str], elsewhere: &str) {
    let knows = replica != REDIS;
    let [primary, replica] = shard(primary, replica, further);
    let mut client = primary.client();
    for line in ["MSET {bar}1 1 {bar}2 2", "SET foo 1"] {
        assert_eq!(ask_by(&mut client, line), "OK");
    }
    for line in [format!("SELECT {elsewhere}"), "SET {bar}3 3".to_owned()] {
        assert_eq!(ask_by(&mut client, &line), "OK");
    }
    // Valkey counts those of the selected database.
    let count = |node: &Server| ask(node, "CLUSTER COUNTKEYSINSLOT 5061");
    eventually("the replica has them", || {
        let mut of_replica = replica.client();
        of_replica.call(&["READONLY"]);
        of_replica.call(&["SELECT", elsewhere]);
        of_replica.call(&["EXISTS", "{bar}3"]) == Value::Integer(1)
    });
    if knows {
        let refused = ask(&replica, "CLUSTER FLUSHSLOT 5061");
        assert_eq!(refused, "(error) READONLY You can't write against a read only replica.");
    }
    assert_eq!(ask_by(&mut client, "CLUSTER FLUSHSLOT 5061"), "OK");
    assert_eq!(ask_by(&mut client, "SET behind 1"), "OK");
    eventually("the replica has what came behind", || {
        let mut of_replica = replica.client();
        of_replica.call(&["READONLY"]);
        of_replica.call(&["SELECT", elsewhere]);
        render(&of_replica.call(&["GET", "behind"])) == "\"1\""
    });
    assert_eq!(
        (count(&primary).as_str(), count(&replica).as_str()),
        ("(integer) 0", "(integer) 0")
    );
    let mut of_replica = replica.client();
    of_replica.call(&["READONLY"]);
    assert_eq!(of_replica.call(&["EXISTS", "foo"]), Value::Integer(1));
    assert!(is_linked(&replica));
}

#[test]
fn replicas_of_every_kind_follow() {
    let databases = ["--cluster-databases", "4"];
    replicas_follow(APUS, APUS, &databases, "2");
    replicas_follow(APUS, VALKEY, &databases, "2");
    replicas_follow(APUS, REDIS, &[], "0");
}

/// Valkey says it in its own words, not by the keys.
#[test]
fn a_replica_of_valkey_follows() {
    replicas_follow(VALKEY, APUS, &["--cluster-databases", "4"], "2");
}

/// A server that is no node has the keys of the slot anywhere.
#[test]
fn a_replica_outside_of_the_cluster_follows() {
    for program in [VALKEY, APUS] {
        let primary = lone(program, &[]);
        let replica = Server::start(&[]);
        assert_eq!(ask(&replica, &format!("REPLICAOF 127.0.0.1 {}", primary.port())), "OK");
        eventually("the replica is linked", || is_linked(&replica));
        let mut client = primary.client();
        client.call(&["MSET", "{bar}1", "1", "{bar}2", "2", "{bar}3", "3"]);
        client.call(&["SET", "foo", "1"]);
        eventually("the replica has them", || ask(&replica, "DBSIZE") == "(integer) 4");
        assert_eq!(ask_by(&mut client, "CLUSTER FLUSHSLOT 5061"), "OK");
        eventually("they are gone", || ask(&replica, "DBSIZE") == "(integer) 1");
        assert_eq!(ask(&replica, "GET foo"), "\"1\"");
    }
}
