//! Slots that a node has lost with many keys, which it deletes in the background: whatever brings
//! such a slot back, those keys do not come with it.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::thread::sleep;
use std::time::Duration;

use base::hash_slot::hash_slot;
use proto::value::Value;
use rustix::process::Signal;
use tests::Server;
use tests::cluster::{Program, ask, ask_by, await_whole, id};
use tests::server::eventually;

use crate::cluster_slot_moves::{Cluster, SLOT, newest};

const APUS: Program = Program::Apus;

/// So many that it takes a while to delete them.
const KEYS: u32 = 100_000;

/// The source loses the slot, and is ordered to take it again until it does: then nothing is there.
fn is_empty_before(orders: impl Fn(&Cluster) -> Vec<String>) {
    let cluster = Cluster::start([APUS, APUS, APUS], &["--enable-debug-command", "yes"]);
    let source = cluster.from();
    assert_eq!(ask(source, &format!("DEBUG POPULATE {KEYS} {{foo}}")), "OK");
    assert_eq!(
        ask(source, &format!("CLUSTER COUNTKEYSINSLOT {SLOT}")),
        format!("(integer) {KEYS}")
    );
    cluster.begin();
    let orders = orders(&cluster);
    let mut client = source.client();
    let mut left = None;
    eventually("the orders are carried out", || {
        assert_eq!(ask_by(&mut client, "MULTI"), "OK");
        let look = format!("CLUSTER COUNTKEYSINSLOT {SLOT}");
        for line in orders.iter().chain([&look]) {
            assert_eq!(ask_by(&mut client, line), "QUEUED");
        }
        let Value::Array(said) = client.call(&["EXEC"]) else { panic!("a transaction") };
        if let Value::Error(refusal) = &said[orders.len() - 1] {
            let refusal = String::from_utf8_lossy(refusal);
            let known = ["export in progress", "keys of an earlier time", "already busy"];
            assert!(known.iter().any(|part| refusal.contains(part)), "{refusal}");
            return false;
        }
        left = said.last().cloned();
        true
    });
    assert_eq!(left, Some(Value::Integer(0)));
    assert_eq!(newest(source, "state"), "success");
}

fn set_slot(change: &str, node: &str) -> Vec<String> {
    vec![format!("CLUSTER SETSLOT {SLOT} {change} {node}")]
}

#[test]
fn a_lost_slot_is_empty_before_it_is_opened_again() {
    is_empty_before(|cluster| set_slot("IMPORTING", &id(cluster.to())));
}

#[test]
fn a_lost_slot_is_empty_before_it_is_assigned_again() {
    is_empty_before(|cluster| set_slot("NODE", &id(cluster.from())));
}

#[test]
fn a_lost_slot_is_empty_before_it_is_added_again() {
    is_empty_before(|_| {
        vec![format!("CLUSTER DELSLOTS {SLOT}"), format!("CLUSTER ADDSLOTS {SLOT}")]
    });
}

/// Ends a node the moment its `nodes.conf` says that another has the slots up to this one.
fn kill_behind_loss(node: &Server, owner: &str, last: u16) {
    let file = node.folder().join("nodes.conf");
    for _ in 0..300_000 {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(owner)).unwrap_or_default();
        // Ranges that lie side by side are one.
        if line.split(' ').any(|word| word.ends_with(&format!("-{last}"))) {
            return node.signal(Signal::KILL);
        }
        // The node needs the processor, too.
        sleep(Duration::from_micros(100));
    }
    panic!("the slots up to {last} never went to {owner}");
}

#[test]
fn a_kill_behind_the_loss_of_slots_leaves_no_copies() {
    let further = ["--appendonly", "yes", "--cluster-require-full-coverage", "no"];
    let mut cluster = Cluster::start([APUS; 3], &further);
    let target = id(cluster.to());
    for round in 0..6_u16 {
        let slots = 12_000 + 10 * round..=12_009 + 10 * round;
        let tag =
            (0..).find(|tag| slots.contains(&hash_slot(format!("{tag}").as_bytes()))).unwrap();
        let pairs =
            (0..2000).map(|key| ["SET".to_owned(), format!("{{{tag}}}{key}"), "v".to_owned()]);
        cluster.from().client().pipeline(&pairs.map(Vec::from).collect::<Vec<_>>());
        let (first, last) = (slots.start(), slots.end());
        let order = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {first} {last} NODE {target}");
        assert_eq!(ask(cluster.from(), &order), "OK");
        kill_behind_loss(cluster.from(), &target, *last);
        let from = cluster.from;
        cluster.nodes[from].kill();
        cluster.nodes[from].restart();
        await_whole(&cluster.all(), 3);
        let slot = hash_slot(format!("{tag}").as_bytes());
        eventually("the copies are deleted", || {
            ask(cluster.from(), &format!("CLUSTER COUNTKEYSINSLOT {slot}")) == "(integer) 0"
        });
        assert!(!ask(cluster.from(), "CLUSTER NODES").contains("-<-"), "no slot is open");
        assert_eq!(ask(cluster.to(), &format!("CLUSTER COUNTKEYSINSLOT {slot}")), "(integer) 2000");
    }
}

/// What nobody asked to delete is not deleted behind the answer of a pause.
#[test]
fn keys_of_a_lost_slot_stay_while_writes_are_paused() {
    let cluster = Cluster::start([APUS, APUS, APUS], &["--enable-debug-command", "yes"]);
    let (source, target) = (cluster.from(), cluster.to());
    assert_eq!(ask(source, &format!("DEBUG POPULATE {KEYS} {{foo}}")), "OK");
    let mut client = source.client();
    let orders = [
        (target, format!("IMPORTING {}", id(source))),
        (source, format!("MIGRATING {}", id(target))),
        (target, format!("NODE {}", id(target))),
    ];
    for (node, change) in orders {
        assert_eq!(ask(node, &format!("CLUSTER SETSLOT {SLOT} {change}")), "OK");
    }
    eventually("the slot is lost", || {
        ask_by(&mut client, "GET {foo}none").starts_with("(error) MOVED")
    });
    assert_eq!(ask_by(&mut client, "CLIENT PAUSE 600000 WRITE"), "OK");
    let mut state = || (ask_by(&mut client, "DBSIZE"), client.info("master_repl_offset"));
    let paused = state();
    sleep(Duration::from_millis(300));
    assert_eq!(state(), paused);
    assert_eq!(ask_by(&mut client, "CLIENT UNPAUSE"), "OK");
    eventually("the keys are deleted", || ask_by(&mut client, "DBSIZE") == "(integer) 0");
}
