//! Clients that know no cluster, served through one node of it (`cluster-proxy yes`).
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use base::Random;
use base::hash_slot::hash_slot;
use proto::value::Value;
use tests::cluster::{Program, ask, ask_by, create};
use tests::render::render;
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

const APUS: Program = Program::Apus;
const REDIS70: Program = Program::Stock(Oracle::Redis70);
const REDIS82: Program = Program::Stock(Oracle::Redis82);
const VALKEY91: Program = Program::Stock(Oracle::Valkey91);

/// Clients are served through the first node.
pub(crate) fn start(programs: [Program; 3], further: &[&str]) -> [Server; 3] {
    let nodes = programs.map(|program| match program {
        Program::Apus => program.node(&[&["--cluster-proxy", "yes"], further].concat()),
        Program::Stock(_) => program.node(&[]),
    });
    create(&nodes.each_ref(), 0);
    nodes
}

/// The place of the node that serves a key, as slots are shared out among three.
pub(crate) fn place(key: &str) -> usize {
    match hash_slot(key.as_bytes()) {
        0..=5460 => 0,
        5461..=10922 => 1,
        _ => 2,
    }
}

/// A key of this name at a node; all of one place share a slot.
pub(crate) fn key(at: usize, name: &str) -> String {
    let tag = (0..).find(|tag: &u32| place(&tag.to_string()) == at).unwrap();
    format!("{{{tag}}}{name}")
}

/// Plays a script in which `A` is the tag of a key of the second node, and `B` of the third.
fn play_at(client: &mut Client, script: &str) {
    let (first, second) = (key(1, ""), key(2, ""));
    check(client, &script.replace("{A}", &first).replace("{B}", &second));
}

fn serves_through_any_node(programs: [Program; 3]) {
    let nodes = start(programs, &[]);
    for client in [&mut nodes[0].client(), &mut nodes[0].client3()] {
        play_at(
            client,
            "
             > SET {A}k 1
             OK
             > INCR {A}k
             (integer) 2
             > GET {B}k
             (nil)
             > LPUSH {A}k x
             (error) WRONGTYPE Operation against a key holding the wrong kind of value
             > MSET {B}a 1 {B}b 2
             OK
             > MGET {B}a {B}b {B}c
             1) \"1\"
             2) \"2\"
             3) (nil)
             > RPUSH {A}l a b c
             (integer) 3
             > LRANGE {A}l 0 -1
             1) \"a\"
             2) \"b\"
             3) \"c\"
             > MSET {A}a 1 {B}b 2
             (error) CROSSSLOT Keys in request don't hash to the same slot
             > EVAL \"return redis.call('GET', KEYS[1])\" 1 {A}k
             \"2\"
             > OBJECT ENCODING {A}k
             \"int\"
             > SPUBLISH {A}channel hello
             (integer) 0
             > PING
             PONG
             > DEL {A}k {A}l
             (integer) 2
             > DEL {B}a {B}b
             (integer) 2",
        );
    }
    a_transaction_goes_as_one(&nodes);
    scripts_are_brought_where_they_are_missing(&nodes);
    what_waits_is_served_ended_and_late(&nodes);
    long_values_go_both_ways(&nodes);
    links_are_seen_by_name(&nodes);
}

fn a_transaction_goes_as_one(nodes: &[Server; 3]) {
    let mut client = nodes[0].client();
    play_at(
        &mut client,
        "
         > MULTI
         OK
         > SET {A}t 1
         QUEUED
         > INCR {A}t
         QUEUED
         > LPUSH {A}t x
         QUEUED
         > PING
         QUEUED
         > GET {A}t
         QUEUED
         > EXEC
         1) OK
         2) (integer) 2
         3) (error) WRONGTYPE Operation against a key holding the wrong kind of value
         4) PONG
         5) \"2\"
         > MULTI
         OK
         > INCR {A}t
         QUEUED
         > DISCARD
         OK
         > GET {A}t
         \"2\"
         > MULTI
         OK
         > INCR {A}t
         QUEUED
         > GET
         (error) ERR wrong number of arguments for 'get' command
         > EXEC
         (error) EXECABORT Transaction discarded because of previous errors.
         > GET {A}t
         \"2\"
         > MULTI
         OK
         > INCR {A}t
         QUEUED
         > INCR {B}t
         QUEUED
         > EXEC
         (error) CROSSSLOT Keys in request don't hash to the same slot
         > DEL {A}t
         (integer) 1",
    );
}

fn scripts_are_brought_where_they_are_missing(nodes: &[Server; 3]) {
    let mut client = nodes[0].client();
    let script = format!("return redis.call('INCRBY', KEYS[1], ARGV[1]) -- {}", nodes[0].port());
    let digest = client.call(&["SCRIPT", "LOAD", &script]);
    let digest = String::from_utf8(digest.as_bytes().unwrap().to_vec()).unwrap();
    let key = key(1, "script");
    for expected in [5, 10, 15] {
        let sum = client.call(&["EVALSHA", &digest, "1", &key, "5"]);
        assert_eq!(sum, Value::Integer(expected));
    }
    let unknown = render(&client.call(&["EVALSHA", &"0".repeat(40), "1", &key]));
    assert!(unknown.starts_with("(error) NOSCRIPT"), "{unknown}");
    client.call(&["DEL", &key]);
}

fn what_waits_is_served_ended_and_late(nodes: &[Server; 3]) {
    let (list, other) = (key(1, "list"), key(1, "other"));
    let mut client = nodes[0].client();
    let mut pusher = nodes[0].client();
    assert_eq!(render(&client.call(&["BLPOP", &list, "0.05"])), "(nil)");
    client.send(&["BLPOP", &list, &other, "0"]);
    eventually("the client waits", || pusher.info("blocked_clients") == "1");
    // Others are served meanwhile, of the same node, too.
    assert_eq!(render(&pusher.call(&["GET", &key(1, "none")])), "(nil)");
    assert_eq!(pusher.call(&["RPUSH", &other, "element"]), Value::Integer(1));
    assert_eq!(render(&client.receive()), format!("1) \"{other}\"\n2) \"element\""));
    for (how, said) in
        [("TIMEOUT", "(nil)"), ("ERROR", "(error) UNBLOCKED client unblocked via CLIENT UNBLOCK")]
    {
        let id = client.id();
        client.send(&["BLPOP", &list, "0"]);
        eventually("the client waits", || pusher.info("blocked_clients") == "1");
        // The command is at its node once a client waits there.
        eventually("it waits there", || nodes[1].client().info("blocked_clients") == "1");
        assert_eq!(pusher.call(&["CLIENT", "UNBLOCK", &id, how]), Value::Integer(1));
        assert_eq!(render(&client.receive()), said);
    }
    // A client that goes takes nothing along.
    client.send(&["BLPOP", &list, "0"]);
    eventually("it waits there", || nodes[1].client().info("blocked_clients") == "1");
    drop(client);
    eventually("it is gone there", || nodes[1].client().info("blocked_clients") == "0");
    assert_eq!(pusher.call(&["RPUSH", &list, "kept"]), Value::Integer(1));
    assert_eq!(pusher.call(&["LPOP", &list]), Value::Bulk(b"kept".to_vec()));
}

fn long_values_go_both_ways(nodes: &[Server; 3]) {
    let (mut client, key) = (nodes[0].client(), key(2, "long"));
    let value = "v".repeat(3 << 20);
    assert_eq!(render(&client.call(&["SET", &key, &value])), "OK");
    assert_eq!(client.call(&["GET", &key]), Value::Bulk(value.clone().into_bytes()));
    let requests: Vec<Vec<&str>> = (0..10).map(|_| vec!["GET", &key]).collect();
    for reply in client.pipeline(&requests) {
        assert_eq!(reply, Value::Bulk(value.clone().into_bytes()));
    }
    client.call(&["DEL", &key]);
}

fn links_are_seen_by_name(nodes: &[Server; 3]) {
    let seen = ask(&nodes[1], "CLIENT LIST");
    assert!(seen.contains("name=cluster-proxy-"), "{seen}");
    let mut client = nodes[0].client();
    assert!(client.figure("cluster_proxy_requests") > 50);
    assert!(client.figure("cluster_proxy_links") > 0);
    assert_eq!(client.figure("cluster_proxy_errors"), 0);
}

#[test]
fn a_client_is_served_through_any_node_of_apus() {
    serves_through_any_node([APUS, APUS, APUS]);
}

#[test]
fn a_client_is_served_by_nodes_of_redis() {
    serves_through_any_node([APUS, REDIS82, REDIS82]);
}

#[test]
fn a_client_is_served_by_nodes_of_redis70() {
    serves_through_any_node([APUS, REDIS70, REDIS70]);
}

#[test]
fn a_client_is_served_by_nodes_of_valkey() {
    serves_through_any_node([APUS, VALKEY91, VALKEY91]);
}

#[test]
fn requests_are_not_sent_on_unless_that_is_wanted() {
    let nodes = [APUS, APUS, APUS].map(|program| program.node(&[]));
    create(&nodes.each_ref(), 0);
    let key = key(1, "k");
    let mut client = nodes[0].client();
    let moved =
        format!("(error) MOVED {} 127.0.0.1:{}", hash_slot(key.as_bytes()), nodes[1].port());
    let get = format!("GET {key}");
    assert_eq!(ask_by(&mut client, &get), moved);
    assert_eq!(ask_by(&mut client, "CONFIG SET cluster-proxy yes"), "OK");
    assert_eq!(ask_by(&mut client, &get), "(nil)");
    assert_eq!(ask_by(&mut client, "CONFIG SET cluster-proxy no"), "OK");
    assert_eq!(ask_by(&mut client, &get), moved);
    assert_eq!(client.figure("cluster_proxy_requests"), 1);
}

#[test]
fn what_belongs_to_its_connection_is_not_sent_on() {
    let nodes = start([APUS, APUS, APUS], &[]);
    let key = key(1, "k");
    let moved =
        format!("(error) MOVED {} 127.0.0.1:{}", hash_slot(key.as_bytes()), nodes[1].port());
    let mut client = nodes[0].client();
    for line in ["SSUBSCRIBE", "WATCH"] {
        assert_eq!(ask_by(&mut client, &format!("{line} {key}")), moved);
    }
    let mut tracking = nodes[0].client3();
    assert_eq!(ask_by(&mut tracking, "CLIENT TRACKING ON"), "OK");
    assert_eq!(ask_by(&mut tracking, &format!("GET {key}")), moved);
    // A transaction goes elsewhere as a whole, so nothing may be watched here.
    let local = self::key(0, "k");
    assert_eq!(ask_by(&mut client, &format!("WATCH {local}")), "OK");
    assert_eq!(ask_by(&mut client, "MULTI"), "OK");
    assert_eq!(ask_by(&mut client, &format!("SET {key} 1")), "QUEUED");
    assert_eq!(ask_by(&mut client, "EXEC"), moved);
    // Neither does one that speaks of this node.
    for (line, said) in [("MULTI", "OK"), ("DBSIZE", "QUEUED")] {
        assert_eq!(ask_by(&mut client, line), said);
    }
    assert_eq!(ask_by(&mut client, &format!("SET {key} 1")), "QUEUED");
    assert_eq!(ask_by(&mut client, "EXEC"), moved);
    assert_eq!(ask(&nodes[0], &format!("EXISTS {key}")), "(integer) 0");
}

/// What comes from a node that sends on is sent on no further.
#[test]
fn a_request_is_sent_on_once() {
    let nodes = start([APUS, APUS, APUS], &[]);
    let key = key(1, "k");
    let slot = hash_slot(key.as_bytes());
    let mut link = nodes[0].client();
    assert_eq!(ask_by(&mut link, "CLIENT SETINFO LIB-NAME apus-cluster-proxy"), "OK");
    let moved = format!("(error) MOVED {slot} 127.0.0.1:{}", nodes[1].port());
    assert_eq!(ask_by(&mut link, &format!("GET {key}")), moved);
    // Two nodes that send it to each other: it comes to an end.
    let third = tests::cluster::id(&nodes[2]);
    let first = tests::cluster::id(&nodes[0]);
    let orders = [(&nodes[0], &third), (&nodes[2], &first), (&nodes[1], &third)];
    for (node, owner) in orders {
        assert_eq!(ask(node, &format!("CLUSTER SETSLOT {slot} NODE {owner}")), "OK");
    }
    let said = ask(&nodes[0], &format!("GET {key}"));
    assert!(said == "(nil)" || said.starts_with("(error) "), "{said}");
    let sent: i64 = nodes.iter().map(|node| node.client().figure("cluster_proxy_requests")).sum();
    assert!(sent <= 1, "{sent} requests were sent on for one");
}

/// What may do more than its words say is not sent on for a user that may not do everything: the
/// link, whose rights count at the owner, may.
fn rights_are_not_exceeded_elsewhere(nodes: &[Server; 3]) {
    let mut own = nodes[0].client();
    ask_by(&mut own, "AUTH secret");
    let (k, secret) = (key(1, "list"), key(1, "secret"));
    ask_by(&mut own, &format!("SET {secret} hidden"));
    ask_by(&mut own, &format!("RPUSH {k} 1"));
    let commands = "+get +set +del +eval +fcall +multi +exec +sort +auth +rpush +lrange";
    let rules = format!("ACL SETUSER v on nopass ~{k} {commands}");
    ask_by(&mut own, &rules);
    let mut client = nodes[0].client();
    assert_eq!(ask_by(&mut client, "AUTH v x"), "OK");
    for script in
        [format!("return redis.call('get','{secret}')"), "return redis.call('flushall')".into()]
    {
        let said = render(&client.call(&["EVAL", &script, "1", &k]));
        assert!(said.contains("MOVED "), "{said}");
        client.call(&["MULTI"]);
        client.call(&["EVAL", &script, "1", &k]);
        let said = render(&client.call(&["EXEC"]));
        assert!(said.contains("EXECABORT"), "{said}");
    }
    client.call(&["MULTI"]);
    client.call(&["SORT", &k, "BY", "nosort", "GET", &secret]);
    let said = render(&client.call(&["EXEC"]));
    assert!(said.contains("MOVED "), "{said}");
    client.call(&["MULTI"]);
    client.call(&["RPUSH", &k, "2"]);
    ask_by(&mut own, "ACL SETUSER v -rpush");
    let said = render(&client.call(&["EXEC"]));
    assert!(said.contains("MOVED "), "{said}");
    assert_eq!(ask_by(&mut own, &format!("LRANGE {k} 0 -1")), "1) \"1\"");
    client.call(&["MULTI"]);
    client.call(&["LRANGE", &k, "0", "-1"]);
    let said = render(&client.call(&["EXEC"]));
    assert!(!said.contains("MOVED "), "{said}");
}

/// The client's own rights count here, and those of the link at the owner.
#[test]
fn rights_are_asked_for_here_and_there() {
    let login = ["--requirepass", "secret", "--masterauth", "secret"];
    let nodes = [APUS, REDIS82, REDIS82].map(|program| match program {
        APUS => program.node(&["--cluster-proxy", "yes"]),
        other => other.node(&[]),
    });
    create(&nodes.each_ref(), 0);
    for node in &nodes {
        let mut client = node.client();
        for pair in login.chunks(2) {
            let line = format!("CONFIG SET {} {}", pair[0].trim_start_matches("--"), pair[1]);
            client.call(&base_words(&line));
            client.call(&["AUTH", "secret"]);
        }
    }
    let (k, other) = (key(1, "k"), key(1, "other"));
    let mut client = nodes[0].client();
    let said = ask_by(&mut client, &format!("GET {k}"));
    assert!(said.starts_with("(error) NOAUTH"), "{said}");
    assert_eq!(ask_by(&mut client, "AUTH secret"), "OK");
    assert_eq!(ask_by(&mut client, &format!("SET {k} 1")), "OK");
    let rules = format!("ACL SETUSER u on nopass ~{k} +get +auth");
    assert_eq!(ask_by(&mut client, &rules), "OK");
    assert_eq!(ask_by(&mut client, "AUTH u x"), "OK");
    assert_eq!(ask_by(&mut client, &format!("GET {k}")), "\"1\"");
    for line in [format!("SET {k} 2"), format!("GET {other}")] {
        let said = ask_by(&mut client, &line);
        assert!(said.starts_with("(error) NOPERM"), "{said}");
    }
    rights_are_not_exceeded_elsewhere(&nodes);
    // A link that is not let in is told of, and nothing is sent.
    let mut own = nodes[0].client();
    assert_eq!(ask_by(&mut own, "AUTH secret"), "OK");
    assert_eq!(ask_by(&mut own, "CONFIG SET masterauth wrong"), "OK");
    let unused = key(2, "k");
    let said = ask_by(&mut own, &format!("GET {unused}"));
    assert!(said.starts_with("(error) CLUSTERDOWN The node 127.0.0.1:"), "{said}");
}

fn base_words(line: &str) -> Vec<Vec<u8>> {
    base::quote::split_arguments(line.as_bytes()).unwrap()
}

/// A random command of one key, or of several of one slot.
fn random_command(random: &mut Random) -> Vec<String> {
    let tag = random.below(12);
    let (first, second) = (random.below(4), random.below(4));
    let value = random.below(100);
    const FORMS: &[&str] = &[
        "SET {t}s1 v",
        "GET {t}s1",
        "APPEND {t}s1 v",
        "STRLEN {t}s1",
        "INCR {t}n1",
        "DECRBY {t}n1 v",
        "GETSET {t}s1 v",
        "SETNX {t}s2 v",
        "MSET {t}s1 v {t}s2 x",
        "MGET {t}s1 {t}s2 {t}n1",
        "RPUSH {t}l1 v",
        "LPOP {t}l1",
        "LRANGE {t}l1 0 -1",
        "LLEN {t}l2",
        "RPOPLPUSH {t}l1 {t}l2",
        "HSET {t}h1 f1 v",
        "HGET {t}h1 f2",
        "HINCRBY {t}h1 c v",
        "HLEN {t}h1",
        "SADD {t}e1 v",
        "SISMEMBER {t}e1 v",
        "SCARD {t}e2",
        "SINTERCARD 2 {t}e1 {t}e2",
        "ZADD {t}z1 v m1",
        "ZSCORE {t}z1 m2",
        "ZRANGE {t}z1 0 -1 WITHSCORES",
        "ZINCRBY {t}z1 v m2",
        "DEL {t}s1 {t}l2",
        "EXISTS {t}s1 {t}h1",
        "TYPE {t}s1",
        "RENAME {t}s1 {t}s2",
        "EXPIRE {t}s1 1000",
        "PERSIST {t}s1",
        "LPUSH {t}s1 v",
        "INCR {t}l1",
        "SETRANGE {t}s1 v x",
        "BITCOUNT {t}s1",
        "XADD {t}x1 MAXLEN 5 * f v",
        "XLEN {t}x1",
        "PFADD {t}p1 v",
        "PFCOUNT {t}p1",
        "PING",
        "ECHO v",
        "EVAL return(redis.call('INCR',KEYS[1])) 1 {t}n2",
        "SET {t}s1",
        "GET",
        "BLPOP {t}l1 0.001",
    ];
    let form = FORMS[random.below(FORMS.len() as u64) as usize];
    let words = form.split(' ').map(|word| match word {
        "v" => value.to_string(),
        _ if word.starts_with("{t}") || ["f1", "f2", "m1", "m2"].contains(&word) => word
            .replace('1', &first.to_string())
            .replace('2', &(4 + second).to_string())
            .replace("{t}", &format!("{{{tag}}}")),
        _ => word.to_owned(),
    });
    words.collect()
}

/// What differs from one server to the next: ids that are made of the time.
fn comparable(command: &[String], reply: Value) -> Value {
    let is_id = command[0] == "XADD" && matches!(reply, Value::Bulk(_));
    if is_id { Value::Null } else { reply }
}

/// Long pipelines of everything, beside a server of its own.
fn replies_as_one_server_would(programs: [Program; 3], seed: u64) {
    let nodes = start(programs, &[]);
    let alone = Server::start(&["--save", ""]);
    let mut random = Random::from_seed(seed);
    for is_resp3 in [false, true] {
        let of = |server: &Server| if is_resp3 { server.client3() } else { server.client() };
        let (mut through, mut beside) = (of(&nodes[0]), of(&alone));
        for round in 0..150 {
            let length = 1 + random.below(120);
            let commands: Vec<Vec<String>> =
                (0..length).map(|_| random_command(&mut random)).collect();
            let (ours, theirs) = (through.pipeline(&commands), beside.pipeline(&commands));
            for ((command, ours), theirs) in commands.iter().zip(ours).zip(theirs) {
                let (ours, theirs) = (comparable(command, ours), comparable(command, theirs));
                assert_eq!(ours, theirs, "seed {seed}, round {round}: {command:?}");
            }
        }
    }
}

#[test]
fn pipelines_are_answered_as_by_one_server() {
    replies_as_one_server_would([APUS, APUS, APUS], 1);
}

#[test]
fn pipelines_to_redis_are_answered_as_by_one_server() {
    replies_as_one_server_would([APUS, REDIS82, REDIS82], 2);
}

#[test]
fn pipelines_to_valkey_are_answered_as_by_one_server() {
    replies_as_one_server_would([APUS, VALKEY91, VALKEY91], 3);
}
