//! Hash slots that move at once, between nodes of Apus and to and from Valkey.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proto::value::Value;
use tests::cluster::{Program, address, ask, ask_by, await_whole, create, follow, id, owners};
use tests::server::eventually;
use tests::{Oracle, Server};

const APUS: Program = Program::Apus;
const VALKEY91: Program = Program::Stock(Oracle::Valkey91);

/// The slot of `foo`, and the range that moves.
pub(crate) const SLOT: i64 = 12182;
const RANGE: &str = "12000 12200";

/// What is durable outlives a kill.
const DURABLE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

pub(crate) struct Cluster {
    pub(crate) nodes: [Server; 3],
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Cluster {
    pub(crate) fn start(programs: [Program; 3], further: &[&str]) -> Self {
        let nodes = programs.map(|program| program.node(further));
        create(&nodes.each_ref(), 0);
        let owner = owners(&nodes[0]).into_iter().find(|it| it.0 <= SLOT && SLOT <= it.1).unwrap();
        let from = nodes.iter().position(|node| i64::from(node.port()) == owner.2).unwrap();
        Self { nodes, from, to: (from + 1) % 3 }
    }

    /// With the slots at a node of this program, and a node of that one to take them.
    fn between(source: Program, target: Program) -> Self {
        // The last of three has the slot.
        let cluster = Self::start([target, APUS, source], &[]);
        assert_eq!(cluster.from, 2);
        Self { to: 0, ..cluster }
    }

    pub(crate) fn from(&self) -> &Server {
        &self.nodes[self.from]
    }

    pub(crate) fn to(&self) -> &Server {
        &self.nodes[self.to]
    }

    pub(crate) fn all(&self) -> Vec<&Server> {
        self.nodes.iter().collect()
    }

    pub(crate) fn begin(&self) {
        let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {RANGE} NODE {}", id(self.to()));
        assert_eq!(ask(self.from(), &line), "OK");
    }

    /// Waits until the newest move of a node is over; how it ended.
    pub(crate) fn ending(node: &Server) -> String {
        let mut said = String::new();
        eventually("the move is over", || {
            said = newest(node, "state");
            ["success", "failed", "cancelled"].contains(&said.as_str())
        });
        said
    }

    pub(crate) fn await_gone(&self) {
        let moved = format!("(error) MOVED {SLOT} {}", address(self.to()));
        eventually("the source sends clients on", || ask(self.from(), "GET foo") == moved);
    }
}

/// A field of the newest move that a node tells of.
pub(crate) fn newest(node: &Server, field: &str) -> String {
    let Value::Array(jobs) = node.client().call(&["CLUSTER", "GETSLOTMIGRATIONS"]) else {
        panic!("a list of moves")
    };
    let Some(Value::Array(pairs)) = jobs.first() else { return String::new() };
    let place = pairs.iter().position(|it| it.as_bytes() == Some(field.as_bytes())).unwrap();
    match &pairs[place + 1] {
        Value::Integer(number) => number.to_string(),
        other => String::from_utf8_lossy(other.as_bytes().unwrap()).into_owned(),
    }
}

/// Keys of slots that move, and of all types: each with a line that shows the value.
const KEYS: &[(&str, &str)] = &[
    ("SET {foo}string hello", "GET {foo}string"),
    ("SET {foo}number 17", "GET {foo}number"),
    ("RPUSH {foo}list a b c", "LRANGE {foo}list 0 -1"),
    ("SADD {foo}set 1 2 3", "SCARD {foo}set"),
    ("SADD {foo}words one", "SMEMBERS {foo}words"),
    ("HSET {foo}hash field value", "HGETALL {foo}hash"),
    ("ZADD {foo}zset 1 a 2 b", "ZRANGE {foo}zset 0 -1 WITHSCORES"),
    ("XADD {foo}stream 1-1 a b", "XRANGE {foo}stream - +"),
    ("SET {foo}short 1 PXAT 4102444800000", "PEXPIRETIME {foo}short"),
];

pub(crate) fn fill(cluster: &Cluster) {
    for (line, _) in KEYS {
        let said = ask(cluster.from(), line);
        assert!(!said.contains("error"), "{line} {said}");
    }
    for number in 0..500 {
        let line = format!("SET {{foo}}{number} {}", "x".repeat(100 + number));
        assert_eq!(ask(cluster.from(), &line), "OK");
    }
}

pub(crate) fn shown(node: &Server) -> Vec<String> {
    let mut client = node.client();
    let mut shown: Vec<String> = KEYS.iter().map(|(_, line)| ask_by(&mut client, line)).collect();
    shown.extend((0..500).map(|number| ask_by(&mut client, &format!("STRLEN {{foo}}{number}"))));
    shown
}

/// Has the writers stop, also where an assertion fails meanwhile: the scope waits for them.
struct StopsAtEnd<'a>(&'a AtomicBool);

impl Drop for StopsAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Counts what was acknowledged while something is done: of each key how often it was raised.
fn with_writers(cluster: &Cluster, doing: impl FnOnce()) -> BTreeMap<String, i64> {
    let stop = AtomicBool::new(false);
    let all = cluster.all();
    thread::scope(|scope| {
        let write = |writer: usize| {
            let mut acknowledged = BTreeMap::new();
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                let key = format!("{{foo}}counter:{writer}:{}", round % 7);
                match follow(&all, cluster.from(), &["INCR", &key]) {
                    Value::Integer(_) => *acknowledged.entry(key).or_insert(0) += 1,
                    Value::Error(line) => {
                        let line = String::from_utf8_lossy(&line).into_owned();
                        assert!(!line.starts_with("ASK"), "{line}");
                    }
                    other => panic!("{other:?}"),
                }
                round += 1;
            }
            acknowledged
        };
        let writers: Vec<_> = (0..3).map(|writer| scope.spawn(move || write(writer))).collect();
        {
            let _stops = StopsAtEnd(&stop);
            doing();
        }
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    })
}

fn check_counters(cluster: &Cluster, acknowledged: &BTreeMap<String, i64>) {
    let all = cluster.all();
    for (key, count) in acknowledged {
        let got = follow(&all, cluster.from(), &["GET", key]);
        let Some(bytes) = got.as_bytes() else { panic!("{key}, raised {count} times: {got:?}") };
        let got = String::from_utf8_lossy(bytes).parse::<i64>().unwrap();
        assert_eq!(got, *count, "{key}");
    }
}

/// Slots move under writes; what was acknowledged is there, and nothing else changed.
fn moves_whole(cluster: &Cluster) {
    fill(cluster);
    let before = shown(cluster.from());
    let acknowledged = with_writers(cluster, || {
        cluster.begin();
        assert_eq!(Cluster::ending(cluster.from()), "success");
        cluster.await_gone();
        // Some more at the new owner.
        thread::sleep(std::time::Duration::from_millis(200));
    });
    assert!(!acknowledged.is_empty());
    check_counters(cluster, &acknowledged);
    assert_eq!(shown(cluster.to()), before);
    eventually("the source has nothing of the slot", || {
        ask(cluster.from(), &format!("CLUSTER COUNTKEYSINSLOT {SLOT}")) == "(integer) 0"
    });
    await_whole(&cluster.all(), 3);
}

#[test]
fn slots_move_under_writes_between_nodes_of_apus() {
    let cluster = Cluster::start([APUS, APUS, APUS], &[]);
    moves_whole(&cluster);
    assert_eq!(newest(cluster.to(), "state"), "success");
    assert_eq!(newest(cluster.to(), "operation"), "IMPORT");
    assert_eq!(newest(cluster.from(), "slot_ranges"), "12000-12200");
}

#[test]
fn slots_move_from_apus_to_valkey() {
    moves_whole(&Cluster::between(APUS, VALKEY91));
}

#[test]
fn slots_move_from_valkey_to_apus() {
    moves_whole(&Cluster::between(VALKEY91, APUS));
}

#[test]
fn a_node_asks_for_slots_in_the_words_of_redis() {
    let cluster = Cluster::start([APUS, APUS, APUS], &[]);
    fill(&cluster);
    let before = shown(cluster.from());
    let said = ask(cluster.to(), &format!("CLUSTER MIGRATION IMPORT {RANGE}"));
    let task = said.trim_matches('"').to_owned();
    assert_eq!(task.len(), 40, "{said}");
    cluster.await_gone();
    assert_eq!(shown(cluster.to()), before);
    for node in [cluster.from(), cluster.to()] {
        eventually("the task is over", || {
            ask(node, &format!("CLUSTER MIGRATION STATUS ID {task}")).contains("completed")
        });
    }
    assert_eq!(ask(cluster.to(), "CLUSTER MIGRATION CANCEL ALL"), "(integer) 0");
    let again = ask(cluster.to(), &format!("CLUSTER MIGRATION IMPORT {RANGE}"));
    assert!(again.contains("this node is already the owner of the slot range"), "{again}");
}

/// A move so slow that something can be done in its middle.
pub(crate) fn slow(further: &[&str]) -> Cluster {
    let cluster = Cluster::start([APUS, APUS, APUS], further);
    fill(&cluster);
    assert_eq!(ask(cluster.from(), "CONFIG SET cluster-slot-move-rate 20000"), "OK");
    cluster.begin();
    eventually("keys have come", || {
        ask(cluster.to(), &format!("CLUSTER COUNTKEYSINSLOT {SLOT}")) != "(integer) 0"
    });
    cluster
}

/// The move has ended; the source serves all, the target has nothing, and the next one succeeds.
pub(crate) fn is_undone(cluster: &Cluster, before: &[String]) {
    assert_eq!(shown(cluster.from()), before);
    eventually("the target has dropped what came", || {
        ask(cluster.to(), &format!("CLUSTER COUNTKEYSINSLOT {SLOT}")) == "(integer) 0"
    });
    assert_eq!(ask(cluster.from(), "CONFIG SET cluster-slot-move-rate 0"), "OK");
    await_whole(&cluster.all(), 3);
    cluster.begin();
    assert_eq!(Cluster::ending(cluster.from()), "success");
    cluster.await_gone();
    assert_eq!(shown(cluster.to()), before);
}

#[test]
fn a_move_that_is_cancelled_leaves_all_where_it_was() {
    let cluster = slow(&[]);
    let before = shown(cluster.from());
    assert_eq!(ask(cluster.from(), "CLUSTER CANCELSLOTMIGRATIONS"), "OK");
    assert_eq!(Cluster::ending(cluster.from()), "cancelled");
    let none = "(error) ERR No migrations ongoing";
    assert_eq!(ask(cluster.from(), "CLUSTER CANCELSLOTMIGRATIONS"), none);
    is_undone(&cluster, &before);
}

#[test]
fn a_target_that_is_killed_costs_nothing() {
    let mut cluster = slow(DURABLE);
    let before = shown(cluster.from());
    let to = cluster.to;
    let acknowledged = with_writers_at_source(&cluster);
    cluster.nodes[to].kill();
    assert_eq!(Cluster::ending(cluster.from()), "failed");
    cluster.nodes[to].restart();
    check_counters(&cluster, &acknowledged);
    is_undone(&cluster, &before);
    check_counters(&cluster, &acknowledged);
}

#[test]
fn a_source_that_is_killed_costs_nothing() {
    let mut cluster = slow(DURABLE);
    let before = shown(cluster.from());
    let from = cluster.from;
    let acknowledged = with_writers_at_source(&cluster);
    cluster.nodes[from].kill();
    assert_eq!(Cluster::ending(cluster.to()), "failed");
    cluster.nodes[from].restart();
    await_whole(&cluster.all(), 3);
    check_counters(&cluster, &acknowledged);
    is_undone(&cluster, &before);
    check_counters(&cluster, &acknowledged);
}

/// Writes for a moment in the middle of a move.
fn with_writers_at_source(cluster: &Cluster) -> BTreeMap<String, i64> {
    with_writers(cluster, || thread::sleep(std::time::Duration::from_millis(200)))
}

/// Keys of a slot that moves whole are not moved one by one beside that.
#[test]
fn single_keys_do_not_move_beside_a_move() {
    let cluster = slow(&[]);
    let before = shown(cluster.from());
    let third =
        cluster.nodes.iter().find(|it| ![id(cluster.from()), id(cluster.to())].contains(&id(it)));
    let third = id(third.unwrap());
    let sides = [(cluster.from(), "export"), (cluster.to(), "import")];
    for (node, word) in sides {
        let refused = format!("(error) ERR Slot {word} in progress.");
        for action in ["STABLE".to_owned(), format!("MIGRATING {third}"), format!("NODE {third}")] {
            assert_eq!(ask(node, &format!("CLUSTER SETSLOT {SLOT} {action}")), refused, "{action}");
        }
    }
    assert_eq!(ask(cluster.from(), "CONFIG SET cluster-slot-move-rate 0"), "OK");
    assert_eq!(Cluster::ending(cluster.from()), "success");
    cluster.await_gone();
    assert_eq!(shown(cluster.to()), before);
    assert_eq!(ask(cluster.to(), &format!("CLUSTER SETSLOT {SLOT} STABLE")), "OK");
}

/// What has come is flushed with all else there, so the slots must not be claimed.
#[test]
fn a_flush_of_the_target_ends_a_move() {
    let cluster = slow(&[]);
    let before = shown(cluster.from());
    assert_eq!(ask(cluster.to(), "FLUSHALL"), "OK");
    assert_eq!(ask(cluster.from(), "CONFIG SET cluster-slot-move-rate 0"), "OK");
    assert_eq!(Cluster::ending(cluster.from()), "failed");
    is_undone(&cluster, &before);
}

#[test]
fn a_flush_ends_a_move() {
    let cluster = slow(&[]);
    assert_eq!(ask(cluster.from(), "FLUSHALL"), "OK");
    assert_eq!(Cluster::ending(cluster.from()), "failed");
    assert_eq!(newest(cluster.from(), "message"), "Data was flushed");
    eventually("the target has dropped what came", || {
        ask(cluster.to(), &format!("CLUSTER COUNTKEYSINSLOT {SLOT}")) == "(integer) 0"
    });
}

/// Orders that are refused, in the words of Valkey.
#[test]
fn moves_are_refused_as_by_valkey() {
    let cluster = Cluster::between(APUS, VALKEY91);
    let (ours, theirs) = (cluster.from(), cluster.to());
    let nowhere = "0123456789012345678901234567890123456789";
    let lines = [
        "CLUSTER MIGRATESLOTS".to_owned(),
        "CLUSTER MIGRATESLOTS SLOTSRANGE 1 2".to_owned(),
        format!("CLUSTER MIGRATESLOTS SLOTSRANGE 1 2 NODE {nowhere}"),
        "CLUSTER MIGRATESLOTS SLOTSRANGE 1 2 NODE abc".to_owned(),
        format!("CLUSTER MIGRATESLOTS SLOTSRANGE 5 1 NODE {nowhere}"),
        format!("CLUSTER MIGRATESLOTS SLOTSRANGE 1 2 3 NODE {nowhere}"),
        format!("CLUSTER MIGRATESLOTS SLOTSRANGE 1 99999 NODE {nowhere}"),
        "CLUSTER CANCELSLOTMIGRATIONS".to_owned(),
        "CLUSTER GETSLOTMIGRATIONS".to_owned(),
    ];
    for line in &lines {
        assert_eq!(ask(ours, line), ask(theirs, line), "{line}");
    }
    let to_itself = |node: &Server, slots: &str| {
        ask(node, &format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slots} NODE {}", id(node)))
    };
    // The first has the last slots of all, the second the first ones.
    assert_eq!(to_itself(ours, "12100 12101"), to_itself(theirs, "1 2"));
    assert_eq!(to_itself(ours, "1 2"), to_itself(theirs, "12100 12101"));
}
