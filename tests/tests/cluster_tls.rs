//! A cluster over TLS: the bus, with real servers among the nodes, and slots that move.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::sync::Arc;

use base::quote::split_arguments;
use proto::value::Value;
use rustls::ClientConfig;
use tests::cluster::{Program, ask, await_whole, configured, follow, id};
use tests::render::render;
use tests::server::{eventually, free_port};
use tests::tls::{Authority, Identity};
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

/// Nodes that have no other port for clients than that of TLS, and ask for a certificate there.
struct Hidden {
    authority: Authority,
    nodes: [Server; 3],
    config: Arc<ClientConfig>,
}

impl Hidden {
    /// Three of them, with all slots.
    fn start() -> Self {
        let authority = Authority::new();
        let own = authority.issue("localhost", None);
        let config = authority.client_config(Some(&own));
        let nodes = [(); 3].map(|()| {
            let [port, bus] = [(); 2].map(|()| free_port().to_string());
            let shown = authority.arguments(&authority.issue("localhost", None));
            // Else the harness has 0 stand for any port.
            let none = ["--listen-on-any-port", "no", "--port", "0"];
            let own = ["--tls-port", &port, "--tls-cluster", "yes"];
            let of_cluster = ["--cluster-enabled", "yes", "--cluster-port", &bus];
            let rest = ["--cluster-node-timeout", "3000", "--save", ""];
            let shown = shown.iter().map(String::as_str);
            Server::start(
                &shown.chain(none).chain(own).chain(of_cluster).chain(rest).collect::<Vec<_>>(),
            )
        });
        let hidden = Self { authority, nodes, config };
        for (node, slots) in ["0 5460", "5461 10922", "10923 16383"].iter().enumerate() {
            assert_eq!(hidden.ask(node, &format!("CLUSTER ADDSLOTSRANGE {slots}")), "OK");
        }
        for node in [1, 2] {
            let bus = hidden.ask(node, "CONFIG GET cluster-port");
            let bus = bus.rsplit(' ').next().unwrap().trim_matches('"').to_owned();
            let meet = format!("CLUSTER MEET 127.0.0.1 {} {bus}", hidden.nodes[node].port());
            assert_eq!(hidden.ask(0, &meet), "OK");
        }
        eventually("all nodes know each other and all slots are served", || {
            (0..3).all(|node| {
                let info = hidden.text(node, "CLUSTER INFO");
                ["cluster_state:ok", "cluster_known_nodes:3", "cluster_slots_ok:16384"]
                    .iter()
                    .all(|line| info.contains(line))
            })
        });
        hidden
    }

    fn client(&self, node: usize) -> Client {
        Client::try_connect_tls(self.nodes[node].port(), &self.config).unwrap()
    }

    fn call(&self, node: usize, line: &str) -> Value {
        self.client(node).call(&split_arguments(line.as_bytes()).unwrap())
    }

    fn ask(&self, node: usize, line: &str) -> String {
        render(&self.call(node, line))
    }

    fn text(&self, node: usize, line: &str) -> String {
        String::from_utf8_lossy(self.call(node, line).as_bytes().unwrap()).into_owned()
    }

    /// Has slots that are the first node's go to the second one; how the move ended there.
    fn give(&self, slots: &str) -> String {
        let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slots} NODE {}", self.id(1));
        assert_eq!(self.ask(0, &line), "OK");
        self.ending(0)
    }

    /// Waits until the newest move of a node is over; what is told of it.
    fn ending(&self, node: usize) -> String {
        let mut told = String::new();
        eventually("the move is over", || {
            let Value::Array(jobs) = self.call(node, "CLUSTER GETSLOTMIGRATIONS") else {
                panic!("a list of moves")
            };
            told = jobs.first().map(render).unwrap_or_default();
            ["success", "failed", "cancelled"].iter().any(|word| told.contains(word))
        });
        told
    }

    fn id(&self, node: usize) -> String {
        self.text(node, "CLUSTER MYID")
    }
}

/// The connection of a move is encrypted, whichever end asks for it: there is no other port.
#[test]
fn slots_move_between_nodes_that_speak_tls_only() {
    let cluster = Hidden::start();
    // `bar` is in slot 5061; what is large takes more than one record, and more than a buffer.
    let large = "x".repeat(3_000_001);
    assert_eq!(cluster.client(0).call(&["SET", "{bar}large", &large]), ok());
    for number in 0..300 {
        assert_eq!(cluster.ask(0, &format!("SET {{bar}}{number} {number}")), "OK");
    }
    let ended = cluster.give("5000 5100");
    assert!(ended.contains("success"), "{ended}");
    let read = |node: usize| {
        assert_eq!(
            cluster.client(node).call(&["GET", "{bar}large"]),
            Value::Bulk(large.clone().into())
        );
        for number in 0..300 {
            let shown = cluster.ask(node, &format!("GET {{bar}}{number}"));
            assert_eq!(shown, format!("\"{number}\""));
        }
    };
    read(1);
    // The target may ask, too.
    let asked = cluster.ask(2, "CLUSTER MIGRATION IMPORT 5000 5100");
    assert!(!asked.contains("error"), "{asked}");
    let ended = cluster.ending(2);
    assert!(ended.contains("success"), "{ended}");
    read(2);
    // All have their share where one node has each asked for figures, and for moves.
    let planned = cluster.ask(1, "CLUSTER REBALANCE BY SLOTS");
    assert!(!planned.contains("error"), "{planned}");
    let mut told = String::new();
    eventually("the rebalance is over", || {
        told = cluster.ask(1, "CLUSTER REBALANCE STATUS");
        !told.contains("running")
    });
    assert!(told.contains("success") && !told.contains("failed"), "{told}");
}

/// What a source shows is its certificate for outgoing connections, and what the target asks for
/// counts.
#[test]
fn a_source_is_trusted_by_its_certificate_for_outgoing_connections() {
    let cluster = Hidden::start();
    let show = |identity: &Identity| {
        let path = |path: &std::path::Path| path.display().to_string();
        let words = [
            "CONFIG",
            "SET",
            "tls-client-cert-file",
            &path(&identity.certificate),
            "tls-client-key-file",
            &path(&identity.key),
        ];
        assert_eq!(cluster.client(0).call(&words), ok());
    };
    let stranger = Authority::new();
    show(&stranger.issue("localhost", None));
    let ended = cluster.give("0 10");
    assert!(ended.contains("failed") && ended.contains("Connection to target"), "{ended}");
    show(&cluster.authority.issue("localhost", None));
    let ended = cluster.give("0 10");
    assert!(ended.contains("success"), "{ended}");
}

/// Where replication is encrypted so is what moves, also beside a bus that is not.
#[test]
fn slots_move_by_tls_where_replication_does() {
    let authority = Authority::new();
    let nodes = [(); 2].map(|()| {
        let own = authority.arguments(&authority.issue("localhost", None));
        let port = free_port().to_string();
        let further = ["--tls-port", &port, "--tls-replication", "yes"];
        APUS.node(&own.iter().map(String::as_str).chain(further).collect::<Vec<_>>())
    });
    assert_eq!(ask(&nodes[0], "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    tests::cluster::meet(&nodes[0], &nodes[1]);
    await_whole(&[&nodes[0], &nodes[1]], 2);
    let handshakes = |node: &Server| node.client().figure("tls_handshakes_full");
    let before = handshakes(&nodes[1]);
    let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE 0 100 NODE {}", id(&nodes[1]));
    assert_eq!(ask(&nodes[0], &line), "OK");
    eventually("the slots are the other node's", || {
        ask(&nodes[0], "CLUSTER SLOTS").contains("101")
    });
    assert_eq!(handshakes(&nodes[1]), before + 1);
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}
