//! CLUSTERSCAN (Valkey): one scan over all nodes, whose cursors lead to the node of their slot.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::collections::BTreeMap;

use proto::value::Value;
use tests::cluster::{
    Program, ask, ask_by, await_whole, create, follow, id, meet, owners, state, tool,
};
use tests::render::{render, text};
use tests::server::eventually;
use tests::shards::is_linked;
use tests::{Client, Oracle, Server};

const APUS: Program = Program::Apus;
const VALKEY: Program = Program::Stock(Oracle::Valkey91);

fn lone(program: Program, further: &[&str]) -> Server {
    let node = program.node(further);
    assert_eq!(ask(&node, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    eventually("all is served", || state(&node, "cluster_state") == "ok");
    node
}

/// What clients of both protocols are told; keys are sorted, as each server has its own order.
fn said(program: Program, further: &[&str], lines: &[&str]) -> Vec<String> {
    let node = lone(program, further);
    let by = |client: &mut Client| -> Vec<String> {
        let sorted = |line: &&str| {
            let words = base::quote::split_arguments(line.as_bytes()).unwrap();
            let mut reply = client.call(&words);
            if let Value::Array(parts) = &mut reply
                && let Some(Value::Array(keys)) = parts.get_mut(1)
            {
                keys.sort_by_key(render);
            }
            render(&reply)
        };
        lines.iter().map(sorted).collect()
    };
    [by(&mut node.client()), by(&mut node.client3())].concat()
}

#[track_caller]
fn duel(further: &[&str], lines: &[&str]) {
    let (ours, theirs) = (said(APUS, further, lines), said(VALKEY, further, lines));
    for (index, (own, other)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(own, other, "{}", lines[index % lines.len()]);
    }
}

/// What stands behind the name of the command.
const RESTS: &[&str] = &[
    "",
    " 0",
    " x",
    " 00",
    " 1",
    " 0 MATCH",
    " 0 COUNT 0",
    " 0 COUNT x",
    " 0 COUNT -1",
    " 0 TYPE nope",
    " 0 TYPE",
    " 0 SLOT x",
    " 0 SLOT 16384",
    " 0 SLOT -1",
    " 0 SLOT",
    " 0 SLOT 9000",
    " 0 SLOT 5061",
    " 0 SLOT 1 SLOT 2",
    " 0 SLOT 1 SLOT 1",
    " 0 SLOT x SLOT 1",
    " 0 SLOT 1 SLOT",
    " 0 FOO",
    " 0 FOO x",
    " 0 match * count 3 type string slot 0",
    " 0 MATCH a MATCH b",
    " 0 COUNT 3 COUNT x",
    " 0 NOVALUES",
    " x COUNT x",
    " x FOO",
    " 0 MATCH b",
    " 0 MATCH bar",
    " 0 MATCH {bar}*",
    " 0 MATCH x{bar}*",
    " 0 MATCH *{bar}*",
    " 0 MATCH {bar*}",
    " 0 MATCH [b]",
    " 0 MATCH \\\\b",
    " 0 MATCH {}x",
    " 0 MATCH {}*",
    " 0 MATCH \"\"",
    " 0 MATCH {bar}* SLOT 1",
    " 0 MATCH {bar}* SLOT 5061",
    " 0-{bar}-0 SLOT 5062",
    " 0-{bar}-0 SLOT 99999",
    " 0-{bar}-0 TYPE nope SLOT 3",
    " 0-{bar}-0 SLOT 5 COUNT x",
    " 0-{bar}-0 SLOT 5 FOO",
    " 0-{bar}-0 SLOT 5061",
    " 0-{bar}-0",
    " 0-{bar}-0 MATCH b",
    " 0-{bar}-0 MATCH bar",
    " 0-{bar}-0 MATCH {foo}*",
    " 0-{06S}-0 MATCH {bar}x",
    " 0-{6nb}-0 SLOT 5060 MATCH {bar}x",
    " 0-{bar}",
    " 0-{bar}-",
    " 0-{bar}-x",
    " 0-{bar}--1",
    " 0-{bar}-+0",
    " 0-{bar}-18446744073709551616",
    " {bar}",
    " --{bar}-0",
    " -{bar}-0",
    " 0-{bar}x-0",
    " 0--0",
    " 0-a-0",
    " -",
    " --",
    " \"\"",
    " 0-{6ZJ}-0",
    " 0-{6ZJ}-0 SLOT 16383",
    " xyz-{bar}-5",
];

#[test]
fn arguments_and_cursors_are_read_as_valkey_reads_them() {
    let lines: Vec<String> = RESTS.iter().map(|rest| format!("CLUSTERSCAN{rest}")).collect();
    duel(&[], &lines.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Whole slots: within one each server has its own order.
#[test]
fn keys_are_found_by_pattern_type_slot_and_database() {
    duel(
        &["--cluster-databases", "4"],
        &[
            "MSET {bar}1 1 {bar}2 2 {bar}31 3",
            "RPUSH {bar}list a",
            "MSET {foo}1 1 {foo}2 2",
            "CLUSTERSCAN 0-{bar}-0 COUNT 1000",
            "CLUSTERSCAN 0-{06S}-0 COUNT 1000",
            "CLUSTERSCAN 0-{bar}-0 COUNT 1000 SLOT 5061",
            "CLUSTERSCAN 0-{bar}-0 COUNT 1000 MATCH *1",
            "CLUSTERSCAN 0-{bar}-0 COUNT 1000 MATCH {bar}?",
            "CLUSTERSCAN 0-{bar}-0 COUNT 1000 TYPE list",
            "CLUSTERSCAN 0-{bar}-0 COUNT 1000 TYPE LIST MATCH *1",
            "CLUSTERSCAN 0-{9Le}-0 COUNT 1000",
            "MULTI",
            "CLUSTERSCAN 0-{bar}-0 COUNT 1000 SLOT 5061 MATCH *31",
            "EXEC",
            "EVAL \"return redis.call('CLUSTERSCAN', KEYS[1], 'MATCH', '*st')\" 1 0-{bar}-0",
            "SELECT 2",
            "SET {bar}9 9",
            "CLUSTERSCAN 0-{bar}-0 COUNT 1000",
            "COMMAND GETKEYS CLUSTERSCAN 0-{bar}-0",
            "ACL SETUSER reader on nopass ~none +@read",
            "ACL DRYRUN reader CLUSTERSCAN 0-{bar}-0",
            "ACL SETUSER reader -@keyspace",
            "ACL DRYRUN reader CLUSTERSCAN 0-{bar}-0",
        ],
    );
}

#[test]
fn a_server_without_a_cluster_refuses() {
    let (ours, theirs) = (Server::start(&[]), Oracle::valkey91());
    for line in ["CLUSTERSCAN 0", "CLUSTERSCAN x", "CLUSTERSCAN 0 FOO", "CLUSTERSCAN"] {
        assert_eq!(ask(&ours, line), ask(&theirs, line), "{line}");
    }
}

/// Slots that are not served, on the move, or not covered.
#[test]
fn the_end_of_what_a_node_serves_is_the_end_of_a_call() {
    let told = |program: Program| {
        let nodes = [program.node(&[]), program.node(&[])];
        let [one, other] = &nodes;
        assert_eq!(ask(one, "CLUSTER ADDSLOTSRANGE 0 6 8 8191"), "OK");
        assert_eq!(ask(other, "CLUSTER ADDSLOTSRANGE 8192 16383"), "OK");
        assert_eq!(ask(other, "CLUSTER SET-CONFIG-EPOCH 2"), "OK");
        nodes.iter().for_each(|node| {
            assert_eq!(ask(node, "CONFIG SET cluster-require-full-coverage no"), "OK");
        });
        meet(one, other);
        eventually("both serve", || {
            nodes.iter().all(|node| {
                state(node, "cluster_state") == "ok" && state(node, "cluster_slots_ok") == "16383"
            })
        });
        let places = |line: String| {
            let numbers = [one.port().to_string(), other.port().to_string()];
            line.replace(&numbers[0], "<one>").replace(&numbers[1], "<other>")
        };
        let mut said = Vec::new();
        let mut tell = |node: &Server, lines: &[&str]| {
            let mut client = node.client();
            said.extend(lines.iter().map(|line| places(ask_by(&mut client, line))));
        };
        tell(
            one,
            &[
                "CLUSTERSCAN 0",
                "CLUSTERSCAN 0-{06S}-0",
                "CLUSTERSCAN 0-{1LV}-0",
                "CLUSTERSCAN 0-{0QG}-0",
                "CLUSTERSCAN 0-{8YG}-0",
                "CLUSTERSCAN 0-{06S}-0 SLOT 0",
                "SET {bar}1 1",
                "CLUSTERSCAN 0-{bar}-0",
            ],
        );
        tell(other, &["CLUSTERSCAN 0", "CLUSTERSCAN 0-{8YG}-0", "CLUSTERSCAN 0-{bar}-0"]);
        let [of_one, of_other] = nodes.each_ref().map(id);
        tell(one, &[format!("CLUSTER SETSLOT 5061 MIGRATING {of_other}").as_str()]);
        tell(other, &[format!("CLUSTER SETSLOT 5061 IMPORTING {of_one}").as_str()]);
        tell(one, &["CLUSTERSCAN 0-{bar}-0", "CLUSTERSCAN 0-{0QG}-0"]);
        tell(
            other,
            &[
                "ASKING",
                "SET {bar}2 2",
                "CLUSTERSCAN 0-{bar}-0",
                "ASKING",
                "CLUSTERSCAN 0-{bar}-0 SLOT 5061",
            ],
        );
        said
    };
    assert_eq!(told(APUS), told(VALKEY));
}

/// A scan that a client makes who follows the cursors: how often each key came. `between` is
/// called behind each call.
fn scan(
    nodes: &[&Server],
    options: &[&str],
    mut between: impl FnMut(usize),
) -> BTreeMap<String, usize> {
    let (mut cursor, mut found) = ("0".to_owned(), BTreeMap::new());
    for call in 1.. {
        let words = [&["CLUSTERSCAN", cursor.as_str()][..], options].concat();
        let Value::Array(parts) = follow(nodes, nodes[0], &words) else { panic!("{cursor}") };
        let [next, Value::Array(keys)] = &parts[..] else { panic!("a cursor and keys") };
        keys.iter().for_each(|key| *found.entry(text(key)).or_default() += 1);
        cursor = text(next);
        if cursor == "0" {
            break;
        }
        between(call);
    }
    found
}

/// Sets so many keys, each of a slot of its own mostly, and as many of one slot.
fn fill(nodes: &[&Server], count: usize) {
    for number in 0..count {
        for key in [format!("key:{number}"), format!("{{bar}}{number}")] {
            assert_eq!(follow(nodes, nodes[0], &["SET", &key, "v"]), Value::Simple("OK".into()));
        }
    }
}

fn finds_all(programs: [Program; 3]) {
    let nodes = programs.map(|program| program.node(&[]));
    let nodes = nodes.each_ref();
    create(&nodes, 0);
    fill(&nodes, 150);
    for options in [&["COUNT", "3"][..], &["COUNT", "1000"], &[]] {
        let found = scan(&nodes, options, |_| ());
        assert_eq!(found.len(), 300, "{options:?}");
    }
    let found = scan(&nodes, &["MATCH", "key:*", "COUNT", "50"], |_| ());
    assert_eq!(found.len(), 150);
    let mut calls = 0;
    let found = scan(&nodes, &["MATCH", "{bar}*", "COUNT", "1000"], |_| calls += 1);
    assert_eq!((found.len(), calls), (150, 1));
}

#[test]
fn a_scan_finds_all_keys_of_a_cluster() {
    finds_all([APUS; 3]);
}

#[test]
fn a_scan_finds_all_keys_of_a_mixed_cluster() {
    finds_all([APUS, VALKEY, APUS]);
}

/// Slots that change their node while they are scanned are scanned anew there.
#[test]
fn a_scan_finds_what_moves_meanwhile() {
    let nodes = [lone(APUS, &[]), APUS.node(&[])];
    let nodes = nodes.each_ref();
    meet(nodes[0], nodes[1]);
    await_whole(&nodes, 2);
    fill(&nodes, 100);
    let place = tests::cluster::address(nodes[0]);
    let mut moved = false;
    let found = scan(&nodes, &["COUNT", "2"], |call| {
        if call != 25 {
            return;
        }
        let [from, to] = nodes.map(id);
        let way = ["--cluster-from", &from, "--cluster-to", &to, "--cluster-slots", "12000"];
        let words = [&["reshard", &place][..], &way, &["--cluster-yes"]].concat();
        tool(&words).unwrap();
        eventually("both know it", || nodes.iter().all(|node| owners(node).len() == 2));
        moved = true;
    });
    assert!(moved);
    assert_eq!(found.len(), 200);
}

#[test]
fn a_replica_is_scanned_by_clients_that_say_readonly() {
    for (program, follower) in [(APUS, APUS), (VALKEY, APUS)] {
        let nodes = [lone(program, &[]), follower.node(&[])];
        meet(&nodes[1], &nodes[0]);
        await_whole(&nodes.each_ref(), 2);
        assert_eq!(ask(&nodes[1], &format!("CLUSTER REPLICATE {}", id(&nodes[0]))), "OK");
        eventually("the replica is linked", || is_linked(&nodes[1]));
        fill(&[&nodes[0]], 50);
        eventually("the replica has them", || ask(&nodes[1], "DBSIZE") == "(integer) 100");
        let mut client = nodes[1].client();
        let moved = format!("(error) MOVED 13907 127.0.0.1:{}", nodes[0].port());
        assert_eq!(ask_by(&mut client, "CLUSTERSCAN 0"), moved);
        assert_eq!(ask_by(&mut client, "READONLY"), "OK");
        let (mut cursor, mut found) = ("0".to_owned(), BTreeMap::<String, usize>::new());
        loop {
            let words = ["CLUSTERSCAN", &cursor, "COUNT", "7"];
            let Value::Array(parts) = client.call(&words) else { panic!("{cursor}") };
            let [next, Value::Array(keys)] = &parts[..] else { panic!("a cursor and keys") };
            keys.iter().for_each(|key| *found.entry(text(key)).or_default() += 1);
            cursor = text(next);
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found.len(), 100);
    }
}
