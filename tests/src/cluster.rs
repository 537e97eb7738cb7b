//! Clusters of real processes: Apus and the real servers side by side.
//!
//! Invariant: every node has ports of its own for clients and for the bus.

use std::process::Command;

use proto::value::Value;

use crate::environment::{recorded, repository};
use crate::process::Process;
use crate::render::render;
use crate::server::{Oracle, eventually, free_port};
use crate::{Client, Server};

/// What a node is started as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Apus.
    Apus,
    /// A real server.
    Stock(Oracle),
}

/// So long a node may be silent, in milliseconds: long enough for a machine that is slow.
const NODE_TIMEOUT: &str = "3000";

impl Program {
    /// Starts a node that knows no other.
    pub fn node(self, further: &[&str]) -> Server {
        let (port, bus_port) = (free_port().to_string(), free_port().to_string());
        let common = ["--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT];
        let bus = ["--cluster-port", &bus_port];
        let replication = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
        let mut arguments = [&common[..], &bus, &replication, further].concat();
        match self {
            Self::Apus => {
                arguments.extend(["--port", &port, "--save", ""]);
                Server::start(&arguments)
            }
            Self::Stock(oracle) => oracle.start(&arguments),
        }
    }
}

/// The answer of a node to a line.
pub fn ask(node: &Server, line: &str) -> String {
    ask_by(&mut node.client(), line)
}

/// The answer to a line.
pub fn ask_by(client: &mut Client, line: &str) -> String {
    let words = base::quote::split_arguments(line.as_bytes()).expect("its quotes are even");
    render(&client.call(&words))
}

/// A line of CLUSTER INFO.
pub fn state(node: &Server, field: &str) -> String {
    let reply = node.client().call(&["CLUSTER", "INFO"]);
    let text = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_default().to_owned()
}

/// The name of a node.
pub fn id(node: &Server) -> String {
    let reply = node.client().call(&["CLUSTER", "MYID"]);
    String::from_utf8_lossy(reply.as_bytes().expect("a node has a name")).into_owned()
}

/// Waits until all nodes know so many, and all slots are served.
pub fn await_whole(nodes: &[&Server], count: usize) {
    eventually("all nodes know each other and all slots are served", || {
        nodes.iter().all(|node| {
            state(node, "cluster_state") == "ok"
                && state(node, "cluster_known_nodes") == count.to_string()
                && state(node, "cluster_slots_ok") == "16384"
        })
    });
}

/// The slots of each primary, as a node tells them: first slot, last slot, port.
pub fn owners(node: &Server) -> Vec<(i64, i64, i64)> {
    let Value::Array(ranges) = node.client().call(&["CLUSTER", "SLOTS"]) else {
        panic!("a node tells of slots")
    };
    let number = |value: &Value| match value {
        Value::Integer(number) => *number,
        other => panic!("{other:?}"),
    };
    let ranges = ranges.iter().map(|range| match range {
        Value::Array(parts) => match &parts[2] {
            Value::Array(owner) => (number(&parts[0]), number(&parts[1]), number(&owner[1])),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    });
    ranges.collect()
}

/// Runs `redis-cli --cluster` with these words: what was said, if all went well.
pub fn tool(words: &[&str]) -> Result<String, String> {
    let output = Command::new(recorded("redis_cli"))
        .arg("--cluster")
        .args(words)
        .output()
        .expect("redis-cli can be run");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(said) } else { Err(format!("{words:?}: {said}{complained}")) }
}

/// Where a node is.
pub fn address(node: &Server) -> String {
    format!("127.0.0.1:{}", node.port())
}

/// What a directive of a node is set to.
pub fn configured(node: &Server, directive: &str) -> String {
    let Value::Array(pair) = node.client().call(&["CONFIG", "GET", directive]) else {
        panic!("CONFIG GET gives pairs")
    };
    String::from_utf8_lossy(pair[1].as_bytes().expect("a directive has a value")).into_owned()
}

/// Lets a node meet another.
pub fn meet(node: &Server, other: &Server) {
    let (port, bus) = (other.port(), configured(other, "cluster-port"));
    assert_eq!(ask(node, &format!("CLUSTER MEET 127.0.0.1 {port} {bus}")), "OK");
}

/// Makes a cluster of nodes that know no others, with so many replicas for each primary.
pub fn create(nodes: &[&Server], replicas: usize) {
    let addresses: Vec<String> = nodes.iter().map(|node| address(node)).collect();
    let mut words: Vec<&str> = vec!["create"];
    words.extend(addresses.iter().map(String::as_str));
    let replicas = replicas.to_string();
    words.extend(["--cluster-replicas", &replicas, "--cluster-yes"]);
    tool(&words).unwrap_or_else(|why| panic!("{why}"));
    await_whole(nodes, nodes.len());
}

/// Does what a client does that knows the cluster: asks one node, and goes where that sends it.
pub fn follow(nodes: &[&Server], first: &Server, words: &[&str]) -> Value {
    let mut client = first.client();
    let mut reply = client.call(words);
    for _ in 0..16 {
        let Value::Error(error) = &reply else { return reply };
        let text = String::from_utf8_lossy(error).into_owned();
        let port = text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
        let there = nodes.iter().find(|node| Some(node.port()) == port);
        let Some(there) = there else { return reply };
        client = there.client();
        if text.starts_with("ASK ") {
            client.call(&["ASKING"]);
        }
        reply = client.call(words);
    }
    reply
}

/// Has the cluster client of redis-py read and write while something is done to the cluster; no
/// error may come to it, and nothing that it has written may be lost.
pub fn with_redis_py_at_work(nodes: &[&Server], doing: impl FnOnce()) {
    let script = repository().join("tests/clients/python/cluster.py");
    let mut command = Command::new(recorded("python"));
    command.arg(script).arg(nodes[0].port().to_string());
    let mut client = Process::of(&mut command);
    let is_ready = client.wait_for_log(|log| log.contains("ready").then_some(()));
    assert!(is_ready.is_some(), "{}", client.log());
    doing();
    follow(nodes, nodes[0], &["SET", "stop", "1"]);
    let status = client.wait();
    assert!(status.success() && client.log().contains("done"), "{}", client.log());
}
