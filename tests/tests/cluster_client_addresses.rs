//! Clients are sent to the addresses that nodes announce for them, as Valkey's nodes do.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::Oracle;
use tests::Server;
use tests::cluster::{Program, ask, await_whole, configured, id, meet, state};
use tests::server::eventually;

const VALKEY: Program = Program::Stock(Oracle::Valkey91);

/// Two nodes that share the slots.
fn halves(programs: [Program; 2]) -> [Server; 2] {
    let nodes = programs.map(|program| program.node(&[]));
    assert_eq!(ask(&nodes[0], "CLUSTER ADDSLOTSRANGE 0 8191"), "OK");
    assert_eq!(ask(&nodes[1], "CLUSTER ADDSLOTSRANGE 8192 16383"), "OK");
    meet(&nodes[1], &nodes[0]);
    await_whole(&nodes.each_ref(), 2);
    nodes
}

/// Has each node announce an address and a port of its own for clients.
fn announce(nodes: &[Server; 2]) {
    for (place, node) in nodes.iter().enumerate() {
        let line = format!(
            "CONFIG SET cluster-announce-client-ipv4 10.9.8.{place} \
             cluster-announce-client-ipv6 fd00::{place} cluster-announce-client-port 700{place}"
        );
        assert_eq!(ask(node, &line), "OK");
    }
}

/// What a node tells of the addresses of all, without what differs from ask to ask.
fn told(node: &Server) -> Vec<String> {
    let nodes = node.client().call(&["CLUSTER", "NODES"]);
    let nodes = String::from_utf8_lossy(nodes.as_bytes().unwrap()).into_owned();
    let first_words = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = nodes.lines().map(first_words).collect();
    lines.sort();
    let key = |slot: u16| if slot < 8192 { "b" } else { "a" };
    lines.extend([1, 16_000].map(|slot| ask(node, &format!("GET {}", key(slot)))));
    lines.push(ask(node, "CLUSTER SLOTS"));
    lines
}

#[test]
fn announced_addresses_are_told_as_by_valkey() {
    for programs in [[VALKEY; 2], [Program::Apus, VALKEY], [Program::Apus; 2]] {
        let nodes = halves(programs);
        announce(&nodes);
        eventually("both tell the same addresses", || {
            let tales = nodes.each_ref().map(told);
            let [first, second] = &tales;
            let ids = nodes.each_ref().map(id);
            let stands = |tale: &Vec<String>| {
                let line = |place: usize| {
                    let bus = configured(&nodes[place], "cluster-port");
                    format!("{} 10.9.8.{place}:700{place}@{bus}", ids[place])
                };
                (0..2).all(|place| tale.contains(&line(place)))
            };
            stands(first)
                && stands(second)
                && first[2..4].contains(&"(error) MOVED 15495 10.9.8.1:7001".to_owned())
                && second[2..4].contains(&"(error) MOVED 3300 10.9.8.0:7000".to_owned())
                && first[4] == second[4]
        });
    }
}

#[test]
fn announced_addresses_outlive_a_restart() {
    let mut nodes = halves([Program::Apus; 2]);
    announce(&nodes);
    eventually("the other's address is known", || {
        ask(&nodes[0], "GET a") == "(error) MOVED 15495 10.9.8.1:7001"
    });
    // The node that knows both starts again while the other is away.
    nodes.iter_mut().for_each(Server::kill);
    nodes[0].restart();
    let line = ask(&nodes[0], "CLUSTER NODES");
    assert!(line.contains(" 10.9.8.1:7001@"), "{line}");
}

#[test]
fn announced_addresses_are_kept_from_redis() {
    let redis = Program::Stock(Oracle::Redis82);
    let nodes = halves([Program::Apus, redis]);
    announce_at(&nodes[0]);
    let port = nodes[0].port();
    // Redis 8 takes such an address for its secret, and clients of Redis are sent by the bus.
    let sent = ask(&nodes[1], "GET b");
    assert_eq!(sent, format!("(error) MOVED 3300 127.0.0.1:{port}"));
    assert_eq!(ask(&nodes[0], "SET b 1"), "OK");
    eventually("a node tells its own address", || {
        ask(&nodes[0], "CLUSTER NODES").contains(" 10.9.8.7:7007@")
    });
    assert_eq!(state(&nodes[1], "cluster_state"), "ok");
    assert!(!ask(&nodes[1], "CLUSTER NODES").contains("10.9.8.7"));
}

fn announce_at(node: &Server) {
    let line = "CONFIG SET cluster-announce-client-ipv4 10.9.8.7 cluster-announce-client-port 7007";
    assert_eq!(ask(node, line), "OK");
}
