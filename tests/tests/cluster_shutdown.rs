//! SHUTDOWN SAFE and FAILOVER in clusters of Apus and Valkey 9.1.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use rustix::process::Signal;
use tests::cluster::{Program, ask, await_whole, create, id, meet};
use tests::server::eventually;
use tests::{Oracle, Server};

const APUS: Program = Program::Apus;
const VALKEY91: Program = Program::Stock(Oracle::Valkey91);

/// So long no node is silent enough to fail, in milliseconds: a replica that leads was told to.
const NEVER: [&str; 2] = ["--cluster-node-timeout", "600000"];

const SUCCESSOR: &str = "Perform auto failover to replica";
const NOBODY: &str = "Unable to find a replica to perform the auto failover on shutdown.";
const VOTES: &str = "This is a voting primary. Shutting down may cause the cluster to go down.";

/// Three primaries, and a replica of the first that is in step.
fn shards(first: Program, replica: Program) -> ([Server; 3], Server) {
    let primaries = [first, APUS, VALKEY91].map(|program| program.node(&NEVER));
    let replica = replica.node(&NEVER);
    create(&primaries.each_ref(), 0);
    meet(&primaries[0], &replica);
    let all = [&primaries[0], &primaries[1], &primaries[2], &replica];
    await_whole(&all, 4);
    assert_eq!(ask(&replica, &format!("CLUSTER REPLICATE {}", id(&primaries[0]))), "OK");
    eventually("all know it as a replica in step", || {
        let line = format!("CLUSTER REPLICAS {}", id(&primaries[0]));
        replica.client().info("master_link_status") == "up"
            && all.iter().all(|node| ask(node, &line).contains(&id(&replica)))
    });
    // Of a slot of the first primary.
    assert_eq!(ask(&primaries[0], "SET bar value"), "OK");
    (primaries, replica)
}

fn leads(node: &Server) -> bool {
    node.client().info("role") == "master"
}

/// A primary that ends so has its replica lead, though no node is ever silent for too long.
fn hands_over(first: Program, replica: Program, end: impl FnOnce(&Server)) {
    let (mut primaries, replica) = shards(first, replica);
    end(&primaries[0]);
    eventually("it ends", || primaries[0].has_ended());
    primaries[0].expect_log(&format!("{SUCCESSOR} {} on shutdown.", id(&replica)));
    eventually("the replica leads", || leads(&replica));
    replica.expect_log("Forced failover primary request accepted");
    assert_eq!(ask(&replica, "GET bar"), "\"value\"");
}

fn send(words: &'static [&'static str]) -> impl FnOnce(&Server) {
    move |node| node.client().send(words)
}

#[test]
fn a_primary_that_ends_has_a_replica_of_apus_lead() {
    hands_over(APUS, APUS, send(&["SHUTDOWN", "FAILOVER"]));
}

#[test]
fn a_primary_of_apus_that_ends_has_a_replica_of_valkey_lead() {
    hands_over(APUS, VALKEY91, send(&["SHUTDOWN", "FAILOVER", "NOSAVE"]));
}

#[test]
fn a_primary_of_valkey_that_ends_has_a_replica_of_apus_lead() {
    hands_over(VALKEY91, APUS, send(&["SHUTDOWN", "FAILOVER", "NOSAVE"]));
}

#[test]
fn a_primary_that_saves_and_ends_has_a_replica_lead() {
    hands_over(APUS, APUS, send(&["SHUTDOWN", "SAVE", "FAILOVER", "SAFE", "FORCE"]));
}

#[test]
fn a_signal_hands_over_where_the_operator_wants_that() {
    hands_over(APUS, APUS, |node| {
        assert_eq!(ask(node, "CONFIG SET shutdown-on-sigterm failover"), "OK");
        node.signal(Signal::TERM);
    });
}

/// The words that both refuse, and what both log.
#[test]
fn a_primary_with_slots_stays_where_its_end_is_not_safe() {
    for program in [VALKEY91, APUS] {
        let (mut primaries, replica) = shards(program, APUS);
        let node = &primaries[0];
        let failed = "(error) ERR Errors trying to SHUTDOWN. Check logs.";
        for (line, answer) in [
            ("SHUTDOWN SAFE", failed),
            ("SHUTDOWN SAFE NOSAVE", failed),
            ("SHUTDOWN SAFE FAILOVER NOW", failed),
            ("SHUTDOWN SAFE ABORT", "(error) ERR syntax error"),
            ("SHUTDOWN FAILOVER ABORT", "(error) ERR syntax error"),
            ("SHUTDOWN ABORT", "(error) ERR No shutdown in progress."),
            ("CLUSTER FAILOVER FORCE REPLICAID x", "(error) ERR syntax error"),
            ("CONFIG SET shutdown-on-sigterm safe", "OK"),
        ] {
            assert_eq!(ask(node, line), answer, "{program:?}: {line}");
        }
        node.expect_log(&format!("{VOTES} Can't exit."));
        node.signal(Signal::TERM);
        eventually("the signal is refused, too", || node.log().matches("Can't exit.").count() == 4);
        assert_eq!(ask(node, "SET bar more"), "OK");
        assert!(!leads(&replica), "nobody was told to lead");
        node.client().send(&["SHUTDOWN", "SAFE", "FORCE"]);
        eventually("it ends", || primaries[0].has_ended());
        primaries[0].expect_log(&format!("{VOTES} Exit anyway."));
        // A replica does not vote, and has nobody to tell.
        let mut replica = replica;
        replica.client().send(&["SHUTDOWN", "SAFE", "FAILOVER"]);
        eventually("it ends", || replica.has_ended());
        assert!(!replica.log().contains(NOBODY));
    }
}

#[test]
fn a_primary_ends_where_no_replica_has_all() {
    for program in [VALKEY91, APUS] {
        let (mut primaries, replica) = shards(program, APUS);
        replica.signal(Signal::STOP);
        assert_eq!(ask(&primaries[0], "SET bar other"), "OK");
        primaries[0].client().send(&["SHUTDOWN", "FAILOVER", "NOW"]);
        eventually("it ends", || primaries[0].has_ended());
        primaries[0].expect_log(NOBODY);
        replica.signal(Signal::CONT);
        primaries[2].client().send(&["SHUTDOWN", "FAILOVER"]);
        eventually("the one without a replica ends", || primaries[2].has_ended());
        primaries[2].expect_log(NOBODY);
        assert!(!leads(&replica), "nobody was told to lead");
    }
}

#[test]
fn a_replica_says_which_node_it_is() {
    for program in [VALKEY91, APUS] {
        let (primaries, _) = shards(program, APUS);
        let (node, own) = (&primaries[0], id(&primaries[1]));
        let upper = own.to_uppercase();
        for (name, answer) in [
            ("x", "(error) ERR Unknown node x".to_owned()),
            (&*upper, format!("(error) ERR Unknown node {upper}")),
            (&own, "OK".to_owned()),
        ] {
            let line = format!("REPLCONF set-cluster-node-id {name}");
            assert_eq!(ask(node, &line), answer, "{program:?}");
        }
    }
}
