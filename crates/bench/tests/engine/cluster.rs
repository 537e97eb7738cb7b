//! Cluster mode against three real nodes of redis-server 7.0, with slots that move during the run.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bench::engine;
use proto::value::{ReplyLimits, ReplyParser, Value};

use super::server::options;
use super::{command, replies};

/// How long the nodes may take to start, to meet and to agree.
const PATIENCE: Duration = Duration::from_secs(30);

/// A node that ends with the test.
struct Node {
    process: Child,
    port: u16,
    id: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        // The server may have ended by itself; then there is nothing to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Node {
    fn start(folder: &Path) -> Self {
        let (port, bus) = (free_port(), free_port());
        let folder = folder.join(port.to_string());
        std::fs::create_dir(&folder).expect("a new folder");
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--cluster-port", &bus.to_string()])
            .args(["--bind", "127.0.0.1", "--cluster-enabled", "yes", "--save", ""])
            .arg("--dir")
            .arg(&folder)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server 7.0 is needed on the PATH: cargo xtask setup");
        let mut node = Self { process, port, id: String::new() };
        wait_until("a node answers", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        let Value::Bulk(id) = node.ask("CLUSTER MYID") else { panic!("a node has an id") };
        node.id = String::from_utf8(id).expect("hexadecimal digits");
        let Value::Bulk(shown) = node.ask("CLUSTER NODES") else { panic!("a node knows itself") };
        assert!(String::from_utf8_lossy(&shown).contains(&format!("@{bus}")));
        node
    }

    /// The reply to a command.
    fn ask(&self, words: &str) -> Value {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("the node listens");
        socket.write_all(format!("{words}\r\n").as_bytes()).expect("the node reads");
        let mut parser = ReplyParser::new(ReplyLimits::default());
        let mut buffer = [0; 4096];
        loop {
            if let Some(value) = parser.next_reply().expect("a valid reply") {
                return value;
            }
            let taken = socket.read(&mut buffer).expect("the node answers");
            assert!(taken > 0, "the node closed the connection");
            parser.feed(&buffer[..taken]);
        }
    }

    fn does(&self, words: &str) {
        assert_eq!(self.ask(words), Value::Simple(b"OK".to_vec()), "{words}");
    }

    fn info(&self, words: &str) -> String {
        match self.ask(words) {
            Value::Bulk(text) | Value::Verbatim(_, text) => {
                String::from_utf8(text).expect("INFO is text")
            }
            other => panic!("{words}: {other:?}"),
        }
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Three masters that share the slots evenly.
fn cluster(folder: &Path) -> [Node; 3] {
    let nodes = [(); 3].map(|()| Node::start(folder));
    // Nodes with one epoch would settle later which of them has which slot, and might undo a move.
    for (epoch, (node, range)) in
        (1..).zip(nodes.iter().zip(["0 5460", "5461 10922", "10923 16383"]))
    {
        node.does(&format!("CLUSTER ADDSLOTSRANGE {range}"));
        node.does(&format!("CLUSTER SET-CONFIG-EPOCH {epoch}"));
    }
    for node in &nodes[1..] {
        let bus = nodes[0].info("CLUSTER NODES");
        let bus = bus.split('@').nth(1).and_then(|rest| rest.split([' ', ',']).next());
        let bus = bus.expect("the node names its bus");
        node.does(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", nodes[0].port));
    }
    for node in &nodes {
        wait_until("the cluster is whole", || {
            let info = node.info("CLUSTER INFO");
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        });
    }
    nodes
}

/// Moves a slot with its keys from one node to the other, in the published order of commands.
fn migrate(slot: u16, from: &Node, to: &Node) {
    to.does(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", from.id));
    from.does(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", to.id));
    loop {
        let Value::Array(keys) = from.ask(&format!("CLUSTER GETKEYSINSLOT {slot} 10")) else {
            panic!("keys of a slot are an array");
        };
        if keys.is_empty() {
            break;
        }
        let keys: Vec<_> = keys.iter().filter_map(Value::as_bytes).collect();
        let keys = String::from_utf8(keys.join(&b' ')).expect("keys of this test are text");
        from.ask(&format!("MIGRATE 127.0.0.1 {} \"\" 0 5000 KEYS {keys}", to.port));
    }
    to.does(&format!("CLUSTER SETSLOT {slot} NODE {}", to.id));
    from.does(&format!("CLUSTER SETSLOT {slot} NODE {}", to.id));
}

#[test]
fn requests_follow_their_slots_while_these_move() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = cluster(folder.path());
    let options = options(&format!(
        "-p {} --cluster-mode -t 2 -c 3 --pipeline 4 --test-time 4 --ratio 1:1 -R -d 40 \
         --key-minimum 1 --key-maximum 2000 --distinct-client-seed --data-verify",
        nodes[1].port
    ));
    let run = thread::spawn(move || engine::run(&options));

    let Value::Integer(slot) = nodes[0].ask("CLUSTER KEYSLOT memtier-1") else {
        panic!("a slot is a number");
    };
    let slot = u16::try_from(slot).expect("a slot");
    let owner = usize::from(slot) * 3 / 16_384;
    let (from, to) = (&nodes[owner], &nodes[(owner + 1) % 3]);
    wait_until("the run has begun", || {
        nodes.iter().all(|node| matches!(node.ask("DBSIZE"), Value::Integer(keys) if keys > 300))
    });
    // The first slot stands half moved until a redirected request came; others move at once.
    to.does(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", from.id));
    from.does(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", to.id));
    from.ask(&format!("MIGRATE 127.0.0.1 {} memtier-1 0 5000", to.port));
    wait_until("a request asks", || to.info("INFO commandstats").contains("cmdstat_asking"));
    migrate(slot, from, to);
    for slot in (0..5000).step_by(500) {
        migrate(slot, &nodes[0], &nodes[2]);
    }

    let outcomes = run.join().expect("the run does not panic").expect("the run succeeds");
    let outcome = &outcomes[0];
    let sum = |field: fn(&bench::outcome::CommandOutcome) -> u64| {
        outcome.commands.iter().map(field).sum::<u64>()
    };
    assert!(replies(outcome) > 1000 && command(outcome, "Gets").hits > 0);
    assert!(sum(|command| command.ask) > 0, "a slot was half moved");
    assert!(sum(|command| command.moved) > 0, "slots have moved");
    assert_eq!((sum(|command| command.errors), outcome.connection_errors), (0, 0));
    assert_eq!(outcome.verify_errors, 0, "no acknowledged write is lost");
    for node in &nodes {
        let info = node.info("INFO stats");
        let wrong = info.lines().find(|line| line.starts_with("total_error_replies:"));
        let wrong = wrong.and_then(|line| line.split(':').nth(1)).map(str::trim);
        let wrong: u64 = wrong.and_then(|count| count.parse().ok()).expect("a number");
        assert!(wrong <= sum(|command| command.moved + command.ask));
    }
}

#[test]
fn each_node_gets_a_connection_of_each_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = cluster(folder.path());
    let before: Vec<u64> = nodes.iter().map(connections_received).collect();
    let words = format!("-p {} --cluster-mode -t 2 -c 3 -n 300 --pipeline 4", nodes[2].port);
    let outcomes = engine::run(&options(&words)).expect("the run succeeds");
    assert_eq!(replies(&outcomes[0]), 1800);
    let moved: u64 = outcomes[0].commands.iter().map(|command| command.moved).sum();
    assert_eq!(moved, 0, "who knows the slots is not redirected");
    for (node, before) in nodes.iter().zip(before) {
        // Six of the clients; and those of this question, and of the questions for the slots, the
        // server's name and its process.
        assert!((7..13).contains(&(connections_received(node) - before)));
    }
}

#[test]
fn nodes_that_know_no_slots_command_are_asked_for_shards() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = cluster(folder.path());
    for node in &nodes {
        node.does("ACL SETUSER default -cluster|slots");
    }
    wait_until("all shards are known to all", || {
        nodes.iter().all(|node| {
            matches!(node.ask("CLUSTER SHARDS"), Value::Array(shards)
            if shards.len() == 3 && shards.iter().all(is_serving))
        })
    });
    let words = format!("-p {} --cluster-mode -t 1 -c 2 -n 500 --pipeline 4", nodes[1].port);
    let outcomes = engine::run(&options(&words)).expect("the run succeeds");
    assert_eq!(replies(&outcomes[0]), 1000);
    let moved: u64 = outcomes[0].commands.iter().map(|command| command.moved).sum();
    assert_eq!(moved, 0, "who knows the shards is not redirected");
}

/// Whether an element of CLUSTER SHARDS names slots.
fn is_serving(shard: &Value) -> bool {
    let Value::Array(members) = shard else { return false };
    matches!(members.get(1), Some(Value::Array(slots)) if slots.len() == 2)
}

fn connections_received(node: &Node) -> u64 {
    let info = node.info("INFO stats");
    let line = info.lines().find(|line| line.starts_with("total_connections_received:"));
    let count = line.and_then(|line| line.split(':').nth(1)).map(str::trim);
    count.and_then(|count| count.parse().ok()).expect("a number of connections")
}

#[test]
fn a_server_without_a_cluster_is_refused_in_its_words() {
    let server = super::Server::start(super::Manner::AtOnce, |_, _| {
        super::Act::Reply(b"-ERR This instance has cluster support disabled\r\n".to_vec())
    });
    let error = engine::run(&server.options("--cluster-mode -n 1")).expect_err("no cluster");
    assert!(error.contains("cluster support disabled"), "{error}");
}

/// A node that holds the other one for the owner of every slot, and is held for it itself.
fn node_of_a_circle(listener: &TcpListener, ports: [u16; 2], other: u16) {
    let slots = format!(
        "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:{}\r\n$40\r\n{}\r\n",
        ports[0],
        "a".repeat(40)
    );
    let moved = format!("-MOVED 5 127.0.0.1:{other}\r\n");
    for stream in listener.incoming() {
        let (mut stream, slots, moved) = (stream.expect("a client"), slots.clone(), moved.clone());
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(taken @ 1..) = stream.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..taken]).to_uppercase();
                let requests = text.matches("\r\n$3\r\n").count().max(1);
                let reply = if text.contains("SLOTS") {
                    slots.clone()
                } else if text.contains("INFO") {
                    "$0\r\n\r\n".to_owned()
                } else {
                    moved.repeat(requests)
                };
                if stream.write_all(reply.as_bytes()).is_err() {
                    return;
                }
            }
        });
    }
}

#[test]
fn a_request_that_goes_in_a_circle_fails_and_the_run_ends() {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let ports = listeners.each_ref().map(|it| it.local_addr().expect("it is bound").port());
    for (listener, other) in listeners.into_iter().zip([ports[1], ports[0]]) {
        thread::spawn(move || node_of_a_circle(&listener, ports, other));
    }
    let words = format!("-p {} --cluster-mode -t 1 -c 1 -n 1", ports[0]);
    let outcomes = engine::run(&options(&words)).expect("the run ends");
    let errors: u64 = outcomes[0].commands.iter().map(|command| command.errors).sum();
    assert_eq!(errors, 1);
}
