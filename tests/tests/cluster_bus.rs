//! The bus of a cluster, and who may come to it.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::io::{Read, Write};
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

/// The head of every packet but the light ones, which a body follows.
const HEAD: usize = 2256;

/// A packet of a sender that nobody knows, whose head says this of its kind and of its parts.
fn packet(kind: u16, count: u16, extensions: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = b"RCmb".to_vec();
    bytes.extend(u32::try_from(HEAD + body.len()).unwrap().to_be_bytes());
    for number in [1, 6379, kind, count] {
        bytes.extend(u16::to_be_bytes(number));
    }
    // The greatest epochs that there are.
    bytes.extend([0xff; 16]);
    bytes.extend([0; 8]);
    bytes.extend([b'a'; 40]);
    // All slots.
    bytes.extend([0xff; 2048]);
    bytes.extend([0; 40 + 46]);
    bytes.extend(extensions.to_be_bytes());
    bytes.extend([0; 30]);
    for number in [6379, 16379, 1] {
        bytes.extend(u16::to_be_bytes(number));
    }
    bytes.extend([0, u8::from(extensions > 0) << 2, 0, 0]);
    assert_eq!(bytes.len(), HEAD);
    bytes.extend(body);
    bytes
}

/// H110, H111, H112, H113, H114: none of these packets of a stranger harms a node, or changes what
/// the node knows of its cluster.
#[test]
fn h110_packets_of_strangers_change_nothing() {
    let [node, other] = [(); 2].map(|()| APUS.node(&[]));
    eventually("the nodes know each other", || {
        meet(&other, &node);
        [&node, &other].iter().all(|node| state(node, "cluster_known_nodes") == "2")
    });
    let before = ["cluster_current_epoch", "cluster_slots_assigned"].map(|it| state(&node, it));
    let entry = [&[b'b'; 40][..], &[0; 64]].concat();
    let long = [0x40, 0, 0, 8, 0, 0, 0, 0];
    let with_total = |total: u32| {
        let mut bytes = packet(4, 0, 0, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        bytes[4..8].copy_from_slice(&total.to_be_bytes());
        bytes
    };
    let module = [&[0; 8][..], &100_u32.to_be_bytes(), &[255], b"data"].concat();
    let fail = [&[b'a'; 40][..]].concat();
    let update = [&[0xff; 8][..], &[b'a'; 40], &[0xff; 2048]].concat();
    let whole = packet(0, 1, 0, &entry);
    let mut hostile = vec![
        packet(0, 0, 1, &long),
        packet(0, 0, 65_535, &[0; 8]),
        packet(0, 65_535, 0, &entry),
        with_total(u32::MAX),
        with_total(u32::MAX - 7),
        packet(4, 0, 0, &[0xff; 8]),
        packet(9, 0, 0, &module),
        packet(77, 0, 0, &[]),
        packet(3, 0, 0, &fail),
        packet(7, 0, 0, &update),
        packet(5, 0, 0, &[]),
        packet(6, 0, 0, &[]),
        packet(0, 0, 0, &[]),
        packet(1, 1, 0, &entry),
        b"GET / HTTP/1.1\r\nHost: bus\r\n\r\n".to_vec(),
    ];
    hostile.extend((0..whole.len()).step_by(97).map(|length| whole[..length].to_vec()));
    let port = configured(&node, "cluster-port").parse::<u16>().unwrap();
    for bytes in &hostile {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // The node may have closed the connection amid it.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(state(&node, "cluster_known_nodes"), "2");
    let behind = ["cluster_current_epoch", "cluster_slots_assigned"].map(|it| state(&node, it));
    assert_eq!(behind, before);
    let nodes = ask(&node, "CLUSTER NODES");
    assert!(!nodes.contains("fail") && !nodes.contains("aaaa"), "{nodes}");
}
