//! Orders of many moves, and moves that wait for a thread.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use proto::value::Value;
use tests::Server;
use tests::cluster::{ask, await_whole, id};
use tests::server::eventually;

use crate::cluster_slot_moves::slow;

/// The states of all moves of a node.
fn states(node: &Server) -> Vec<String> {
    let Value::Array(jobs) = node.client().call(&["CLUSTER", "GETSLOTMIGRATIONS"]) else {
        panic!("a list of moves")
    };
    let state = |job: &Value| {
        let Value::Array(pairs) = job else { panic!("a move") };
        let place = pairs.iter().position(|it| it.as_bytes() == Some(b"state")).unwrap();
        String::from_utf8_lossy(pairs[place + 1].as_bytes().unwrap()).into_owned()
    };
    jobs.iter().map(state).collect()
}

/// Only so many moves have a thread; those that wait for one end when they are told to.
#[test]
fn moves_beyond_the_threads_wait_and_can_be_cancelled() {
    let cluster = slow(&[]);
    let further: Vec<String> = (12_300..12_320)
        .map(|slot| format!(" SLOTSRANGE {slot} {slot} NODE {}", id(cluster.to())))
        .collect();
    let order = format!("CLUSTER MIGRATESLOTS{}", further.concat());
    assert_eq!(ask(cluster.from(), &order), "OK");
    eventually("those with a thread wait for their snapshot", || {
        let states = states(cluster.from());
        let in_state = |state: &str| states.iter().filter(|it| *it == state).count();
        in_state("waiting-to-snapshot") == 7 && in_state("connecting") == 13
    });
    assert_eq!(ask(cluster.from(), "CLUSTER CANCELSLOTMIGRATIONS"), "OK");
    eventually("all are cancelled", || states(cluster.from()).iter().all(|it| it == "cancelled"));
    assert_eq!(ask(cluster.from(), "CONFIG SET cluster-slot-move-rate 0"), "OK");
    await_whole(&cluster.all(), 3);
    eventually("the target takes them", || {
        ask(cluster.from(), &order) == "OK" && {
            eventually("all are over", || {
                let states = states(cluster.from());
                states.iter().all(|it| ["success", "failed", "cancelled"].contains(&it.as_str()))
            });
            states(cluster.from()).iter().take(20).all(|it| it == "success")
        }
    });
}
