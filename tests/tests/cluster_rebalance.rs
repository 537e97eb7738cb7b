//! CLUSTER REBALANCE: plans, and slots that move by them while clients write.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use base::hash_slot::hash_slot;
use proto::value::Value;
use tests::cluster::{Program, ask, ask_by, await_whole, create, follow, id, meet, owners};
use tests::server::eventually;
use tests::{Oracle, Server};

const APUS: Program = Program::Apus;

/// The first of three nodes has the slots below.
const OF_FIRST: u16 = 5461;

fn cluster(further: &[&str]) -> [Server; 3] {
    let nodes = [(); 3].map(|()| APUS.node(further));
    create(&nodes.each_ref(), 0);
    nodes
}

/// So many keys, all in slots of the first node.
fn keys_of_first(count: usize) -> Vec<String> {
    let keys = (0..).map(|number| format!("key:{number}"));
    keys.filter(|key| hash_slot(key.as_bytes()) < OF_FIRST).take(count).collect()
}

/// Has the first node keep all keys there are.
fn fill(nodes: &[Server], count: usize, value: &str) -> Vec<String> {
    let keys = keys_of_first(count);
    let mut client = nodes[0].client();
    for key in &keys {
        assert_eq!(client.call(&["SET", key, value]), Value::Simple(b"OK".to_vec()));
    }
    keys
}

fn rebalance(node: &Server, words: &str) -> Value {
    let line = format!("CLUSTER REBALANCE {words}");
    let words: Vec<&str> = line.split_whitespace().collect();
    let reply = node.client().call(&words);
    assert!(matches!(reply, Value::Array(_)), "{line}: {reply:?}");
    reply
}

fn field<'a>(pairs: &'a Value, name: &str) -> &'a Value {
    let Value::Array(pairs) = pairs else { panic!("pairs: {pairs:?}") };
    let mut pairs = pairs.chunks(2);
    let pair = pairs.find(|pair| pair[0].as_bytes() == Some(name.as_bytes()));
    &pair.unwrap_or_else(|| panic!("no {name}"))[1]
}

fn text(pairs: &Value, name: &str) -> String {
    String::from_utf8_lossy(field(pairs, name).as_bytes().unwrap()).into_owned()
}

fn list<'a>(pairs: &'a Value, name: &str) -> &'a [Value] {
    let Value::Array(rows) = field(pairs, name) else { panic!("{name} is a list") };
    rows
}

fn figure(pairs: &Value, name: &str) -> i64 {
    let Value::Integer(figure) = field(pairs, name) else { panic!("{name} is a number") };
    *figure
}

/// A figure of each node of a plan, by the node's name.
fn of_nodes(plan: &Value, name: &str) -> BTreeMap<String, i64> {
    list(plan, "nodes").iter().map(|row| (text(row, "node"), figure(row, name))).collect()
}

/// Waits until what was begun at a node is over; what is told of it then.
fn ending(node: &Server) -> Value {
    let mut told = Value::Null;
    eventually("the rebalance is over", || {
        told = rebalance(node, "STATUS");
        text(&told, "state") != "running"
    });
    told
}

fn dbsize(node: &Server) -> i64 {
    ask(node, "DBSIZE").trim_start_matches("(integer) ").parse().unwrap()
}

/// Waits until each node has a third of so many keys, within a tenth.
fn is_even(nodes: &[Server], count: i64) {
    eventually("each has its share", || {
        let sizes: Vec<i64> = nodes.iter().map(dbsize).collect();
        sizes.iter().all(|size| (size * 3 - count).abs() * 10 <= count)
    });
}

/// All keys can be read by a client that knows the cluster.
fn are_there(nodes: &[Server], keys: &[String], value: &str) {
    let all: Vec<&Server> = nodes.iter().collect();
    for key in keys {
        let got = follow(&all, &nodes[0], &["GET", key]);
        assert_eq!(got.as_bytes(), Some(value.as_bytes()), "{key}: {got:?}");
    }
}

#[test]
fn a_dry_run_plans_and_changes_nothing() {
    let nodes = cluster(&[]);
    let keys = fill(&nodes, 900, "x");
    let before = owners(&nodes[0]);
    for node in &nodes {
        let plan = rebalance(node, "DRYRUN");
        assert_eq!((text(&plan, "state"), text(&plan, "by")), ("planned".into(), "keys".into()));
        assert_eq!(of_nodes(&plan, "before")[&id(&nodes[0])], 900);
        for (_, after) in of_nodes(&plan, "after") {
            assert!((294..=306).contains(&after), "{plan:?}");
        }
        for step in list(&plan, "moves") {
            assert_eq!(text(step, "source"), id(&nodes[0]));
            assert_eq!(text(step, "state"), "planned");
        }
    }
    // The same figures make the same plan, whoever makes it.
    assert_eq!(rebalance(&nodes[1], "DRYRUN"), rebalance(&nodes[2], "DRYRUN"));
    let mut client = nodes[0].client3();
    assert!(matches!(client.call(&["CLUSTER", "REBALANCE", "DRYRUN"]), Value::Map(_)));
    assert_eq!(ask(&nodes[0], "CLUSTER REBALANCE STATUS"), "(nil)");
    assert_eq!(owners(&nodes[0]), before);
    are_there(&nodes, &keys, "x");
}

#[test]
fn a_replica_plans_as_its_primary_does() {
    let nodes = cluster(&[]);
    fill(&nodes, 300, "x");
    let replica = APUS.node(&[]);
    meet(&nodes[0], &replica);
    let all = [&nodes[0], &nodes[1], &nodes[2], &replica];
    await_whole(&all, 4);
    let (first, name) = (id(&nodes[0]), id(&replica));
    assert_eq!(ask(&replica, &format!("CLUSTER REPLICATE {first}")), "OK");
    eventually("all know the replica", || {
        all.iter().all(|node| ask(node, &format!("CLUSTER REPLICAS {first}")).contains(&name))
    });
    assert_eq!(rebalance(&replica, "DRYRUN"), rebalance(&nodes[0], "DRYRUN"));
    rebalance(&replica, "THRESHOLD 5");
    assert_eq!(text(&ending(&replica), "state"), "success");
    is_even(&nodes, 300);
    let refused = ask(&nodes[0], &format!("CLUSTER REBALANCE WEIGHT {name} 1"));
    assert_eq!(refused, format!("(error) ERR The node {name} is not a master"));
}

/// Has the clients stop, also where an assertion fails meanwhile: the scope waits for them.
struct StopsAtEnd<'a>(&'a AtomicBool);

impl Drop for StopsAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Raises keys while something is done: how often each was raised, by what was acknowledged.
fn with_writers(nodes: &[Server], keys: &[String], doing: impl FnOnce()) -> BTreeMap<String, i64> {
    let stop = AtomicBool::new(false);
    let all: Vec<&Server> = nodes.iter().collect();
    thread::scope(|scope| {
        let write = |writer: usize| {
            let mut raised = BTreeMap::new();
            for key in keys.iter().skip(writer).step_by(2).cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                match follow(&all, &nodes[writer], &["INCR", key]) {
                    Value::Integer(_) => *raised.entry(key.clone()).or_insert(0) += 1,
                    Value::Error(line) => assert!(!line.starts_with(b"ASK")),
                    other => panic!("{other:?}"),
                }
            }
            raised
        };
        let writers: Vec<_> = (0..2).map(|writer| scope.spawn(move || write(writer))).collect();
        {
            let _stops = StopsAtEnd(&stop);
            doing();
        }
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    })
}

#[test]
fn keys_are_shared_out_under_writers_and_nothing_is_lost() {
    let nodes = cluster(&[]);
    let keys = fill(&nodes, 1500, "0");
    let raised = with_writers(&nodes, &keys, || {
        let begun = rebalance(&nodes[2], "BY KEYS THRESHOLD 3");
        assert!(list(&begun, "moves").len() > 2, "{begun:?}");
        let told = ending(&nodes[2]);
        assert_eq!(text(&told, "state"), "success", "{told:?}");
        assert!(list(&told, "moves").iter().all(|step| text(step, "state") == "success"));
    });
    assert!(!raised.is_empty());
    is_even(&nodes, 1500);
    let all: Vec<&Server> = nodes.iter().collect();
    await_whole(&all, 3);
    for key in &keys {
        let got = follow(&all, &nodes[0], &["GET", key]);
        let count = raised.get(key).copied().unwrap_or(0).to_string();
        assert_eq!(got.as_bytes(), Some(count.as_bytes()), "{key}");
    }
    // All are near to their shares now, so nothing is left to do.
    let again = rebalance(&nodes[0], "BY KEYS THRESHOLD 5 DRYRUN");
    assert_eq!(list(&again, "moves"), []);
}

#[test]
fn slots_go_from_a_node_without_weight_no_more_than_may() {
    let nodes = cluster(&[]);
    fill(&nodes, 300, "x");
    let leaving = id(&nodes[1]);
    let plan = rebalance(&nodes[0], &format!("BY SLOTS WEIGHT {leaving} 0 DRYRUN"));
    assert_eq!(of_nodes(&plan, "after")[&leaving], 0);
    rebalance(&nodes[0], &format!("BY SLOTS WEIGHT {leaving} 0 LIMIT 300"));
    assert_eq!(text(&ending(&nodes[0]), "state"), "success");
    eventually("the nodes agree", || {
        let ranges = owners(&nodes[2]).into_iter();
        let of_leaving = ranges.filter(|it| it.2 == i64::from(nodes[1].port()));
        of_leaving.map(|it| it.1 - it.0 + 1).sum::<i64>() == 5462 - 300
    });
}

/// A rebalance so slow that something can be done in its middle.
fn slow(nodes: &[Server]) -> Vec<String> {
    let value = "x".repeat(500);
    let keys = fill(nodes, 600, &value);
    assert_eq!(ask(&nodes[0], "CONFIG SET cluster-slot-move-rate 4000"), "OK");
    rebalance(&nodes[1], "BY KEYS");
    eventually("keys have come", || {
        ask(&nodes[0], "CLUSTER GETSLOTMIGRATIONS").contains("snapshotting")
    });
    keys
}

/// What was left undone is done by another order.
fn goes_on(nodes: &[Server], keys: &[String]) {
    let value = "x".repeat(500);
    assert_eq!(ask(&nodes[0], "CONFIG SET cluster-slot-move-rate 0"), "OK");
    are_there(nodes, keys, &value);
    eventually("what came in vain is dropped", || nodes.iter().map(dbsize).sum::<i64>() == 600);
    eventually("a rebalance may begin again", || {
        ask(&nodes[1], "CLUSTER REBALANCE BY KEYS THRESHOLD 5").contains("planned-imbalance")
    });
    assert_eq!(text(&ending(&nodes[1]), "state"), "success");
    is_even(nodes, 600);
    are_there(nodes, keys, &value);
}

#[test]
fn a_rebalance_that_is_cancelled_leaves_the_rest_where_it_was() {
    let nodes = cluster(&[]);
    let keys = slow(&nodes);
    let busy = "(error) ERR A rebalance is under way";
    assert_eq!(ask(&nodes[1], "CLUSTER REBALANCE"), busy);
    // Another node sees slots on the move.
    let refused = ask(&nodes[2], "CLUSTER REBALANCE");
    assert!(refused.ends_with(": slots are on the move"), "{refused}");
    assert_eq!(ask(&nodes[1], "CLUSTER REBALANCE CANCEL"), "OK");
    let told = ending(&nodes[1]);
    assert_eq!(text(&told, "state"), "cancelled", "{told:?}");
    let none = "(error) ERR No rebalance is under way";
    assert_eq!(ask(&nodes[1], "CLUSTER REBALANCE CANCEL"), none);
    goes_on(&nodes, &keys);
}

#[test]
fn a_node_that_dies_costs_its_moves_and_no_key() {
    let mut nodes = cluster(&["--appendonly", "yes", "--appendfsync", "always"]);
    let keys = slow(&nodes);
    let dead = nodes[2].port();
    let dead_id = id(&nodes[2]);
    nodes[2].kill();
    assert_eq!(ask(&nodes[0], "CONFIG SET cluster-slot-move-rate 0"), "OK");
    let told = ending(&nodes[1]);
    assert_eq!(text(&told, "state"), "failed", "{told:?}");
    for step in list(&told, "moves") {
        let (state, message) = (text(step, "state"), text(step, "message"));
        match text(step, "target") == dead_id {
            true => assert!(state == "success" || (state == "failed" && !message.is_empty())),
            false => assert_eq!(state, "success", "{message}"),
        }
    }
    nodes[2].restart();
    assert_eq!(nodes[2].port(), dead);
    await_whole(&nodes.each_ref(), 3);
    goes_on(&nodes, &keys);
}

#[test]
fn memory_is_shared_out_by_what_keys_take() {
    let nodes = cluster(&[]);
    let big = "x".repeat(20_000);
    let keys = fill(&nodes, 60, &big);
    let mut client = nodes[2].client();
    let small = (0..).map(|number| format!("small:{number}"));
    for key in small.filter(|key| hash_slot(key.as_bytes()) > 10_922).take(300) {
        client.call(&["SET", &key, "1"]);
    }
    let by_keys = of_nodes(&rebalance(&nodes[1], "BY KEYS DRYRUN"), "before");
    assert_eq!((by_keys[&id(&nodes[0])], by_keys[&id(&nodes[2])]), (60, 300));
    let before = of_nodes(&rebalance(&nodes[1], "BY MEMORY DRYRUN"), "before");
    assert!(before[&id(&nodes[0])] > 60 * 20_000, "{before:?}");
    assert!(before[&id(&nodes[2])] < 300 * 1000, "{before:?}");
    rebalance(&nodes[1], "BY MEMORY THRESHOLD 10");
    let told = ending(&nodes[1]);
    assert_eq!(text(&told, "state"), "success", "{told:?}");
    let size = 60 * 20_000 / 3;
    eventually("each has its share", || {
        let now = of_nodes(&rebalance(&nodes[1], "BY MEMORY DRYRUN"), "before");
        now.values().all(|bytes| (size * 8 / 10..size * 13 / 10).contains(bytes))
    });
    are_there(&nodes, &keys, &big);
}

#[test]
fn hot_slots_are_spread_by_the_time_that_requests_take() {
    let nodes = cluster(&[]);
    let off = "CLUSTER REBALANCE BY LOAD DURATION 1 DRYRUN";
    let kept = "cluster-slot-stats-enabled is off";
    assert!(ask(&nodes[0], off).contains(kept));
    for node in &nodes {
        assert_eq!(ask(node, "CONFIG SET cluster-slot-stats-enabled yes"), "OK");
    }
    // Six slots of the first node are asked for much, and each of them for as much.
    let keys: Vec<String> = keys_of_first(6);
    let hot: Vec<u16> = keys.iter().map(|key| hash_slot(key.as_bytes())).collect();
    let stop = AtomicBool::new(false);
    let plans = thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = nodes[0].client();
            while !stop.load(Ordering::Relaxed) {
                for key in &keys {
                    let script = "for i = 1, 20000 do end return 1";
                    client.call(&["EVAL", script, "1", key]);
                }
            }
        });
        let _stops = StopsAtEnd(&stop);
        ["HOTSLOTS", "LOAD"]
            .map(|by| rebalance(&nodes[1], &format!("BY {by} DURATION 1 THRESHOLD 30 DRYRUN")))
    });
    for plan in plans {
        let before = of_nodes(&plan, "before");
        assert!(before[&id(&nodes[0])] > 0, "{plan:?}");
        let moves = list(&plan, "moves");
        assert!(!moves.is_empty(), "{plan:?}");
        for step in moves {
            assert_eq!(text(step, "source"), id(&nodes[0]));
            for range in text(step, "slot-ranges").split(' ') {
                let slot: u16 = range.split('-').next().unwrap().parse().unwrap();
                assert!(hot.contains(&slot), "{plan:?}");
            }
        }
    }
}

/// One node looks, the others leave that to it; no more slots move than may.
#[test]
fn slots_are_shared_out_without_an_order() {
    let nodes = cluster(&["--cluster-auto-rebalance-interval", "1"]);
    let keys = fill(&nodes, 300, "x");
    for node in &nodes {
        assert_eq!(ask(node, "CONFIG SET cluster-auto-rebalance-limit 20"), "OK");
        assert_eq!(ask(node, "CONFIG SET cluster-auto-rebalance keys"), "OK");
    }
    let first = nodes.iter().min_by_key(|node| id(node)).unwrap();
    eventually("a look has had slots moved", || {
        ask(first, "CLUSTER REBALANCE STATUS").contains("success") && dbsize(&nodes[0]) < 300
    });
    let moved = |plan: &Value| {
        let ranges = list(plan, "moves").iter().map(|step| text(step, "slot-ranges"));
        let of_ranges = |ranges: String| {
            let bounds = ranges.split(' ').map(|range| range.split_once('-').unwrap());
            let count = |(first, last): (&str, &str)| {
                last.parse::<i64>().unwrap() - first.parse::<i64>().unwrap() + 1
            };
            bounds.map(count).sum::<i64>()
        };
        ranges.map(of_ranges).sum::<i64>()
    };
    assert!(moved(&rebalance(first, "STATUS")) <= 20);
    for node in nodes.iter().filter(|node| id(node) != id(first)) {
        assert_eq!(ask(node, "CLUSTER REBALANCE STATUS"), "(nil)");
    }
    for node in &nodes {
        assert_eq!(ask(node, "CONFIG SET cluster-auto-rebalance-limit 1000"), "OK");
    }
    eventually("none is far from its share", || {
        let now = of_nodes(&rebalance(first, "STATUS"), "before");
        now.values().all(|keys| (80..=120).contains(keys))
    });
    for node in &nodes {
        assert_eq!(ask(node, "CONFIG SET cluster-auto-rebalance no"), "OK");
    }
    are_there(&nodes, &keys, "x");
}

/// Slots leave a node of Valkey by the words that both know.
#[test]
fn a_node_of_valkey_gives_slots_and_takes_some() {
    let valkey = Program::Stock(Oracle::Valkey91);
    let nodes = [valkey.node(&[]), APUS.node(&[]), valkey.node(&[])];
    create(&nodes.each_ref(), 0);
    let keys = fill(&nodes, 300, "x");
    rebalance(&nodes[1], "BY KEYS THRESHOLD 5");
    let told = ending(&nodes[1]);
    assert_eq!(text(&told, "state"), "success", "{told:?}");
    is_even(&nodes, 300);
    are_there(&nodes, &keys, "x");
}

/// All words, in both protocols.
#[test]
fn a_plan_is_told_as_a_map() {
    let node = APUS.node(&["--cluster-slot-stats-enabled", "yes"]);
    assert_eq!(ask(&node, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    await_whole(&[&node], 1);
    assert_eq!(ask(&node, "SET foo 1"), "OK");
    assert_eq!(list(&rebalance(&node, "BY SLOTS"), "moves"), []);
    let weight = format!("BY KEYS WEIGHT {} 3 LIMIT 5 THRESHOLD 7 DRYRUN", id(&node));
    let lines = [
        "BY SLOTS DRYRUN",
        "BY MEMORY DRYRUN",
        "BY LOAD DURATION 1 DRYRUN",
        "BY HOTSLOTS DURATION 1 DRYRUN",
        "STATUS",
        &weight,
    ];
    for line in lines {
        let words = format!("CLUSTER REBALANCE {line}");
        let words: Vec<&str> = words.split(' ').collect();
        let flat = rebalance(&node, line);
        let Value::Map(pairs) = node.client3().call(&words) else { panic!("{line}: a map") };
        let names: Vec<&[u8]> = pairs.iter().map(|(name, _)| name.as_bytes().unwrap()).collect();
        let Value::Array(flat) = flat else { panic!("{line}: pairs") };
        let of_flat: Vec<&[u8]> = flat.chunks(2).map(|pair| pair[0].as_bytes().unwrap()).collect();
        assert_eq!(names, of_flat, "{line}");
    }
    for mut client in [node.client(), node.client3()] {
        let Value::Array(slots) = client.call(&["CLUSTER", "REBALANCE", "SLOT-MEMORY"]) else {
            panic!("a list of slots")
        };
        let Value::Array(row) = &slots[0] else { panic!("{slots:?}") };
        assert_eq!((slots.len(), &row[0]), (1, &Value::Integer(12182)));
        let refused = ask_by(&mut client, "CLUSTER REBALANCE CANCEL");
        assert_eq!(refused, "(error) ERR No rebalance is under way");
    }
}

#[test]
fn what_is_asked_wrongly_is_refused() {
    let alone = Server::start(&[]);
    let disabled = "(error) ERR This instance has cluster support disabled";
    assert_eq!(ask(&alone, "CLUSTER REBALANCE"), disabled);
    let node = APUS.node(&[]);
    assert_eq!(ask(&node, "CLUSTER REBALANCE"), "(error) CLUSTERDOWN The cluster is down");
    assert_eq!(ask(&node, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    await_whole(&[&node], 1);
    let nowhere = "0123456789012345678901234567890123456789";
    let (unknown, negative) = (format!("WEIGHT {nowhere} 1"), format!("WEIGHT {nowhere} -1"));
    let (not_known, weightless) =
        (format!("ERR Unknown node {nowhere}"), format!("WEIGHT {} 0", id(&node)));
    let cases = [
        ("BY", "ERR syntax error"),
        ("BY CHANCE", "ERR syntax error"),
        ("DRY", "ERR syntax error"),
        ("THRESHOLD", "ERR syntax error"),
        ("THRESHOLD x", "ERR value is not an integer or out of range"),
        ("THRESHOLD 101", "ERR THRESHOLD must be between 0 and 100"),
        ("LIMIT 0", "ERR LIMIT must be between 1 and 16384"),
        ("DURATION 301", "ERR DURATION must be between 1 and 300"),
        ("WEIGHT", "ERR syntax error"),
        ("WEIGHT abc 1", "ERR Unknown node abc"),
        (unknown.as_str(), not_known.as_str()),
        (negative.as_str(), "ERR WEIGHT must be between 0 and 1000"),
        (weightless.as_str(), "ERR No node may have slots by these weights"),
        ("CANCEL", "ERR No rebalance is under way"),
        ("STATUS ALL", "ERR wrong number of arguments for 'cluster|rebalance' command"),
    ];
    let mut client = node.client();
    for (words, error) in cases {
        let said = ask_by(&mut client, &format!("CLUSTER REBALANCE {words}"));
        assert_eq!(said, format!("(error) {error}"), "{words}");
    }
    // One node alone has all there is.
    assert_eq!(text(&rebalance(&node, "DRYRUN"), "state"), "planned");
    assert_eq!(list(&rebalance(&node, "BY SLOTS"), "moves"), []);
    assert_eq!(text(&ending(&node), "state"), "success");
}
