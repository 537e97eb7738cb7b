//! Keys of slots that other nodes serve: those that may be nowhere else stay whatever happens to
//! the nodes that have them, copies that a move of whole slots left go.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use proto::value::Value;
use tests::cluster::{Program, ask, ask_by, await_whole, create, id, owners};
use tests::server::eventually;
use tests::shards::{Shards, is_linked};
use tests::{Oracle, Server};

/// The slot of `foo`.
const SLOT: i64 = 12182;

const APUS: Program = Program::Apus;
const REDIS82: Program = Program::Stock(Oracle::Redis82);

const DURABLE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

/// So many keys there are, of which so many go over.
const KEYS: i64 = 20;
const GONE: i64 = 12;

/// So many keys of the slot there are at one of the places.
fn count_at(shards: &Shards, place: usize) -> i64 {
    count(shards.of(place))
}

fn await_replicated(shards: &Shards, place: usize, keys: i64) {
    eventually("the replica has the keys", || count_at(shards, place + 1) == keys);
}

fn count(node: &Server) -> i64 {
    match node.client().call(&["CLUSTER", "COUNTKEYSINSLOT", &SLOT.to_string()]) {
        Value::Integer(count) => count,
        other => panic!("{other:?}"),
    }
}

fn open(source: &Server, target: &Server) {
    for (node, line) in [
        (target, format!("CLUSTER SETSLOT {SLOT} IMPORTING {}", id(source))),
        (source, format!("CLUSTER SETSLOT {SLOT} MIGRATING {}", id(target))),
    ] {
        assert_eq!(ask(node, &line), "OK");
    }
}

/// Opens the slot, and moves some of its keys, as redis-cli does.
fn migrate(source: &Server, target: &Server) {
    open(source, target);
    let keys: Vec<String> = (0..GONE).map(|number| format!("{{foo}}{number}")).collect();
    let line = format!("MIGRATE 127.0.0.1 {} \"\" 0 5000 KEYS {}", target.port(), keys.join(" "));
    assert_eq!(ask(source, &line), "OK");
    assert_eq!(count(target), GONE);
}

fn migrate_some(source: &Server, target: &Server) {
    for number in 0..KEYS {
        assert_eq!(ask(source, &format!("SET {{foo}}{number} x")), "OK");
    }
    migrate(source, target);
    assert_eq!(count(source), KEYS - GONE);
}

/// All that a node does in the background is done, as far as one can tell from without.
fn settle(node: &Server) {
    let ticks = |client: &mut tests::Client| client.figure("uptime_in_seconds");
    let mut client = node.client();
    let before = ticks(&mut client);
    eventually("two seconds pass", || ticks(&mut client) >= before + 2);
}

fn keys_outlive_an_exchange_of(program: Program, place: usize) {
    let shards = Shards::start(program, &[], SLOT);
    migrate_some(shards.of(0), shards.of(2));
    await_replicated(&shards, 0, KEYS - GONE);
    await_replicated(&shards, 2, GONE);
    shards.fail_over(place, place + 1);
    settle(shards.of(place + 1));
    let counts = [0, 1, 2, 3].map(|place| count_at(&shards, place));
    assert_eq!(counts, [KEYS - GONE, KEYS - GONE, GONE, GONE]);
}

/// MIGRATE deletes a key where it came from, so what the target's replica has is all there is.
#[test]
fn keys_that_were_migrated_outlive_a_failover_of_the_target() {
    keys_outlive_an_exchange_of(APUS, 2);
}

#[test]
fn keys_that_were_not_migrated_yet_outlive_a_failover_of_the_source() {
    keys_outlive_an_exchange_of(APUS, 0);
}

#[test]
fn redis_keeps_keys_that_were_migrated_in_a_failover() {
    keys_outlive_an_exchange_of(REDIS82, 2);
}

#[test]
fn keys_that_were_migrated_outlive_the_target() {
    let mut shards = Shards::start(APUS, &[], SLOT);
    migrate_some(shards.of(0), shards.of(2));
    await_replicated(&shards, 2, GONE);
    shards.replace(2);
    let promoted = shards.of(3);
    promoted.expect_log("They stay, as they may be nowhere else.");
    settle(promoted);
    assert_eq!((count_at(&shards, 0), count_at(&shards, 3)), (KEYS - GONE, GONE));
    // The move goes on where it was.
    open(shards.of(0), promoted);
    let keys: Vec<String> = (GONE..KEYS).map(|number| format!("{{foo}}{number}")).collect();
    let port = promoted.port();
    let line = format!("MIGRATE 127.0.0.1 {port} \"\" 0 5000 KEYS {}", keys.join(" "));
    assert_eq!(ask(shards.of(0), &line), "OK");
    assert_eq!(ask(promoted, &format!("CLUSTER SETSLOT {SLOT} NODE {}", id(promoted))), "OK");
    assert_eq!(ask(promoted, "GET {foo}0"), "\"x\"");
    assert_eq!(count(promoted), KEYS);
}

fn trio(further: &[&str]) -> ([Server; 3], usize) {
    let nodes = [APUS, APUS, APUS].map(|program| program.node(further));
    create(&nodes.each_ref(), 0);
    let owner = owners(&nodes[0]).into_iter().find(|it| it.0 <= SLOT && SLOT <= it.1).unwrap();
    let from = nodes.iter().position(|node| i64::from(node.port()) == owner.2).unwrap();
    (nodes, from)
}

/// STABLE is the first step of many repairs.
#[test]
fn keys_of_a_slot_that_is_not_open_any_more_outlive_a_restart() {
    let (mut nodes, from) = trio(DURABLE);
    let to = (from + 1) % 3;
    migrate_some(&nodes[from], &nodes[to]);
    assert_eq!(ask(&nodes[to], &format!("CLUSTER SETSLOT {SLOT} STABLE")), "OK");
    nodes[to].kill();
    nodes[to].restart();
    await_whole(&nodes.each_ref(), 3);
    nodes[to].expect_log("Setting it to importing state.");
    settle(&nodes[to]);
    assert_eq!(count(&nodes[to]), GONE);
    let open = format!("[{SLOT}-<-{}]", id(&nodes[from]));
    assert!(ask(&nodes[to], "CLUSTER NODES").contains(&open));
    // So those that are sent on by ASK find what is there.
    let mut client = nodes[to].client();
    assert_eq!(ask_by(&mut client, "ASKING"), "OK");
    assert_eq!(ask_by(&mut client, "GET {foo}0"), "\"x\"");
}

#[test]
fn a_whole_move_that_is_refused_takes_no_keys_that_are_there() {
    let (nodes, from) = trio(&[]);
    let to = (from + 1) % 3;
    migrate_some(&nodes[from], &nodes[to]);
    for node in [&nodes[from], &nodes[to]] {
        assert_eq!(ask(node, &format!("CLUSTER SETSLOT {SLOT} STABLE")), "OK");
    }
    let order = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {SLOT} {SLOT} NODE {}", id(&nodes[to]));
    assert_eq!(ask(&nodes[from], &order), "OK");
    eventually("the move is refused", || {
        ask(&nodes[from], "CLUSTER GETSLOTMIGRATIONS").contains("keys of an earlier time")
    });
    settle(&nodes[to]);
    assert_eq!((count(&nodes[from]), count(&nodes[to])), (KEYS - GONE, GONE));
}

/// A move of whole slots that stands still at a few keys.
fn begin_slow(source: &Server, target: &Server) {
    for number in 0..200 {
        let line = format!("SET {{foo}}{number} {}", "x".repeat(1000));
        assert_eq!(ask(source, &line), "OK");
    }
    assert_eq!(ask(source, "CONFIG SET cluster-slot-move-rate 2000"), "OK");
    let order = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {SLOT} {SLOT} NODE {}", id(target));
    assert_eq!(ask(source, &order), "OK");
    eventually("keys have come", || count(target) > 0);
}

/// Copies go with the move that brought them, at whichever node they are.
#[test]
fn copies_of_a_move_go_where_a_replica_takes_over() {
    let mut shards = Shards::start(APUS, &[], SLOT);
    begin_slow(shards.of(0), shards.of(2));
    eventually("copies are at the replica", || count_at(&shards, 3) > 0);
    shards.replace(2);
    eventually("the copies are gone", || count_at(&shards, 3) == 0);
    assert_eq!(count_at(&shards, 0), 200);
}

/// A replica that came in the middle knows by the snapshot which keys are copies.
#[test]
fn copies_of_a_move_go_where_a_replica_takes_over_that_had_a_full_sync() {
    let mut shards = Shards::start(APUS, &[], SLOT);
    begin_slow(shards.of(0), shards.of(2));
    let replica = shards.places[3];
    shards.nodes[replica].kill();
    shards.nodes[replica].restart();
    eventually("copies are at the replica", || is_linked(shards.of(3)) && count_at(&shards, 3) > 0);
    shards.replace(2);
    eventually("the copies are gone", || count_at(&shards, 3) == 0);
    assert_eq!(count_at(&shards, 0), 200);
}

/// What is noted of copies ends when the slot is opened: what comes then is no copy.
#[test]
fn keys_that_are_migrated_behind_a_move_that_failed_are_none_of_its_copies() {
    let mut shards = Shards::start(APUS, DURABLE, SLOT);
    begin_slow(shards.of(0), shards.of(2));
    assert_eq!(ask(shards.of(0), "CLUSTER CANCELSLOTMIGRATIONS"), "OK");
    eventually("the copies are gone", || count_at(&shards, 2) == 0);
    eventually("single keys may be moved", || {
        let line = format!("CLUSTER SETSLOT {SLOT} MIGRATING {}", id(shards.of(2)));
        ask(shards.of(0), &line) == "OK"
    });
    migrate(shards.of(0), shards.of(2));
    await_replicated(&shards, 2, GONE);
    assert_eq!(ask(shards.of(2), &format!("CLUSTER SETSLOT {SLOT} STABLE")), "OK");
    let target = shards.places[2];
    shards.nodes[target].kill();
    let promoted = shards.of(3);
    eventually("the replica leads", || promoted.client().info("role") == "master");
    settle(promoted);
    assert_eq!(count_at(&shards, 3), GONE);
}

/// What a log says of copies counts when the node starts, and only for those slots.
#[test]
fn a_target_that_starts_again_drops_copies_and_keeps_other_keys() {
    let (mut nodes, from) = trio(DURABLE);
    let to = (from + 1) % 3;
    begin_slow(&nodes[from], &nodes[to]);
    // Keys of another slot of the source are migrated beside that: the slot of `{foo}` is 12182.
    let other = (0..).map(|number: u32| format!("other{number}"));
    let owners = owners(&nodes[0]);
    let (first, last, _) = *owners.iter().find(|it| it.0 <= SLOT && SLOT <= it.1).unwrap();
    let slot = |key: &String| i64::from(base::hash_slot::hash_slot(key.as_bytes()));
    let key = other.into_iter().find(|key| (first..=last).contains(&slot(key))).unwrap();
    let slot = slot(&key);
    assert_eq!(ask(&nodes[from], &format!("SET {key} x")), "OK");
    for (node, line) in [
        (to, format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(&nodes[from]))),
        (from, format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(&nodes[to]))),
        (from, format!("MIGRATE 127.0.0.1 {} {key} 0 5000", nodes[to].port())),
        (to, format!("CLUSTER SETSLOT {slot} STABLE")),
    ] {
        assert_eq!(ask(&nodes[node], &line), "OK", "{line}");
    }
    nodes[to].kill();
    nodes[to].restart();
    await_whole(&nodes.each_ref(), 3);
    eventually("the copies are gone", || count(&nodes[to]) == 0);
    let kept = format!("CLUSTER COUNTKEYSINSLOT {slot}");
    assert_eq!(ask(&nodes[to], &kept), "(integer) 1");
    assert_eq!(count(&nodes[from]), 200);
}
