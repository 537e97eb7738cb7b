//! What is found right behind the OK of an operator's order to a node.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::cluster::{Program, ask, ask_by, await_whole, id, meet, state};
use tests::server::eventually;
use tests::{Client, Oracle, Server};

const PROGRAMS: [Program; 2] = [Program::Apus, Program::Stock(Oracle::Redis82)];

/// A node that has all slots, and one that knows it and has nothing.
fn pair(program: Program) -> [Server; 2] {
    let nodes = [program.node(&[]), program.node(&[])];
    assert_eq!(ask(&nodes[0], "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    meet(&nodes[1], &nodes[0]);
    await_whole(&nodes.each_ref(), 2);
    nodes
}

fn role(client: &mut Client) -> String {
    let said = ask_by(client, "ROLE");
    let word = said.lines().next().unwrap().to_owned();
    let told = client.info("role");
    assert!(word.contains(&told), "{word} {told}");
    told
}

fn replicate(nodes: &[Server; 2]) -> Client {
    let mut client = nodes[1].client();
    let line = format!("CLUSTER REPLICATE {}", id(&nodes[0]));
    assert_eq!(ask_by(&mut client, &line), "OK");
    assert_eq!(role(&mut client), "slave");
    eventually("the link is up", || client.info("master_link_status") == "up");
    client
}

#[test]
fn a_node_is_a_replica_when_its_order_is_answered() {
    for program in PROGRAMS {
        let nodes = pair(program);
        let mut client = replicate(&nodes);
        assert_eq!(client.info("master_port"), nodes[0].port().to_string());
        // The same order once more changes nothing.
        let line = format!("CLUSTER REPLICATE {}", id(&nodes[0]));
        assert_eq!(ask_by(&mut client, &line), "OK");
        assert_eq!(role(&mut client), "slave");
    }
}

#[test]
fn a_node_is_a_replica_when_a_transaction_with_its_order_is_answered() {
    for program in PROGRAMS {
        let nodes = pair(program);
        let mut client = nodes[1].client();
        assert_eq!(ask_by(&mut client, "MULTI"), "OK");
        let line = format!("CLUSTER REPLICATE {}", id(&nodes[0]));
        assert_eq!(ask_by(&mut client, &line), "QUEUED");
        assert_eq!(ask_by(&mut client, "EXEC"), "1) OK");
        assert_eq!(role(&mut client), "slave");
    }
}

#[test]
fn a_replica_that_was_reset_is_an_empty_primary_when_that_is_answered() {
    for program in PROGRAMS {
        let nodes = pair(program);
        assert_eq!(ask(&nodes[0], "MSET {a}1 1 {a}2 2"), "OK");
        let mut client = replicate(&nodes);
        eventually("the keys are there", || ask_by(&mut client, "DBSIZE") == "(integer) 2");
        assert_eq!(ask_by(&mut client, "CLUSTER RESET SOFT"), "OK");
        assert_eq!(ask_by(&mut client, "DBSIZE"), "(integer) 0");
        assert_eq!(role(&mut client), "master");
        assert_eq!(state(&nodes[1], "cluster_known_nodes"), "1");
        assert_eq!(state(&nodes[1], "cluster_slots_assigned"), "0");
        assert_eq!(ask(&nodes[0], "DBSIZE"), "(integer) 2");
    }
}

/// A replica gives up what is its primary's; a primary keeps what it has.
#[test]
fn a_replica_of_no_one_is_an_empty_primary_when_that_is_answered() {
    for program in [Program::Apus, Program::Stock(Oracle::Valkey91)] {
        for way in
            [&["CLUSTER REPLICATE no one"][..], &["MULTI", "CLUSTER REPLICATE NO ONE", "EXEC"]]
        {
            let nodes = pair(program);
            assert_eq!(ask(&nodes[0], "MSET {a}1 1 {a}2 2"), "OK");
            let mut client = replicate(&nodes);
            eventually("the keys are there", || ask_by(&mut client, "DBSIZE") == "(integer) 2");
            let (name, shard) = (id(&nodes[1]), ask(&nodes[1], "CLUSTER MYSHARDID"));
            let said = way.iter().map(|line| ask_by(&mut client, line)).last();
            assert_eq!(said.as_deref(), Some(if way.len() == 1 { "OK" } else { "1) OK" }));
            assert_eq!(role(&mut client), "master");
            assert_eq!(ask_by(&mut client, "DBSIZE"), "(integer) 0");
            assert_eq!(id(&nodes[1]), name);
            assert_ne!(ask(&nodes[1], "CLUSTER MYSHARDID"), shard);
            eventually("the other node knows it", || {
                let list = ask(&nodes[0], "CLUSTER NODES");
                let line = list.split("\\n").find(|line| line.contains(&name)).unwrap_or_default();
                line.contains(" master - ") && nodes[0].client().info("connected_slaves") == "0"
            });
            assert_eq!(ask(&nodes[0], "CLUSTER REPLICATE NO ONE"), "OK");
            assert_eq!(ask(&nodes[0], "DBSIZE"), "(integer) 2");
            assert_eq!(state(&nodes[0], "cluster_slots_ok"), "16384");
            // The node may follow again.
            drop(replicate(&nodes));
        }
    }
}

#[test]
fn the_node_to_replicate_is_read_as_valkey_reads_it() {
    let lines = ["NO", "NO TWO", "NO ONE x", "YES ONE", "x y", "x", "NO ONE", "no one"]
        .map(|rest| format!("CLUSTER REPLICATE {rest}"));
    let said = |program: Program| {
        let node = program.node(&[]);
        lines.each_ref().map(|line| ask(&node, line))
    };
    assert_eq!(said(Program::Apus), said(Program::Stock(Oracle::Valkey91)));
}

#[test]
fn a_replica_leads_when_its_takeover_is_answered() {
    for program in PROGRAMS {
        let nodes = pair(program);
        assert_eq!(ask(&nodes[0], "SET foo 1"), "OK");
        let mut client = replicate(&nodes);
        eventually("the key is there", || ask_by(&mut client, "DBSIZE") == "(integer) 1");
        assert_eq!(ask_by(&mut client, "CLUSTER FAILOVER TAKEOVER"), "OK");
        assert_eq!(role(&mut client), "master");
        assert_eq!(ask_by(&mut client, "GET foo"), "\"1\"");
        assert_eq!(ask_by(&mut client, "SET foo 2"), "OK");
    }
}

/// A node that is to be met is listed at once, and one that is forgotten is not.
#[test]
fn the_list_of_nodes_follows_meetings_and_what_is_forgotten() {
    for program in PROGRAMS {
        let nodes = pair(program);
        let mut client = nodes[0].client();
        // No process listens there.
        let (port, bus) = (tests::server::free_port(), tests::server::free_port());
        assert_eq!(ask_by(&mut client, &format!("CLUSTER MEET 127.0.0.1 {port} {bus}")), "OK");
        let list = ask_by(&mut client, "CLUSTER NODES");
        let place = format!("127.0.0.1:{port}@{bus}");
        let line = list.split("\\n").find(|line| line.contains(&place)).unwrap_or_default();
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words.get(2..4), Some(&["handshake", "-"][..]), "{list}");
        assert_eq!(state(&nodes[0], "cluster_known_nodes"), "3");
        assert_eq!(ask_by(&mut client, &format!("CLUSTER FORGET {}", id(&nodes[1]))), "OK");
        let list = ask_by(&mut client, "CLUSTER NODES");
        assert!(!list.contains(&id(&nodes[1])), "{list}");
    }
}

/// A slot does not move from a node to itself: clients would be sent in a ring.
#[test]
fn a_node_is_no_other_end_of_its_own_move() {
    let lines = |node: &Server| {
        let me = id(node);
        [
            "CLUSTER ADDSLOTS 1".to_owned(),
            format!("CLUSTER SETSLOT 1 MIGRATING {me}"),
            format!("CLUSTER SETSLOT 2 MIGRATING {me}"),
            format!("CLUSTER SETSLOT 1 IMPORTING {me}"),
            format!("CLUSTER SETSLOT 2 IMPORTING {me}"),
        ]
    };
    let said = |program: Program| {
        let node = program.node(&[]);
        lines(&node).map(|line| ask(&node, &line))
    };
    assert_eq!(said(Program::Apus), said(Program::Stock(Oracle::Valkey91)));
}

/// Other nodes would not have swapped.
#[test]
fn databases_of_a_cluster_are_not_swapped() {
    let lines = ["SWAPDB 0 0", "SWAPDB 0 1", "SWAPDB a b", "MULTI", "SWAPDB 0 0", "EXEC"];
    let said = |program: Program, further: &[&str]| {
        let node = program.node(further);
        assert_eq!(ask(&node, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
        let mut client = node.client();
        eventually("all is served", || state(&node, "cluster_state") == "ok");
        lines.map(|line| ask_by(&mut client, line))
    };
    let theirs = said(Program::Stock(Oracle::Redis82), &[]);
    assert_eq!(said(Program::Apus, &[]), theirs);
    assert_eq!(said(Program::Apus, &["--cluster-databases", "4"]), theirs);
}
