//! Where connections of the server's own come from, and what its listening sockets are: the
//! directives about the machine's network.
//!
//! Invariant: each is seen from outside, by the other end or by what the kernel counts.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::os::unix::fs::MetadataExt;

use tests::Server;
use tests::render::text;
use tests::server::eventually;

/// A server and its replica, which was started with this; how the primary tells of the replica.
fn replica_line(arguments: &[&str]) -> String {
    let primary = Server::start(&[]);
    let of = format!("127.0.0.1 {}", primary.port());
    let _replica = Server::start(&[&["--replicaof", &of], arguments].concat());
    online_replica(&primary)
}

/// How a primary tells of its replica, once that is online.
fn online_replica(primary: &Server) -> String {
    let mut client = primary.client();
    let mut line = None;
    eventually("the replica is online", || {
        let told = text(&client.call(&["INFO", "replication"]));
        let mut lines = told.lines().filter_map(|line| line.strip_prefix("slave0:"));
        line = lines.find(|line| line.contains("state=online")).map(str::to_owned);
        line.is_some()
    });
    line.expect("it is online")
}

#[test]
fn a_replica_comes_from_the_address_that_is_configured() {
    assert!(replica_line(&["--bind-source-addr", "127.0.0.9"]).starts_with("ip=127.0.0.9,"));
    // No socket here can have either of these: the replica comes by another way.
    for address in ["192.0.2.1", "2001:db8::1"] {
        let line = replica_line(&["--bind-source-addr", address]);
        assert!(line.starts_with("ip=127.0.0.1,"), "{address}: {line}");
    }
}

/// How many sockets of Multipath TCP there are on the machine; `None` where the kernel has none.
fn multipath_sockets() -> Option<u64> {
    let protocols = std::fs::read_to_string("/proc/net/protocols").unwrap();
    let line = protocols.lines().find(|line| line.starts_with("MPTCP "))?;
    line.split_whitespace().nth(2).map(|sockets| sockets.parse().unwrap())
}

#[test]
fn multipath_tcp_is_spoken_where_the_kernel_can() {
    let arguments = ["--mptcp", "yes", "--repl-mptcp", "yes"];
    let Some(before) = multipath_sockets() else {
        let (status, lines) = Server::refuses(&arguments);
        assert!(!status.success() && lines.contains("Could not create server TCP"), "{lines}");
        return;
    };
    assert_eq!(before, 0, "only this test has such sockets");
    let primary = Server::start(&arguments);
    let listening = multipath_sockets().unwrap();
    assert!(listening > 0);
    assert_eq!(text(&primary.client().call(&["PING"])), "PONG");
    let of = format!("127.0.0.1 {}", primary.port());
    let _replica = Server::start(&["--replicaof", &of, "--repl-mptcp", "yes"]);
    online_replica(&primary);
    // The link has two ends, and both are on this machine.
    assert!(multipath_sockets().unwrap() >= listening + 2);
}

#[test]
fn a_unix_socket_has_the_group_that_is_configured() {
    let groups = std::fs::read_to_string("/etc/group").unwrap();
    let number_of = |line: &str| line.split(':').nth(2).and_then(|number| number.parse().ok());
    let folder = tempfile::tempdir().unwrap();
    let owner = folder.path().metadata().unwrap();
    // Root may give a file to any group, others to one of their own.
    let is_allowed = |number: u32| match owner.uid() {
        0 => number != owner.gid(),
        _ => number == owner.gid(),
    };
    let line = groups.lines().find(|line| number_of(line).is_some_and(is_allowed)).unwrap();
    let (name, number) = (line.split(':').next().unwrap(), number_of(line).unwrap());
    let socket = folder.path().join("socket");
    let path = socket.to_str().unwrap();
    let server = Server::start(&["--unixsocket", path, "--unixsocketgroup", name]);
    assert_eq!(socket.metadata().unwrap().gid(), number);
    drop(server);
    let (status, lines) =
        Server::refuses(&["--unixsocket", path, "--unixsocketgroup", "no-such-group"]);
    assert!(!status.success() && lines.contains("Can't find the group no-such-group"), "{lines}");
}
