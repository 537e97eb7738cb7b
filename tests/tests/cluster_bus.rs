//! The bus of a cluster, and who may come to it.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use tests::Server;
use tests::cluster::{Program, ask, configured, meet, state};
use tests::server::eventually;

const APUS: Program = Program::Apus;

/// Whether a connection to the bus stays open for a while.
fn is_let_in(node: &Server) -> bool {
    let port = configured(node, "cluster-port").parse::<u16>().unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    // The end of the stream is a read of nothing.
    !matches!(stream.read(&mut [0]), Ok(0))
}

/// H113: whoever reaches a bus without TLS can take over the cluster, so addresses may be named
/// from which alone nodes come.
#[test]
fn h113_the_bus_is_closed_to_addresses_that_are_not_named() {
    let closed = APUS.node(&["--cluster-bus-allow", "192.0.2.0/24"]);
    let stranger = APUS.node(&[]);
    assert!(!is_let_in(&closed));
    meet(&stranger, &closed);
    eventually("the log tells of the stranger", || {
        closed.log().contains("A connection to the cluster bus from 127.0.0.1 was closed")
    });
    assert_eq!(state(&closed, "cluster_known_nodes"), "1");
    let set = "CONFIG SET cluster-bus-allow \"192.0.2.0/24 127.0.0.0/8\"";
    assert_eq!(ask(&closed, set), "OK");
    assert!(is_let_in(&closed));
    eventually("the nodes know each other", || {
        meet(&stranger, &closed);
        [&closed, &stranger].iter().all(|node| state(node, "cluster_known_nodes") == "2")
    });
    assert_eq!(ask(&closed, "CONFIG SET cluster-bus-allow \"\""), "OK");
    assert!(is_let_in(&closed));
    let refused = ask(&closed, "CONFIG SET cluster-bus-allow 10.0.0.0/33");
    assert!(refused.contains("Invalid address or network"), "{refused}");
}

/// A bus that anybody may reach, unguarded, is told of; one of this machine alone is not.
#[test]
fn h113_an_open_bus_is_told_of_in_the_log() {
    let notice = "Whoever reaches the cluster bus can read and change the cluster";
    let told = |arguments: &[&str]| APUS.node(arguments).log().contains(notice);
    let open = ["--bind", "0.0.0.0"];
    assert!(told(&open));
    assert!(!told(&["--bind", "127.0.0.1"]));
    assert!(!told(&[&open[..], &["--cluster-bus-allow", "127.0.0.1"]].concat()));
}
