//! Wherever the link to a primary is cut, goes silent or loses one end, in the handshake, in a full
//! sync or in the stream, the replica comes back and has the same data; one that is slow or late
//! goes on.
//!
//! `APUS_REPLICATION_CUTS=all` cuts at every byte of a handshake, and at ten times as many others.

use std::time::Duration;

use base::random::Random;
use tests::proxy::{Direction, Fault, Proxy};
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow};
use tests::server::eventually;
use tests::{Oracle, Server};

use crate::append_only::{differences, state};
use crate::replication_primary::state_of;

/// No handshake of ours is longer than so many bytes.
const HANDSHAKE: usize = 370;

fn is_thorough() -> bool {
    std::env::var("APUS_REPLICATION_CUTS").is_ok_and(|value| value == "all")
}

/// One connection after the other has one of these faults, under writes; behind them all is well.
fn survives(primary: NodeKind, faults: &[Fault], arguments: &[&str]) {
    let arguments = [&["--repl-timeout", "3", "--repl-ping-replica-period", "1"], arguments];
    let primary = primary.start(&arguments.concat());
    let replica = NodeKind::Apus.start(&arguments.concat());
    let mut client = primary.client();
    tests::samples::fill(&mut client, false);
    let proxy = Proxy::start(primary.port());
    faults.iter().for_each(|fault| proxy.spoil_next(*fault));
    follow(&replica, proxy.port());
    let value = "v".repeat(500);
    let mut turn = 0;
    eventually("a connection is sound", || {
        turn += 1;
        client.call(&["SET", &format!("key:{}", turn % 50), &format!("{turn}{value}")]);
        client.call(&["RPUSH", "list", &turn.to_string()]);
        proxy.accepted() > faults.len()
    });
    await_replica(&primary, &replica);
    assert_same(&primary, &replica, faults);
}

fn assert_same(primary: &Server, replica: &Server, faults: &[Fault]) {
    let expected =
        if primary.is_oracle() { state_of(primary) } else { state(&mut primary.client()) };
    let found = state(&mut replica.client());
    assert!(expected == found, "{faults:?}: {}", differences(&expected, &found));
    if !primary.is_oracle() {
        let digest = |it: &Server| render(&it.client().call(&["DEBUG", "DIGEST"]));
        assert_eq!(digest(primary), digest(replica), "{faults:?}");
    }
}

/// As many replicas as there are slices, since each of them tries once in a second.
fn all_at_once(primary: NodeKind, faults: &[Fault], slice: usize) {
    std::thread::scope(|scope| {
        for faults in faults.chunks(slice) {
            scope.spawn(move || survives(primary, faults, &[]));
        }
    });
}

#[test]
fn a_handshake_may_be_cut_at_any_byte() {
    let step = if is_thorough() { 1 } else { 53 };
    let cuts = (0..HANDSHAKE).step_by(step).flat_map(|at| {
        [Direction::Up, Direction::Down].map(|direction| Fault::Cut(direction, at as u64))
    });
    let cuts: Vec<Fault> = cuts.collect();
    for cuts in cuts.chunks(32) {
        all_at_once(NodeKind::Apus, cuts, 8);
    }
}

#[test]
fn a_full_sync_and_the_stream_may_be_cut_anywhere() {
    let mut random = Random::from_entropy();
    let rounds = if is_thorough() { 50 } else { 5 };
    for primary in [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)] {
        let cuts = |_| Fault::Cut(Direction::Down, 150 + random.below(200_000));
        survives(primary, &(0..rounds).map(cuts).collect::<Vec<_>>(), &[]);
    }
}

#[test]
fn a_link_that_says_nothing_is_given_up() {
    let faults = [
        Fault::Silence(Direction::Down, 90),
        Fault::Silence(Direction::Down, 30_000),
        Fault::Silence(Direction::Up, 250),
    ];
    let alone = |fault: Fault| survives(NodeKind::Apus, &[fault], &[]);
    std::thread::scope(|scope| {
        faults.into_iter().for_each(|fault| _ = scope.spawn(move || alone(fault)));
    });
}

/// What a link has only one end of is given up by the other one, too.
#[test]
fn a_link_with_one_end_is_given_up() {
    let faults = [
        Fault::HalfOpen(Direction::Up, 30),
        Fault::HalfOpen(Direction::Down, 90),
        Fault::HalfOpen(Direction::Down, 30_000),
        Fault::HalfOpen(Direction::Up, 400),
    ];
    let alone = |fault: Fault| survives(NodeKind::Apus, &[fault], &[]);
    std::thread::scope(|scope| {
        faults.into_iter().for_each(|fault| _ = scope.spawn(move || alone(fault)));
    });
}

/// A replica of ours behind a link with a fault that ends nothing, while there are writes.
fn endure(primary: NodeKind, fault: Fault) {
    // The fault is of the connection that the data come on.
    let one = ["--repl-rdb-channel", "no"];
    let (primary, replica) = (primary.start(&[]), NodeKind::Apus.start(&one));
    let mut client = primary.client();
    tests::samples::fill(&mut client, false);
    let proxy = Proxy::start(primary.port());
    proxy.spoil_next(fault);
    follow(&replica, proxy.port());
    let value = "v".repeat(500);
    for turn in 0..200 {
        client.call(&["SET", &format!("key:{turn}"), &value]);
    }
    await_replica(&primary, &replica);
    for turn in 0..200 {
        client.call(&["RPUSH", "list", &turn.to_string()]);
    }
    await_replica(&primary, &replica);
    assert_same(&primary, &replica, &[fault]);
    assert_eq!(proxy.accepted(), 1, "{fault:?}");
    assert_eq!(primary.client().info("sync_full"), "1", "{fault:?}");
}

#[test]
fn a_link_that_is_slow_or_late_goes_on() {
    let late = Duration::from_millis(150);
    let faults = [
        Fault::Throttle(Direction::Down, 200_000),
        Fault::Throttle(Direction::Up, 200),
        Fault::Delay(Direction::Down, late),
        Fault::Delay(Direction::Up, late),
    ];
    for primary in [NodeKind::Apus, NodeKind::Genuine(Oracle::Valkey91)] {
        std::thread::scope(|scope| {
            for fault in faults {
                scope.spawn(move || endure(primary, fault));
            }
        });
    }
}

/// A replica whose requests come twice is one more replica to its primary, and nothing else.
#[test]
fn a_link_that_comes_twice_is_two() {
    // The twin of a link would wait for a second connection that nobody makes for it.
    let one = ["--repl-rdb-channel", "no"];
    let (primary, replica) = (NodeKind::Apus.start(&[]), NodeKind::Apus.start(&one));
    let mut client = primary.client();
    tests::samples::fill(&mut client, false);
    let proxy = Proxy::start(primary.port());
    (0..100).for_each(|_| proxy.spoil_next(Fault::Double));
    follow(&replica, proxy.port());
    let mut looks = 0;
    eventually("both are there", || {
        looks += 1;
        if looks % 100 == 0 {
            // The twin was not answered before its next request came, and was refused.
            replica.client().call(&["CLIENT", "KILL", "TYPE", "MASTER"]);
        }
        client.info("connected_slaves") == "2"
    });
    client.call(&["SET", "twice", "v"]);
    await_replica(&primary, &replica);
    assert_eq!(render(&client.call(&["WAIT", "2", "0"])), "(integer) 2");
    follow(&replica, primary.port());
    eventually("both ends of the other two are gone", || client.info("connected_slaves") == "1");
    client.call(&["SET", "once", "v"]);
    await_replica(&primary, &replica);
    assert_same(&primary, &replica, &[Fault::Double]);
}
