//! What a client that knows no cluster may rely on, whatever the owners of its keys do: nothing
//! twice, nothing half, nothing out of order, and nobody held up by others.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::thread;
use std::time::Duration;

use base::hash_slot::hash_slot;
use proto::value::Value;
use rustix::process::Signal;
use tests::client::encode;
use tests::cluster::{Program, address, ask, ask_by, id, owners};
use tests::render::render;
use tests::server::eventually;
use tests::shards::Shards;
use tests::{Client, Oracle, Server};

use crate::cluster_proxy::{key, start};
use crate::cluster_slot_moves::SLOT;

const APUS: Program = Program::Apus;
const REDIS70: Program = Program::Stock(Oracle::Redis70);
const REDIS82: Program = Program::Stock(Oracle::Redis82);
const VALKEY91: Program = Program::Stock(Oracle::Valkey91);

const UNKNOWN: &str = "(error) ERR No reply from the node ";

/// Has these nodes believe that a slot is another's.
fn tell(nodes: &[&Server], slot: u16, owner: &Server) {
    let line = format!("CLUSTER SETSLOT {slot} NODE {}", id(owner));
    nodes.iter().for_each(|node| assert_eq!(ask(node, &line), "OK"));
}

/// Opens a slot on its way from one node to another.
fn open_slot(slot: u16, from: &Server, to: &Server) {
    for (node, way, other) in [(to, "IMPORTING", from), (from, "MIGRATING", to)] {
        assert_eq!(ask(node, &format!("CLUSTER SETSLOT {slot} {way} {}", id(other))), "OK");
    }
}

/// The owner takes a slot between two requests of a pipeline, of which the first was sent too soon.
#[test]
fn a_write_is_not_sent_again_behind_a_later_one() {
    let nodes = start([APUS, APUS, APUS], &[]);
    let [first, from, to] = &nodes;
    let (k, other) = (key(1, "k"), key(2, "other"));
    let slot = hash_slot(k.as_bytes());
    open_slot(slot, from, to);
    assert_eq!(ask(to, "CLIENT PAUSE 60000 WRITE"), "OK");
    let mut client = first.client();
    tell(&[first], slot, to);
    let requests: [&[&str]; 4] =
        [&["SET", &k, "first"], &["INCR", &other], &["SET", &k, "second"], &["GET", &k]];
    client.send_raw(&requests.iter().flat_map(|request| encode(request)).collect::<Vec<u8>>());
    eventually("the first write is refused", || {
        ask(to, "INFO errorstats").contains("errorstat_MOVED:")
    });
    tell(&[to, from], slot, to);
    assert_eq!(ask(to, "CLIENT UNPAUSE"), "OK");
    let said = render(&client.receive());
    assert!(said.starts_with("(error) TRYAGAIN The request was not executed"), "{said}");
    let replies: Vec<String> = (0..3).map(|_| render(&client.receive())).collect();
    assert_eq!(replies, ["(integer) 1", "OK", "\"second\""]);
    assert_eq!(ask(to, &format!("GET {k}")), "\"second\"");
}

/// What a script replies is its own, also where that looks like the word of its node.
fn a_script_runs_once(owner: Program) {
    let nodes = start([APUS, owner, owner], &[]);
    let mut client = nodes[0].client();
    let k = key(1, "k");
    let slot = hash_slot(k.as_bytes());
    let lines = [
        format!("MOVED {slot} {}", address(&nodes[1])),
        format!("MOVED {slot} {}", address(&nodes[2])),
        format!("ASK {slot} {}", address(&nodes[2])),
        "NOSCRIPT No matching script. Please use EVAL.".to_owned(),
    ];
    for line in &lines {
        let script = format!("redis.call('INCR', KEYS[1]) return redis.error_reply('{line}')");
        let digest = client.call(&["SCRIPT", "LOAD", &script]);
        let digest = String::from_utf8(digest.as_bytes().unwrap().to_vec()).unwrap();
        for words in [["EVAL", &script], ["EVALSHA", &digest]] {
            client.call(&["DEL", &k]);
            let said = render(&client.call(&[words[0], words[1], "1", &k]));
            assert!(said.starts_with(&format!("(error) {line}")), "{said}");
            assert_eq!(client.call(&["GET", &k]), Value::Bulk(b"1".to_vec()), "{words:?}");
        }
    }
    // The node's own word is followed as ever: the key is to be made where the slot goes.
    client.call(&["DEL", &k]);
    open_slot(slot, &nodes[1], &nodes[2]);
    let script = "return redis.call('INCR', KEYS[1])";
    for number in 1..3 {
        assert_eq!(client.call(&["EVAL", script, "1", &k]), Value::Integer(number));
    }
    assert_eq!(ask(&nodes[2], &format!("CLUSTER COUNTKEYSINSLOT {slot}")), "(integer) 1");
}

#[test]
fn a_script_that_names_another_node_runs_once() {
    a_script_runs_once(APUS);
}

#[test]
fn a_script_that_names_another_node_runs_once_at_redis() {
    a_script_runs_once(REDIS82);
}

#[test]
fn a_script_that_names_another_node_runs_once_at_redis70() {
    a_script_runs_once(REDIS70);
}

#[test]
fn a_script_that_names_another_node_runs_once_at_valkey() {
    a_script_runs_once(VALKEY91);
}

/// A script's client sends no MULTI and no EXEC, and hears of neither.
fn a_script_is_answered_as_if_alone(owner: Program) {
    let nodes = start([APUS, owner, owner], &[]);
    let k = key(1, "k");
    let mut clients = [nodes[0].client(), nodes[0].client3()];
    let mut say = |script: &str| {
        clients.each_mut().map(|client| render(&client.call(&["EVAL", script, "1", &k])))
    };
    let script = "return {1, {'a', false}, redis.status_reply('OK')}";
    let array = "1) (integer) 1\n2) 1) \"a\"\n   2) (nil)\n3) OK";
    assert_eq!(say(script), [array, array]);
    assert_eq!(say("return {}"), ["(empty array)", "(empty array)"]);
    assert_eq!(say("return false"), ["(nil)", "(nil)"]);
    let mut owner = nodes[1].client();
    let write = "#!lua\nreturn redis.call('SET', KEYS[1], 1)";
    assert_eq!(ask_by(&mut owner, "CONFIG SET maxmemory 1"), "OK");
    assert!(say(write).iter().all(|said| said.starts_with("(error) OOM ")));
    assert_eq!(ask_by(&mut owner, "CONFIG SET maxmemory 0"), "OK");
    assert_eq!(say(write), ["OK", "OK"]);
    // While a script runs MULTI is served, and EXEC is not.
    assert_eq!(ask_by(&mut owner, "CONFIG SET busy-reply-threshold 50"), "OK");
    let mut endless = nodes[1].client();
    endless.send(&["EVAL", "while true do end", "1", &k]);
    eventually("it is busy", || render(&owner.call(&["GET", &k])).starts_with("(error) BUSY"));
    assert!(say(write).iter().all(|said| said.starts_with("(error) BUSY ")));
    assert_eq!(ask_by(&mut owner, "SCRIPT KILL"), "OK");
    assert!(render(&endless.receive()).contains("killed"));
    eventually("it is free", || say(write) == ["OK", "OK"]);
    // Without MULTI it is done by itself.
    assert_eq!(ask_by(&mut owner, "ACL SETUSER link on >p ~* &* +@all -multi"), "OK");
    for line in ["CONFIG SET masteruser link", "CONFIG SET masterauth p"] {
        assert_eq!(ask(&nodes[0], line), "OK");
    }
    // Links that stand are of the user before.
    assert!(ask_by(&mut owner, "CLIENT KILL TYPE normal").starts_with("(integer)"));
    owner.call(&["DEL", &k]);
    let raise = "return redis.call('INCR', KEYS[1])";
    assert_eq!(say(raise), ["(integer) 1", "(integer) 2"]);
    assert_eq!(say(raise), ["(integer) 3", "(integer) 4"]);
}

#[test]
fn a_script_hears_of_no_transaction() {
    a_script_is_answered_as_if_alone(APUS);
}

#[test]
fn a_script_hears_of_no_transaction_at_redis70() {
    a_script_is_answered_as_if_alone(REDIS70);
}

#[test]
fn a_script_hears_of_no_transaction_at_redis() {
    a_script_is_answered_as_if_alone(REDIS82);
}

#[test]
fn a_script_hears_of_no_transaction_at_valkey() {
    a_script_is_answered_as_if_alone(VALKEY91);
}

/// Where MULTI is refused nothing of the transaction is done.
fn a_transaction_is_whole(owner: Program) {
    let nodes = start([APUS, owner, owner], &[]);
    let link = |rules: &str| {
        for node in &nodes[1..] {
            assert_eq!(ask(node, &format!("ACL SETUSER link {rules}")), "OK");
        }
    };
    link("on >p ~* &* +@all -multi");
    for line in ["CONFIG SET masteruser link", "CONFIG SET masterauth p"] {
        assert_eq!(ask(&nodes[0], line), "OK");
    }
    let k = key(1, "k");
    let transaction: Vec<Vec<&str>> =
        vec![vec!["MULTI"], vec!["INCR", &k], vec!["INCR", &k], vec!["EXEC"]];
    let mut client = nodes[0].client();
    let said = render(client.pipeline(&transaction).last().unwrap());
    assert!(said.starts_with("(error) NOPERM"), "{said}");
    assert_eq!(ask_by(&mut client, &format!("EXISTS {k}")), "(integer) 0");
    // Nor does a transaction that cannot end take in what comes by its link next.
    link("+multi -exec");
    let said = render(client.pipeline(&transaction).last().unwrap());
    assert!(said.contains("NOPERM"), "{said}");
    assert_eq!(render(&client.call(&["BLPOP", &k, "0.01"])), "(nil)");
    assert_eq!(ask_by(&mut client, &format!("EXISTS {k}")), "(integer) 0");
    link("+exec");
    let both = Value::Array(vec![Value::Integer(1), Value::Integer(2)]);
    assert_eq!(client.pipeline(&transaction).last(), Some(&both));
}

#[test]
fn a_transaction_whose_multi_is_refused_does_nothing() {
    a_transaction_is_whole(APUS);
}

#[test]
fn a_transaction_whose_multi_is_refused_by_redis_does_nothing() {
    a_transaction_is_whole(REDIS82);
}

/// Nothing orders CLIENT UNBLOCK behind the command that it is to end.
fn a_wait_ends_when_asked(owner: Program) {
    let nodes = start([APUS, owner, owner], &[]);
    let (mut waiter, mut other) = (nodes[0].client(), nodes[0].client());
    let list = key(1, "list");
    assert_eq!(render(&waiter.call(&["BLPOP", &list, "0.01"])), "(nil)");
    let number = waiter.id();
    for _ in 0..5 {
        nodes[1].signal(Signal::STOP);
        waiter.send(&["BLPOP", &list, "0"]);
        eventually("the client waits", || other.info("blocked_clients") == "1");
        assert_eq!(other.call(&["CLIENT", "UNBLOCK", &number]), Value::Integer(1));
        nodes[1].signal(Signal::CONT);
        assert_eq!(render(&waiter.receive()), "(nil)");
    }
}

#[test]
fn client_unblock_comes_to_the_command_that_it_overtakes() {
    a_wait_ends_when_asked(APUS);
}

#[test]
fn client_unblock_comes_to_the_command_that_it_overtakes_at_redis() {
    a_wait_ends_when_asked(REDIS82);
}

/// A node that becomes a replica keeps its clients' waits at other nodes.
#[test]
fn a_wait_elsewhere_outlives_a_change_of_role() {
    let shards = Shards::start(APUS, &["--cluster-proxy", "yes"], SLOT);
    let (node, other) = (shards.of(0), shards.of(2));
    let port = i64::from(other.port());
    let is_other =
        |slot: i64| owners(node).iter().any(|it| it.0 <= slot && slot <= it.1 && it.2 == port);
    let list = (0..)
        .map(|tag: u32| format!("{{{tag}}}list"))
        .find(|list| is_other(i64::from(hash_slot(list.as_bytes()))))
        .unwrap();
    let mut client = node.client();
    client.send(&["BLPOP", &list, "0"]);
    eventually("it waits there", || other.client().info("blocked_clients") == "1");
    shards.fail_over(0, 1);
    assert_eq!(ask(node, &format!("RPUSH {list} x")), "(integer) 1");
    assert_eq!(render(&client.receive()), format!("1) \"{list}\"\n2) \"x\""));
    // Neither does the change end a later wait in other words than its own.
    assert_eq!(ask_by(&mut client, "READONLY"), "OK");
    let number = client.id();
    client.send(&["XREAD", "BLOCK", "0", "STREAMS", "{foo}stream", "$"]);
    let mut asking = node.client();
    eventually("it waits here", || asking.info("blocked_clients") == "1");
    let unblock = ["CLIENT", "UNBLOCK", &number, "ERROR"];
    assert_eq!(asking.call(&unblock), Value::Integer(1));
    let said = render(&client.receive());
    assert_eq!(said, "(error) UNBLOCKED client unblocked via CLIENT UNBLOCK");
    assert_eq!(ask_by(&mut client, "PING"), "PONG");
}

#[test]
fn a_status_is_as_long_as_its_script_makes_it() {
    let nodes = start([APUS, APUS, REDIS82], &[]);
    for place in [1, 2] {
        let mut client = nodes[0].client();
        let script = "return redis.status_reply(string.rep('x', 2000000))";
        client.send(&["EVAL", script, "1", &key(place, "k")]);
        let reply = client.receive_raw(2_000_003);
        assert!(reply.starts_with(b"+xxx") && reply.ends_with(b"xxx\r\n"));
        assert_eq!(ask_by(&mut client, "PING"), "PONG");
    }
}

/// Reads do not stand behind what a node holds up, however many clients have that.
#[test]
fn what_a_node_holds_up_keeps_no_other_client() {
    let nodes = start([APUS, APUS, REDIS82], &[]);
    for place in [1, 2] {
        let k = key(place, "k");
        assert_eq!(ask(&nodes[0], &format!("SET {k} 1")), "OK");
        assert_eq!(ask(&nodes[place], "CLIENT PAUSE 60000 WRITE"), "OK");
        let mut writers: Vec<Client> = (0..8).map(|_| nodes[0].client()).collect();
        writers.iter_mut().for_each(|writer| writer.send(&["INCR", &k]));
        let mut reader = nodes[0].client();
        for _ in 0..20 {
            assert_eq!(ask_by(&mut reader, &format!("GET {k}")), "\"1\"");
        }
        assert!(writers.iter_mut().all(Client::is_silent));
        assert_eq!(ask(&nodes[place], "CLIENT UNPAUSE"), "OK");
        let mut numbers: Vec<String> =
            writers.iter_mut().map(|writer| render(&writer.receive())).collect();
        numbers.sort();
        assert_eq!(numbers, (2..10).map(|it| format!("(integer) {it}")).collect::<Vec<_>>());
    }
}

/// A command that waits is told of its node, as one that does not.
#[test]
fn a_wait_at_a_node_that_hangs_ends() {
    let nodes = start([APUS, REDIS82, VALKEY91], &["--cluster-proxy-timeout", "500"]);
    let k = key(1, "k");
    let waits: [&[&str]; 3] =
        [&["BLPOP", &k, "0.5"], &["BLPOP", &k, "0"], &["XREAD", "STREAMS", &k, "0"]];
    let mut client = nodes[0].client();
    for words in waits {
        // The link stands.
        assert_eq!(render(&client.call(&["BLPOP", &k, "0.01"])), "(nil)");
        assert_eq!(render(&client.call(&["GET", &k])), "(nil)");
        nodes[1].signal(Signal::STOP);
        let said = render(&client.call(words));
        nodes[1].signal(Signal::CONT);
        assert!(said.starts_with(UNKNOWN), "{words:?}: {said}");
    }
}

/// A wait at a node that is there outlives any number of questions whether it is.
fn a_wait_goes_on(owner: Program) {
    let nodes = start([APUS, owner, owner], &["--cluster-proxy-timeout", "1500"]);
    let mut waiters = [nodes[0].client(), nodes[0].client3()];
    let lists = [key(1, "list"), key(1, "other")];
    for (waiter, list) in waiters.iter_mut().zip(&lists) {
        waiter.send(&["BLPOP", list, "0"]);
    }
    thread::sleep(Duration::from_millis(5000));
    let mut pusher = nodes[0].client();
    for (waiter, list) in waiters.iter_mut().zip(&lists) {
        assert!(waiter.is_silent());
        assert_eq!(pusher.call(&["RPUSH", list, "x"]), Value::Integer(1));
        assert_eq!(render(&waiter.receive()), format!("1) \"{list}\"\n2) \"x\""));
    }
}

#[test]
fn a_wait_at_a_node_that_answers_goes_on() {
    a_wait_goes_on(APUS);
}

#[test]
fn a_wait_at_a_node_of_redis_that_answers_goes_on() {
    a_wait_goes_on(REDIS82);
}

#[test]
fn a_wait_at_a_node_of_valkey_that_answers_goes_on() {
    a_wait_goes_on(VALKEY91);
}

/// Reads of streams that wait for nothing share links.
#[test]
fn reads_of_streams_take_no_link_each() {
    let nodes = start([APUS, APUS, APUS], &[]);
    let stream = key(1, "stream");
    let mut owner = nodes[1].client();
    assert_eq!(ask(&nodes[0], &format!("XADD {stream} 1-1 a 1")), "\"1-1\"");
    let before = owner.figure("total_connections_received");
    let mut readers: Vec<Client> = (0..150).map(|_| nodes[0].client()).collect();
    nodes[1].signal(Signal::STOP);
    for reader in &mut readers {
        reader.send(&["XREAD", "COUNT", "1", "STREAMS", &stream, "0"]);
    }
    let mut observer = nodes[0].client();
    eventually("all are sent on", || observer.figure("cluster_proxy_requests") >= 151);
    nodes[1].signal(Signal::CONT);
    for reader in &mut readers {
        let said = render(&reader.receive());
        assert!(said.contains("1-1"), "{said}");
    }
    let opened = owner.figure("total_connections_received") - before;
    assert!(opened <= 40, "{opened} links for 150 clients");
}

/// A user pays for what this node does, and not for the time that another takes.
#[test]
fn the_time_of_another_node_is_no_users() {
    let nodes = start([APUS, APUS, APUS], &[]);
    let mut client = nodes[0].client();
    for line in [
        "ACL SETUSER ada on nopass ~* &* +@all",
        "CONFIG SET user-quota \"ada cpu-microseconds 1000000/3600\"",
        "AUTH ada x",
    ] {
        assert_eq!(ask_by(&mut client, line), "OK");
    }
    let k = key(1, "k");
    assert_eq!(client.call(&["INCR", &k]), Value::Integer(1));
    nodes[1].signal(Signal::STOP);
    client.send(&["INCR", &k]);
    thread::sleep(Duration::from_millis(1500));
    nodes[1].signal(Signal::CONT);
    assert_eq!(client.receive(), Value::Integer(2));
    assert_eq!(ask_by(&mut client, "PING"), "PONG");
    assert_eq!(client.call(&["INCR", &k]), Value::Integer(3));
}

/// Replies that wait here for the last one of their pipeline are their client's memory.
#[test]
fn replies_that_are_held_count_for_their_client() {
    let nodes = start([APUS, APUS, APUS], &["--maxmemory-clients", "8mb"]);
    let (long, held) = (key(1, "long"), key(1, "held"));
    let mut owner = nodes[1].client();
    // The owner's limit would count for the link.
    assert_eq!(ask_by(&mut owner, "CONFIG SET maxmemory-clients 0"), "OK");
    assert_eq!(render(&owner.call(&["SET", &long, &"v".repeat(1 << 20)])), "OK");
    assert_eq!(ask_by(&mut owner, "CLIENT PAUSE 60000 WRITE"), "OK");
    let mut client = nodes[0].client();
    let mut requests: Vec<u8> = (0..20).flat_map(|_| encode(&["GET", &long])).collect();
    requests.extend(encode(&["INCR", &held]));
    client.send_raw(&requests);
    let mut observer = nodes[0].client();
    eventually("the client goes", || observer.figure("evicted_clients") == 1);
    assert_eq!(ask_by(&mut owner, "CLIENT UNPAUSE"), "OK");
    assert_eq!(ask_by(&mut observer, &format!("STRLEN {long}")), "(integer) 1048576");
}
