//! The bus of a cluster over TLS, with real servers among the nodes.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::cluster::{Program, ask, await_whole, configured, follow, id};
use tests::server::{eventually, free_port};
use tests::tls::Authority;
use tests::{Client, Oracle, Server};

const APUS: Program = Program::Apus;
const REDIS70: Program = Program::Stock(Oracle::Redis70);

fn start(authority: &Authority, program: Program) -> Server {
    let own = authority.arguments(&authority.issue("localhost", None));
    let port = free_port().to_string();
    let further = ["--tls-port", &port, "--tls-cluster", "yes", "--tls-replication", "yes"];
    let own = own.iter().map(String::as_str);
    program.node(&own.chain(further).collect::<Vec<_>>())
}

/// The port that is told is that of TLS.
fn meet(node: &Server, other: &Server) {
    let (port, bus) = (configured(other, "tls-port"), configured(other, "cluster-port"));
    assert_eq!(ask(node, &format!("CLUSTER MEET 127.0.0.1 {port} {bus}")), "OK");
}

/// A peer without a certificate gets nothing from the bus.
#[test]
fn nodes_of_apus_and_redis_speak_tls_with_each_other() {
    let authority = Authority::new();
    let nodes = [APUS, REDIS70, APUS, APUS].map(|program| start(&authority, program));
    for (node, slots) in nodes.iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
        assert_eq!(ask(node, &format!("CLUSTER ADDSLOTSRANGE {slots}")), "OK");
    }
    meet(&nodes[0], &nodes[1]);
    meet(&nodes[1], &nodes[2]);
    meet(&nodes[0], &nodes[3]);
    let all: Vec<&Server> = nodes.iter().collect();
    await_whole(&all, 4);
    for key in ["foo", "bar", "a", "b"] {
        follow(&all, &nodes[0], &["SET", key, "value"]);
        let got = follow(&all, &nodes[2], &["GET", key]);
        assert_eq!(got.as_bytes(), Some(b"value".as_slice()), "{key}");
    }
    let line = format!("CLUSTER REPLICATE {}", id(&nodes[1]));
    assert_eq!(ask(&nodes[3], &line), "OK");
    eventually("the replica follows its primary by TLS", || {
        nodes[3].client().info("master_link_status") == "up"
    });
    // An agreement without a certificate ends with the first read.
    let bus = configured(&nodes[0], "cluster-port").parse().unwrap();
    let stranger = Client::try_connect_tls(bus, &authority.client_config(None));
    let answered = stranger.and_then(|mut stranger| stranger.try_call(&["PING"]));
    assert!(answered.is_err(), "{answered:?}");
}
