//! Slots that a node has lost with many keys, which it deletes in the background: whatever brings
//! such a slot back, those keys do not come with it.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use proto::value::Value;
use tests::cluster::{Program, ask, ask_by, id};
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
