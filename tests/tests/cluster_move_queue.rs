//! Orders of many moves, and moves that wait for a thread.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::cluster::{ask, await_whole, id};
use tests::server::eventually;
use tests::shards::move_states;

use crate::cluster_slot_moves::slow;

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
        let states = move_states(cluster.from());
        let in_state = |state: &str| states.iter().filter(|it| *it == state).count();
        in_state("waiting-to-snapshot") == 7 && in_state("connecting") == 13
    });
    assert_eq!(ask(cluster.from(), "CLUSTER CANCELSLOTMIGRATIONS"), "OK");
    eventually("all are cancelled", || {
        move_states(cluster.from()).iter().all(|it| it == "cancelled")
    });
    assert_eq!(ask(cluster.from(), "CONFIG SET cluster-slot-move-rate 0"), "OK");
    await_whole(&cluster.all(), 3);
    eventually("the target takes them", || {
        ask(cluster.from(), &order) == "OK" && {
            eventually("all are over", || {
                let states = move_states(cluster.from());
                states.iter().all(|it| ["success", "failed", "cancelled"].contains(&it.as_str()))
            });
            move_states(cluster.from()).iter().take(20).all(|it| it == "success")
        }
    });
}
