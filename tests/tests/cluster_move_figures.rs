//! What INFO and CLUSTER INFO tell of moves of slots and of rebalances.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::cluster::{Program, ask, id, state};
use tests::server::eventually;
use tests::{Oracle, Server};

use crate::cluster_slot_moves::{Cluster, SLOT, fill, slow};

const APUS: Program = Program::Apus;

fn figure(node: &Server, field: &str) -> i64 {
    node.client().figure(field)
}

/// Waits until fields of a node have these values.
#[track_caller]
fn await_figures(node: &Server, expected: &[(&str, i64)]) {
    let told = || expected.iter().map(|(name, _)| figure(node, name)).collect::<Vec<_>>();
    eventually(&format!("{expected:?}"), || {
        told().iter().zip(expected).all(|(told, (_, expected))| told == expected)
    });
}

#[test]
fn moves_are_counted_at_both_ends() {
    let cluster = Cluster::start([APUS, APUS, APUS], &[]);
    let (from, to) = (cluster.from(), cluster.to());
    fill(&cluster);
    let keys = ask(from, &format!("CLUSTER COUNTKEYSINSLOT {SLOT}"));
    let keys: i64 = keys.trim_start_matches("(integer) ").parse().unwrap();
    cluster.begin();
    assert_eq!(Cluster::ending(from), "success");
    let none_else = [("failed", 0), ("cancelled", 0), ("active", 0), ("succeeded", 1)];
    for (node, way) in [(from, "exports"), (to, "imports")] {
        let fields = none_else.map(|(name, value)| (format!("slot_{way}_{name}"), value));
        let fields: Vec<(&str, i64)> = fields.iter().map(|it| (it.0.as_str(), it.1)).collect();
        await_figures(node, &fields);
        assert_eq!(figure(node, &format!("slot_{way}_keys")), keys);
        assert_eq!(state(node, "cluster_slot_migration_active_tasks"), "0");
        assert_eq!(figure(node, "slot_migration_fork_in_progress"), 0);
        assert_eq!(figure(node, "mem_cluster_slot_export"), 0);
    }
    assert_eq!(figure(from, "slot_imports_succeeded") + figure(to, "slot_exports_succeeded"), 0);
    let sent = figure(from, "total_net_cluster_slot_export_bytes");
    let received = figure(to, "total_net_cluster_slot_import_bytes");
    // Values of 100 to 600 bytes, some of which are packed.
    assert!(sent > 500 * 20, "{sent}");
    assert!(received > 0 && (sent - received).abs() < 1000, "{sent} {received}");
    eventually("the keys are deleted at the source", || {
        state(from, "cluster_slot_migration_stats_active_trim_completed") == "1"
    });
    assert_eq!(state(from, "cluster_slot_migration_stats_active_trim_started"), "1");
    assert_eq!(state(from, "cluster_slot_migration_active_trim_running"), "0");
    assert_eq!(ask(from, &format!("CLUSTER COUNTKEYSINSLOT {SLOT}")), "(integer) 0");
}

#[test]
fn what_is_under_way_is_told() {
    let cluster = slow(&[]);
    let (from, to) = (cluster.from(), cluster.to());
    await_figures(from, &[("slot_exports_active", 1), ("slot_migration_fork_in_progress", 1)]);
    await_figures(to, &[("slot_imports_active", 1)]);
    for node in [from, to] {
        assert_eq!(state(node, "cluster_slot_migration_active_tasks"), "1");
    }
    for number in 0..100 {
        let line = format!("SET {{foo}}further:{number} {}", "x".repeat(100));
        assert_eq!(ask(from, &line), "OK");
    }
    let kept = figure(from, "mem_cluster_slot_export");
    assert!(kept > 100 * 100, "{kept}");
    assert_eq!(ask(from, "CLUSTER CANCELSLOTMIGRATIONS"), "OK");
    await_figures(from, &[("slot_exports_cancelled", 1), ("slot_exports_active", 0)]);
    await_figures(to, &[("slot_imports_failed", 1), ("slot_imports_active", 0)]);
    await_figures(from, &[("mem_cluster_slot_export", 0), ("slot_exports_keys", 0)]);
}

#[test]
fn rebalances_are_counted_where_they_were_ordered() {
    let cluster = Cluster::start([APUS, APUS, APUS], &[]);
    let node = cluster.to();
    let line = format!("CLUSTER REBALANCE BY SLOTS WEIGHT {} 2", id(node));
    assert!(!ask(node, &line).contains("error"));
    await_figures(node, &[("rebalances_succeeded", 1), ("rebalance_in_progress", 0)]);
    await_figures(node, &[("rebalances_failed", 0), ("rebalances_cancelled", 0)]);
    assert_eq!(figure(node, "rebalance_moves_left"), 0);
    assert_eq!(figure(cluster.from(), "rebalances_succeeded"), 0);
    assert!(figure(node, "slot_imports_succeeded") > 0);
}

/// Whatever Valkey tells of moves is told here.
#[test]
fn fields_of_valkey_are_there() {
    let names = |node: &Server| {
        let reply = node.client().call(&["INFO", "everything"]);
        let text = String::from_utf8_lossy(reply.as_bytes().unwrap()).into_owned();
        let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned()));
        names.collect::<Vec<String>>()
    };
    let ours = names(&APUS.node(&[]));
    let theirs = names(&Program::Stock(Oracle::Valkey91).node(&[]));
    let of_moves = ["cluster_slot_", "slot_migration"];
    let theirs: Vec<_> =
        theirs.iter().filter(|name| of_moves.iter().any(|word| name.contains(word))).collect();
    assert!(theirs.len() >= 5, "{theirs:?}");
    for name in theirs {
        assert!(ours.contains(name), "{name}");
    }
}
