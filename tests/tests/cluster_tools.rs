//! `redis-cli --cluster` on clusters of Apus, and on mixed ones.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use proto::value::Value;
use tests::cluster::{
    Program, address, ask, await_whole, create, follow, id, owners, tool, with_redis_py_at_work,
};
use tests::server::eventually;
use tests::{Oracle, Server};

const APUS: Program = Program::Apus;
const REDIS70: Program = Program::Stock(Oracle::Redis70);
const REDIS82: Program = Program::Stock(Oracle::Redis82);
const VALKEY91: Program = Program::Stock(Oracle::Valkey91);

fn done(words: &[&str]) -> String {
    tool(words).unwrap_or_else(|why| panic!("{why}"))
}

fn key(number: usize) -> String {
    format!("key:{number}")
}

fn fill(nodes: &[&Server], count: usize) {
    for number in 0..count {
        let reply = follow(nodes, nodes[0], &["SET", &key(number), &number.to_string()]);
        assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
    }
}

fn is_whole(nodes: &[&Server], count: usize) {
    for number in 0..count {
        let reply = follow(nodes, nodes[0], &["GET", &key(number)]);
        assert_eq!(reply.as_bytes(), Some(number.to_string().as_bytes()), "{}", key(number));
    }
}

/// How many slots the node at this port has.
fn slots_of(teller: &Server, node: &Server) -> i64 {
    let port = i64::from(node.port());
    owners(teller).iter().filter(|it| it.2 == port).map(|it| it.1 - it.0 + 1).sum()
}

fn reshard(first: &str, (from, to): (&str, &str), slots: &str) {
    let way = ["--cluster-from", from, "--cluster-to", to, "--cluster-slots", slots];
    done(&[&["reshard", first][..], &way, &["--cluster-yes"]].concat());
}

fn tools_work_on(programs: [Program; 3]) {
    let nodes = programs.map(|program| program.node(&[]));
    let all = nodes.each_ref();
    create(&all, 0);
    let first = address(&nodes[0]);
    let said = done(&["check", &first]);
    assert!(said.contains("[OK] All 16384 slots covered."), "{said}");
    fill(&all, 200);
    let (from, to) = (id(&nodes[0]), id(&nodes[1]));
    let before = slots_of(&nodes[2], &nodes[1]);
    reshard(&first, (&from, &to), "100");
    await_whole(&all, 3);
    eventually("the slots have moved for all", || {
        nodes.iter().all(|teller| slots_of(teller, &nodes[1]) == before + 100)
    });
    is_whole(&all, 200);
    done(&["rebalance", &first, "--cluster-threshold", "1"]);
    await_whole(&all, 3);
    is_whole(&all, 200);
    let said = done(&["check", &first]);
    assert!(said.contains("[OK] All nodes agree about slots configuration."), "{said}");
    let said = done(&["info", &first]);
    assert!(said.contains("[OK] 200 keys in 3 masters."), "{said}");
}

#[test]
fn a_cluster_of_apus_is_created_checked_resharded_and_rebalanced() {
    tools_work_on([APUS, APUS, APUS]);
}

#[test]
fn a_mixed_cluster_is_created_checked_resharded_and_rebalanced() {
    tools_work_on([APUS, REDIS82, APUS]);
}

#[test]
fn a_cluster_with_redis70_and_valkey_is_created_checked_resharded_and_rebalanced() {
    tools_work_on([REDIS70, APUS, VALKEY91]);
}

/// A client at work sees nothing of slots that go from Apus to Redis and back, and between nodes
/// of Apus.
#[test]
fn a_cluster_client_works_through_resharding() {
    for programs in [[APUS, APUS, APUS], [APUS, REDIS82, APUS]] {
        let nodes = programs.map(|program| program.node(&[]));
        let all = nodes.each_ref();
        create(&all, 0);
        let first = address(&nodes[0]);
        let (one, other) = (id(&nodes[0]), id(&nodes[1]));
        with_redis_py_at_work(&all, || {
            reshard(&first, (&one, &other), "100");
            reshard(&first, (&other, &one), "200");
        });
        await_whole(&all, 3);
    }
}

/// A resharding that was broken off is brought to its end.
#[test]
fn open_slots_are_fixed() {
    let nodes = [APUS, APUS, REDIS82].map(|program| program.node(&[]));
    let all = nodes.each_ref();
    create(&all, 0);
    fill(&all, 200);
    let (source, target) = (&nodes[0], &nodes[1]);
    let slot = owners(source).iter().find(|it| it.2 == i64::from(source.port())).unwrap().0;
    let (source_id, target_id) = (id(source), id(target));
    assert_eq!(ask(target, &format!("CLUSTER SETSLOT {slot} IMPORTING {source_id}")), "OK");
    assert_eq!(ask(source, &format!("CLUSTER SETSLOT {slot} MIGRATING {target_id}")), "OK");
    let first = address(source);
    let said = tool(&["check", &first]).unwrap_err();
    assert!(said.contains("The following slots are open"), "{said}");
    done(&["fix", &first]);
    eventually("no slot is open and all know the new owner", || {
        tool(&["check", &first]).is_ok_and(|said| said.contains("[OK] All nodes agree"))
    });
    assert!(owners(target).iter().any(|it| it.0 <= slot && slot <= it.1));
    is_whole(&all, 200);
}

#[test]
fn what_is_called_and_set_comes_to_all_nodes() {
    let nodes = [APUS, REDIS82, APUS].map(|program| program.node(&[]));
    let all = nodes.each_ref();
    create(&all, 0);
    let first = address(&nodes[0]);
    let said = done(&["call", &first, "ping"]);
    assert_eq!(said.matches("PONG").count(), 3, "{said}");
    assert!(!done(&["info", &first]).is_empty());
}

/// Keys of a server without cluster come into one.
#[test]
fn keys_are_imported() {
    let nodes = [APUS, APUS, APUS].map(|program| program.node(&[]));
    let all = nodes.each_ref();
    create(&all, 0);
    let alone = Server::start(&[]);
    for number in 0..50 {
        assert_eq!(ask(&alone, &format!("SET {} {number}", key(number))), "OK");
    }
    done(&["import", &address(&nodes[0]), "--cluster-from", &address(&alone), "--cluster-copy"]);
    is_whole(&all, 50);
}

#[test]
fn nodes_are_added_and_deleted() {
    let nodes = [APUS, APUS, APUS, APUS].map(|program| program.node(&[]));
    let all: Vec<&Server> = nodes.iter().collect();
    create(&all[..3], 0);
    let (first, last) = (address(&nodes[0]), address(&nodes[3]));
    let primary = id(&nodes[0]);
    done(&["add-node", &last, &first, "--cluster-slave", "--cluster-master-id", &primary]);
    await_whole(&all, 4);
    eventually("the new node is a replica with the data", || {
        nodes[3].client().info("master_link_status") == "up"
    });
    let name = id(&nodes[3]);
    done(&["del-node", &first, &name]);
    await_whole(&all[..3], 3);
    eventually("the node that was deleted leads itself", || {
        nodes[3].client().info("role") == "master"
    });
    // Nodes that have forgotten a name do not hear of it for a minute.
    assert_eq!(ask(&nodes[3], "CLUSTER RESET HARD"), "OK");
    done(&["add-node", &last, &first]);
    await_whole(&all, 4);
    let name = id(&nodes[3]);
    done(&["del-node", &first, &name]);
    await_whole(&all[..3], 3);
    assert_eq!(ask(&nodes[3], "DBSIZE"), "(integer) 0");
}
