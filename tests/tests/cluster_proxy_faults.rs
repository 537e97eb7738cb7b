//! What clients that know no cluster see of nodes that hang, die, lose slots and change roles.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use proto::value::Value;
use rustix::process::Signal;
use tests::client::{encode, field};
use tests::cluster::{Program, ask, ask_by, create, follow, id};
use tests::render::render;
use tests::server::eventually;
use tests::shards::Shards;
use tests::{Client, Oracle, Server};

use crate::cluster_proxy::{key, start};
use crate::cluster_slot_moves::{Cluster, SLOT};

const APUS: Program = Program::Apus;
const REDIS82: Program = Program::Stock(Oracle::Redis82);
const VALKEY91: Program = Program::Stock(Oracle::Valkey91);

/// Errors that tell of a node that cannot be reached, in the words that the book promises.
const UNREACHABLE: &str = "CLUSTERDOWN ";
const UNKNOWN: &str = "ERR No reply from the node ";

fn error(value: &Value) -> String {
    match value {
        Value::Error(line) => String::from_utf8_lossy(line).into_owned(),
        other => panic!("no error: {}", render(other)),
    }
}

/// A node that hangs keeps nobody waiting but those that want something of it.
#[test]
fn a_node_that_hangs_keeps_no_worker() {
    let nodes =
        start([APUS, REDIS82, APUS], &["--cluster-proxy-timeout", "1500", "--io-threads", "1"]);
    let (here, hanging, other) = (key(0, "k"), key(1, "k"), key(2, "k"));
    let mut client = nodes[0].client();
    for key in [&here, &hanging, &other] {
        assert_eq!(ask_by(&mut client, &format!("SET {key} 1")), "OK");
    }
    nodes[1].signal(Signal::STOP);
    let mut waiting: Vec<Client> = (0..5).map(|_| nodes[0].client()).collect();
    waiting.iter_mut().for_each(|client| client.send(&["INCR", &hanging]));
    // The only worker serves all others, of this node and of the third.
    for _ in 0..50 {
        assert_eq!(ask_by(&mut client, &format!("GET {here}")), "\"1\"");
        assert_eq!(ask_by(&mut client, &format!("GET {other}")), "\"1\"");
    }
    for client in &mut waiting {
        // Where no link stood, the hello of a new one was not answered: nothing was sent.
        let said = error(&client.receive());
        let is_unknown = said.starts_with(UNKNOWN) && said.contains("may or may not");
        assert!(is_unknown || said.starts_with(UNREACHABLE), "{said}");
    }
    nodes[1].signal(Signal::CONT);
    let mut number = 0;
    eventually("it is served again", || {
        let reply = client.call(&["INCR", &hanging]);
        if let Value::Integer(now) = reply {
            number = now;
        }
        matches!(reply, Value::Integer(_))
    });
    // Each was done once or not at all.
    assert!((2..=8).contains(&number), "{number}");
    assert!(client.figure("cluster_proxy_errors") >= 5);
}

/// Of requests that were under way nobody knows; nothing of them is done twice.
#[test]
fn a_node_that_dies_leaves_its_requests_unknown() {
    let mut nodes = start([APUS, APUS, APUS], &[]);
    let (here, dying) = (key(0, "k"), key(1, "k"));
    let mut client = nodes[0].client();
    assert_eq!(ask_by(&mut client, &format!("SET {dying} 1")), "OK");
    nodes[1].signal(Signal::STOP);
    let requests: Vec<Vec<&str>> =
        vec![vec!["INCR", &dying], vec!["GET", &dying], vec!["SET", &here, "1"], vec!["PING"]];
    let bytes: Vec<u8> = requests.iter().flat_map(|request| encode(request)).collect();
    client.send_raw(&bytes);
    // The requests have left once nothing of them waits here.
    let mut observer = nodes[0].client();
    eventually("they are sent", || observer.figure("cluster_proxy_requests") >= 3);
    thread::sleep(Duration::from_millis(100));
    nodes[1].kill();
    for _ in 0..2 {
        let said = error(&client.receive());
        assert!(said.starts_with(UNKNOWN) && said.contains("may or may not"), "{said}");
    }
    assert_eq!(render(&client.receive()), "OK");
    assert_eq!(render(&client.receive()), "PONG");
    // No process listens there any more, so nothing was sent.
    let said = error(&client.call(&["INCR", &dying]));
    assert!(said.starts_with(UNREACHABLE), "{said}");
}

/// A client that reads nothing is closed by its own limit, and takes no memory for long.
#[test]
fn a_client_that_does_not_read_is_closed_by_its_limit() {
    let nodes = start([APUS, APUS, APUS], &[]);
    let key = key(1, "k");
    let mut client = nodes[0].client();
    // The owner's limit would count for the link.
    let limit = ["CONFIG", "SET", "client-output-buffer-limit", "normal 4mb 0 0"];
    assert_eq!(render(&client.call(&limit)), "OK");
    let value = "v".repeat(1 << 20);
    assert_eq!(render(&client.call(&["SET", &key, &value])), "OK");
    let mut reader = nodes[0].client();
    let mut lazy = nodes[0].client();
    for _ in 0..64 {
        lazy.send(&["GET", &key]);
    }
    eventually("it is closed", || reader.figure("client_output_buffer_limit_disconnections") >= 1);
    assert_eq!(reader.call(&["STRLEN", &key]), Value::Integer(1 << 20));
}

#[test]
fn a_thousand_clients_share_a_few_links() {
    let nodes = start([APUS, APUS, APUS], &["--maxclients", "2000"]);
    let mut clients: Vec<Client> = (0..1000).map(|_| nodes[0].client()).collect();
    for round in 0..3 {
        for (number, client) in clients.iter_mut().enumerate() {
            let key = key(1 + number % 2, &format!("k{number}"));
            client.send(&["SET", &key, &format!("{number} {round}")]);
            client.send(&["GET", &key]);
        }
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(render(&client.receive()), "OK");
            let value = format!("{number} {round}").into_bytes();
            assert_eq!(client.receive(), Value::Bulk(value));
        }
    }
    // Four for the reads and four for the writes of each node, and others where a link is slow.
    let links = nodes[0].client().figure("cluster_proxy_links");
    assert!((1..=128).contains(&links), "{links} links");
}

/// Has the writers stop, also where an assertion fails meanwhile: the scope waits for them.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The words that raise the counter whose key follows: a script's, by its text or its digest, or a
/// plain command.
fn raise_by(client: &mut Client, writer: usize) -> Vec<String> {
    let script = "return redis.call('INCR', KEYS[1])";
    let words = match writer % 3 {
        0 => vec!["INCR"],
        1 => vec!["EVAL", script, "1"],
        _ => {
            let digest = client.call(&["SCRIPT", "LOAD", script]);
            let digest = String::from_utf8(digest.as_bytes().unwrap().to_vec()).unwrap();
            return vec!["EVALSHA".to_owned(), digest, "1".to_owned()];
        }
    };
    words.into_iter().map(str::to_owned).collect()
}

/// Raises counters through one node while something is done to the cluster. Each reply is the next
/// number, unless an error in between says that it may not be. All counters at the end.
fn with_counters(
    node: &Server,
    tag: &str,
    is_excused: fn(&str) -> bool,
    doing: impl FnOnce(),
) -> BTreeMap<String, i64> {
    let stop = AtomicBool::new(false);
    let count = |writer: usize| {
        let mut client = node.client();
        let keys: Vec<String> = (0..3).map(|at| format!("{{{tag}}}{writer}:{at}")).collect();
        let raise = raise_by(&mut client, writer);
        let mut seen = [0_i64; 3];
        let mut doubts = [0_i64; 3];
        while !stop.load(Ordering::Relaxed) {
            let request = |number: usize| [&raise[..], &[keys[number % 3].clone()]].concat();
            let requests: Vec<Vec<String>> = (0..12).map(request).collect();
            for (number, reply) in client.pipeline(&requests).into_iter().enumerate() {
                let at = number % 3;
                match reply {
                    Value::Integer(now) => {
                        let least = seen[at] + 1;
                        let known = (least..=least + doubts[at]).contains(&now);
                        assert!(known, "{now} behind {}, {} in doubt", seen[at], doubts[at]);
                        (seen[at], doubts[at]) = (now, 0);
                    }
                    other => {
                        let said = error(&other);
                        assert!(is_excused(&said), "{said}");
                        doubts[at] += i64::from(said.starts_with(UNKNOWN));
                    }
                }
            }
        }
        keys.into_iter().zip(seen).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..6).map(|writer| scope.spawn(move || count(writer))).collect();
        {
            let _stop = Stop(&stop);
            thread::sleep(Duration::from_millis(200));
            doing();
            thread::sleep(Duration::from_millis(200));
        }
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    })
}

fn counters_are_at(node: &Server, nodes: &[&Server], counted: &BTreeMap<String, i64>) {
    for (key, count) in counted {
        let value = follow(nodes, node, &["GET", key]);
        let value = String::from_utf8(value.as_bytes().unwrap().to_vec()).unwrap();
        assert_eq!(value.parse::<i64>().unwrap(), *count, "{key}");
        assert!(*count > 0, "{key}");
    }
}

/// The slot goes from one node to another, as `redis-cli --cluster reshard` would have it.
fn reshard(from: &Server, to: &Server, all: &[&Server]) {
    let (source, target) = (id(from), id(to));
    assert_eq!(ask(to, &format!("CLUSTER SETSLOT {SLOT} IMPORTING {source}")), "OK");
    assert_eq!(ask(from, &format!("CLUSTER SETSLOT {SLOT} MIGRATING {target}")), "OK");
    // While the slot is open its keys are at either.
    thread::sleep(Duration::from_millis(200));
    let mut client = from.client();
    loop {
        let keys = client.call(&["CLUSTER", "GETKEYSINSLOT", &SLOT.to_string(), "10"]);
        let Value::Array(keys) = keys else { panic!("a list of keys") };
        if keys.is_empty() {
            break;
        }
        let keys: Vec<String> = keys
            .iter()
            .map(|key| String::from_utf8(key.as_bytes().unwrap().to_vec()).unwrap())
            .collect();
        // A key that is written meanwhile may have to be sent again.
        let (port, keys) = (to.port(), keys.join(" "));
        ask_by(&mut client, &format!("MIGRATE 127.0.0.1 {port} \"\" 0 5000 REPLACE KEYS {keys}"));
    }
    let line = format!("CLUSTER SETSLOT {SLOT} NODE {target}");
    for node in [to, from].into_iter().chain(all.iter().copied()) {
        let _ = ask(node, &line);
    }
}

fn counters_go_along(programs: [Program; 3], through: usize, is_whole: bool) {
    // On a machine under load no node is to take another one for failing.
    let cluster = Cluster::start(programs, &["--cluster-node-timeout", "60000"]);
    let through = &cluster.nodes[through];
    assert_eq!(ask(through, "CONFIG SET cluster-proxy yes"), "OK");
    let counted = with_counters(
        through,
        "foo",
        |_| false,
        || {
            if is_whole {
                cluster.begin();
                assert_eq!(Cluster::ending(cluster.from()), "success");
            } else {
                reshard(cluster.from(), cluster.to(), &cluster.all());
            }
        },
    );
    counters_are_at(&cluster.nodes[0], &cluster.all(), &counted);
}

#[test]
fn a_slot_that_is_resharded_takes_no_client_along() {
    // Through the node that takes it, that loses it, and that has nothing to do with it.
    for through in [0, 1, 2] {
        counters_go_along([APUS, APUS, APUS], through, false);
    }
}

#[test]
fn a_slot_that_is_resharded_between_nodes_of_redis_is_followed() {
    counters_go_along([REDIS82, APUS, REDIS82], 1, false);
}

#[test]
fn a_slot_that_moves_at_once_takes_no_client_along() {
    for through in [0, 1, 2] {
        counters_go_along([APUS, APUS, APUS], through, true);
    }
}

#[test]
fn a_slot_that_moves_at_once_between_nodes_of_valkey_is_followed() {
    counters_go_along([VALKEY91, APUS, VALKEY91], 1, true);
}

/// An agreed failover loses nothing, and clients go where the slots go.
#[test]
fn a_replica_that_takes_over_is_followed() {
    let shards = Shards::start(APUS, &["--cluster-proxy", "yes"], SLOT);
    let excused = |said: &str| said.starts_with(UNREACHABLE);
    let all: Vec<&Server> = shards.nodes.iter().collect();
    let counted = with_counters(shards.of(2), "foo", excused, || shards.fail_over(0, 1));
    counters_are_at(shards.of(2), &all, &counted);
    // Replicas send writes, and reads of clients that have not said READONLY, to their primary.
    let replica = shards.of(0);
    assert_eq!(ask(replica, "SET {foo}x 1"), "OK");
    assert_eq!(ask(replica, "GET {foo}x"), "\"1\"");
}

/// A primary that is killed: only the errors that are promised, and no wrong reply; then its
/// replica serves.
#[test]
fn a_primary_that_is_killed_is_told_of_until_it_is_replaced() {
    let mut shards = Shards::start(APUS, &["--cluster-proxy", "yes"], SLOT);
    let mut client = shards.of(2).client();
    assert_eq!(ask_by(&mut client, "SET {foo}x here"), "OK");
    let replica = shards.of(1);
    eventually("the replica has it", || {
        let mut reader = replica.client();
        reader.call(&["READONLY"]);
        reader.call(&["GET", "{foo}x"]) == Value::Bulk(b"here".to_vec())
    });
    let stop = AtomicBool::new(false);
    let port = shards.of(2).port();
    let read = || {
        let (mut client, mut served) = (Client::connect(port), 0_u64);
        while !stop.load(Ordering::Relaxed) {
            match client.call(&["GET", "{foo}x"]) {
                Value::Bulk(value) => {
                    assert_eq!(value, b"here");
                    served += 1;
                }
                other => {
                    let said = error(&other);
                    let is_told = said.starts_with(UNREACHABLE) || said.starts_with(UNKNOWN);
                    assert!(is_told, "{said}");
                }
            }
        }
        served
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(read)).collect();
        {
            let _stop = Stop(&stop);
            thread::sleep(Duration::from_millis(200));
            shards.replace(0);
        }
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
    eventually("it is served again", || {
        client.call(&["GET", "{foo}x"]) == Value::Bulk(b"here".to_vec())
    });
}

/// What is under way is its client's memory, and goes with the client, whatever its node does: of
/// ten clients so many have to go.
fn requests_under_way_count(gone: i64, requests: fn(&str, &str) -> Vec<Vec<String>>) {
    let further = [
        ["--maxmemory-clients", "64mb"],
        ["--cluster-proxy-timeout", "60000"],
        ["--cluster-node-timeout", "60000"],
    ];
    let nodes = start([APUS, APUS, APUS], &further.concat());
    let (k, value) = (key(1, "k"), "v".repeat(16 << 20));
    let mut observer = nodes[0].client();
    assert_eq!(ask_by(&mut observer, "CLIENT NO-EVICT on"), "OK");
    assert_eq!(ask_by(&mut observer, &format!("SET {k} 1")), "OK");
    let before = observer.figure("used_memory");
    nodes[1].signal(Signal::STOP);
    let bytes: Vec<u8> = requests(&k, &value).iter().flat_map(|it| encode(it)).collect();
    let clients: Vec<Client> = (0..10)
        .map(|_| {
            let mut client = nodes[0].client();
            // A client that goes meanwhile has not sent all.
            let _ = client.try_send_raw(&bytes);
            client
        })
        .collect();
    eventually("some clients go", || observer.figure("evicted_clients") >= gone);
    eventually("their memory goes with them", || {
        observer.figure("used_memory") - before < 96 << 20
    });
    drop(clients);
    nodes[1].signal(Signal::CONT);
    eventually("the node serves again", || {
        matches!(observer.call(&["STRLEN", &k]), Value::Integer(_))
    });
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn a_request_under_way_is_its_clients_memory() {
    requests_under_way_count(8, |key, value| vec![words(&["SET", key, value])]);
}

#[test]
fn a_script_under_way_is_its_clients_memory() {
    requests_under_way_count(8, |key, value| vec![words(&["EVAL", "return 1", "1", key, value])]);
}

#[test]
fn a_transaction_under_way_is_its_clients_memory() {
    // Until MULTI is answered what was queued is here once.
    requests_under_way_count(6, |key, value| {
        vec![words(&["MULTI"]), words(&["SET", key, value]), words(&["EXEC"])]
    });
}

/// Passes connections on to a port, and can have the other end forget one without a word.
struct Relay {
    /// Both ends of each, that of the client first.
    pairs: Arc<Mutex<Vec<(TcpStream, TcpStream)>>>,
}

impl Relay {
    fn start(listener: TcpListener, port: u16) -> Self {
        let pairs = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&pairs);
        thread::spawn(move || {
            for from in listener.incoming() {
                let Ok(from) = from else { return };
                let Ok(to) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let copies = || (from.try_clone().unwrap(), to.try_clone().unwrap());
                let ((mut a, mut b), (mut c, mut d)) = (copies(), copies());
                thread::spawn(move || io::copy(&mut a, &mut b));
                // What the other end closes stays open here.
                thread::spawn(move || io::copy(&mut d, &mut c));
                all.lock().unwrap().push((from, to));
            }
        });
        Self { pairs }
    }

    /// The other end of the connection that it knows by this port is closed.
    fn forget(&self, port: u16) {
        let pairs = self.pairs.lock().unwrap();
        let is_it = |pair: &&(TcpStream, TcpStream)| pair.1.local_addr().unwrap().port() == port;
        pairs.iter().find(is_it).unwrap().1.shutdown(Shutdown::Write).unwrap();
    }
}

/// A node that has forgotten a link keeps nobody waiting, asked to end the wait or not.
#[test]
fn a_wait_at_a_node_that_has_forgotten_it_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let announced = listener.local_addr().unwrap().port().to_string();
    let first = APUS.node(&["--cluster-proxy", "yes", "--cluster-proxy-timeout", "1500"]);
    let nodes = [first, APUS.node(&["--cluster-announce-port", &announced]), APUS.node(&[])];
    let relay = Relay::start(listener, nodes[1].port());
    create(&nodes.each_ref(), 0);
    let list = key(1, "list");
    for is_asked in [false, true] {
        let mut waiter = nodes[0].client();
        let number = waiter.id();
        waiter.send(&["BLPOP", &list, "0"]);
        let mut port = None;
        eventually("it waits there", || {
            let clients = ask(&nodes[1], "CLIENT LIST");
            let lines = clients.split("\\n").chain(clients.lines());
            let mut waiting = lines.filter(|line| line.contains(" cmd=blpop"));
            port = waiting.find_map(|line| field(line, "addr").rsplit(':').next()?.parse().ok());
            port.is_some()
        });
        relay.forget(port.unwrap());
        eventually("it is forgotten", || !ask(&nodes[1], "CLIENT LIST").contains(" cmd=blpop"));
        if is_asked {
            let unblock = ["CLIENT", "UNBLOCK", &number];
            assert_eq!(nodes[0].client().call(&unblock), Value::Integer(1));
        }
        let said = error(&waiter.receive());
        assert!(said.starts_with(UNKNOWN), "{said}");
    }
}
