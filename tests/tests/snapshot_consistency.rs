//! Snapshots in the midst of writes are each the state at one instant, between the request and its
//! answer, as a real server finds them.
//!
//! `APUS_SNAPSHOTS=1000` takes so many.

use tests::snapshot_consistency::{History, Plan, Snapshot, State, check, look, run};
use tests::{Oracle, Server};

/// How many snapshots are taken.
const SNAPSHOTS: usize = 100;

/// How many of them while the same clients write.
const AT_ONCE: usize = 4;

const PLAN: Plan = Plan { writers: 4, snapshots: AT_ONCE, flushes: false, apart: 40 };

fn start() -> [Server; 2] {
    let ours = [
        "--worker-threads",
        "3",
        "--save",
        "",
        "--enable-debug-command",
        "yes",
        // Every key of a snapshot takes some time, so that much is written meanwhile.
        "--rdb-key-save-delay",
        "10",
    ];
    [Server::start(&ours), Oracle::Redis70.start(&["--enable-debug-command", "yes"])]
}

/// A run on a server that is emptied for it, and what is found in its snapshots.
fn observe([ours, theirs]: &[Server; 2], plan: &Plan) -> (History, Vec<State>) {
    ours.client().call(&["FLUSHALL"]);
    let history = run(ours, plan);
    let states = history.snapshots.iter().map(|snapshot| look(theirs, snapshot)).collect();
    (history, states)
}

#[test]
fn a_snapshot_in_the_midst_of_writes_is_of_one_instant() {
    let asked = std::env::var("APUS_SNAPSHOTS").ok();
    let asked = asked.map(|number| number.parse().expect("APUS_SNAPSHOTS is a number"));
    let servers = start();
    let mut steps = 0;
    for turn in 0..asked.unwrap_or(SNAPSHOTS).div_ceil(AT_ONCE) {
        let plan = Plan { flushes: turn % 2 == 1, ..PLAN };
        let (history, states) = observe(&servers, &plan);
        for (snapshot, state) in history.snapshots.iter().zip(&states) {
            if let Err(why) = check(&history, snapshot, state) {
                panic!("turn {turn}: {why}");
            }
        }
        steps += history.steps();
    }
    println!("{steps} steps");
}

/// A check that finds nothing proves nothing unless it finds what is there.
#[test]
fn what_is_of_two_instants_is_found() {
    let servers = start();
    let (history, states) = observe(&servers, &PLAN);
    let last = &history.snapshots[AT_ONCE - 1];
    assert_eq!(check(&history, last, &states[AT_ONCE - 1]), Ok(()));
    assert_found(&history, last, &states[0], "an earlier state");
    assert_found(&history, &history.snapshots[0], &states[AT_ONCE - 1], "a later state");
    for prefix in ["writer0:", "writer1:new", "count:", "account:", "swapper:"] {
        let mut mixed = states[AT_ONCE - 1].clone();
        mixed.retain(|(_, key), _| !key.starts_with(prefix));
        let early = states[0].iter().filter(|((_, key), _)| key.starts_with(prefix));
        mixed.extend(early.map(|(at, value)| (at.clone(), value.clone())));
        assert_found(&history, last, &mixed, prefix);
        assert_found(&history, &history.snapshots[0], &mixed, prefix);
    }
}

fn assert_found(history: &History, snapshot: &Snapshot, state: &State, what: &str) {
    assert!(check(history, snapshot, state).is_err(), "{what} is not found");
}
