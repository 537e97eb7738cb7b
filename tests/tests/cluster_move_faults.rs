//! Moves of hash slots that are disturbed: by changes of roles and of the data as a whole, by keys
//! whose time is over, and by sources that do not keep to the order of words.
//!
//! A source is also played by a client of the test, which says what no real one would.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use base::hash_slot::hash_slot;
use proto::value::Value;
use tests::client::encode;
use tests::cluster::{Program, ask, ask_by, await_whole, id, owners};
use tests::server::eventually;
use tests::shards::{Shards, move_states};
use tests::{Client, Server};

use crate::cluster_slot_moves::{Cluster, SLOT, fill, is_undone, newest, shown, slow};

const APUS: Program = Program::Apus;
const NAME: &str = "0123456789012345678901234567890123456789";

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

/// Asks the target to take slots.
fn establish(client: &mut Client, cluster: &Cluster, first: &str, last: &str) -> Value {
    let source = id(cluster.from());
    let words = ["CLUSTER", "SYNCSLOTS", "ESTABLISH", "SOURCE", &source, "NAME", NAME];
    client.call(&[&words[..], &["SLOTSRANGE", first, last]].concat())
}

/// A client that is the source of a move to the target.
fn plays_source(cluster: &Cluster, first: &str, last: &str) -> Client {
    let mut client = cluster.to().client();
    assert_eq!(establish(&mut client, cluster, first, last), ok());
    client
}

/// Says a word, and hears the target ask for this in turn.
fn say(client: &mut Client, word: &str, asked: &str) {
    client.send(&["CLUSTER", "SYNCSLOTS", word]);
    let Value::Array(words) = client.receive() else { panic!("words") };
    assert_eq!(words[2].as_bytes(), Some(asked.as_bytes()));
}

/// For how long the writers were held for the newest move of a node.
fn held(node: &Server) -> i64 {
    let Value::Array(jobs) = node.client().call(&["CLUSTER", "MIGRATION", "STATUS", "ALL"]) else {
        panic!("a list of moves")
    };
    let Some(Value::Array(pairs)) = jobs.first() else { panic!("a move") };
    let place = pairs.iter().position(|it| it.as_bytes() == Some(b"write_pause_ms")).unwrap();
    let Value::Integer(held) = pairs[place + 1] else { panic!("a number") };
    held
}

/// Moves the slot so slowly that a role changes twice meanwhile: both ends give up.
fn is_ended_by_a_change_of(primary: usize, replica: usize) {
    let shards = Shards::start(APUS, &[], SLOT);
    let (source, target) = (shards.of(0), shards.of(2));
    for number in 0..100 {
        let value = "x".repeat(1000);
        assert_eq!(ask(source, &format!("SET {{foo}}{number} {value}")), "OK");
    }
    assert_eq!(ask(source, "CONFIG SET cluster-slot-move-rate 2000"), "OK");
    let order = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {SLOT} {SLOT} NODE {}", id(target));
    assert_eq!(ask(source, &order), "OK");
    let count = format!("CLUSTER COUNTKEYSINSLOT {SLOT}");
    eventually("keys have come", || ask(target, &count) != "(integer) 0");
    shards.fail_over(primary, replica);
    shards.fail_over(replica, primary);
    assert_eq!(ask(source, "CONFIG SET cluster-slot-move-rate 0"), "OK");
    assert_eq!(Cluster::ending(source), "failed");
    assert_eq!(Cluster::ending(target), "failed");
    assert_eq!(held(source), 0);
    assert_eq!(ask(source, &count), "(integer) 100");
    eventually("the target has dropped what came", || ask(target, &count) == "(integer) 0");
    await_whole(&shards.nodes.iter().collect::<Vec<_>>(), 6);
    eventually("the next one succeeds", || {
        ask(source, &order) == "OK" && Cluster::ending(source) == "success"
    });
    assert_eq!(ask(target, &count), "(integer) 100");
}

#[test]
fn a_target_that_was_a_replica_meanwhile_takes_no_slots() {
    is_ended_by_a_change_of(2, 3);
}

#[test]
fn a_source_that_was_a_replica_meanwhile_gives_no_slots() {
    is_ended_by_a_change_of(0, 1);
}

/// What was loaded anew may be other data than the snapshot was of.
#[test]
fn data_that_are_loaded_anew_end_a_move() {
    let cluster = slow(&["--enable-debug-command", "yes"]);
    let before = shown(cluster.from());
    assert_eq!(ask(cluster.from(), "DEBUG RELOAD"), "OK");
    assert_eq!(Cluster::ending(cluster.from()), "failed");
    assert_eq!(newest(cluster.from(), "message"), "Data was flushed");
    is_undone(&cluster, &before);
}

/// Nothing is to be had for a pause of the writers any more.
#[test]
fn no_writer_is_held_for_a_target_that_was_flushed() {
    let cluster = slow(&[]);
    let before = shown(cluster.from());
    assert_eq!(ask(cluster.to(), "FLUSHDB"), "OK");
    assert_eq!(Cluster::ending(cluster.from()), "failed");
    assert_eq!(Cluster::ending(cluster.to()), "failed");
    assert_eq!(newest(cluster.to(), "message"), "Data was flushed");
    assert_eq!(held(cluster.from()), 0);
    is_undone(&cluster, &before);
}

/// The source alone says what goes. So a new deadline comes in time, however late that is.
#[test]
fn deadlines_that_are_renewed_in_a_move_count() {
    let cluster = Cluster::start([APUS, APUS, APUS], &[]);
    assert_eq!(ask(cluster.from(), "SET {foo} value"), "OK");
    let payload = cluster.from().client().call(&["DUMP", "{foo}"]);
    let mut source = plays_source(&cluster, "12182", "12182");
    let restore: [&[u8]; 6] =
        [b"RESTORE", b"{foo}over", b"1", payload.as_bytes().unwrap(), b"REPLACE", b"ABSTTL"];
    source.send(&restore);
    for line in [
        "SET {foo}soon value PX 20",
        "SET {foo}later value",
        "PEXPIREAT {foo}later 1",
        "SET {foo}stays value PX 20",
        "HSET {foo}hash field value other value",
        "HPEXPIREAT {foo}hash 1 FIELDS 1 field",
        "RPUSH {foo}list a",
        "PEXPIRE {foo}list 20",
    ] {
        source.send(&line.split(' ').collect::<Vec<_>>());
    }
    // A key of the target's own goes by the same sweeps.
    let own = (0..).map(|number| format!("own{number}"));
    let mut client = cluster.to().client();
    let mut set = |key: &String| client.call(&["SET", key, "x", "PX", "20"]);
    assert!(own.take(100_000).any(|key| set(&key) == ok()));
    eventually("a sweep", || cluster.to().client().figure("expired_keys") > 0);
    // A look at all keys removes none.
    (0..20).for_each(|_| drop(ask(cluster.to(), "RANDOMKEY")));
    for line in [
        "PERSIST {foo}over",
        "PEXPIRE {foo}soon 600000",
        "PERSIST {foo}later",
        "HPERSIST {foo}hash FIELDS 1 field",
        "RPUSH {foo}list b",
        "PERSIST {foo}list",
    ] {
        source.send(&line.split(' ').collect::<Vec<_>>());
    }
    say(&mut source, "SNAPSHOT-EOF", "REQUEST-PAUSE");
    say(&mut source, "PAUSED", "REQUEST-FAILOVER");
    source.send(&["CLUSTER", "SYNCSLOTS", "FAILOVER-GRANTED"]);
    assert_eq!(Cluster::ending(cluster.to()), "success");
    for (line, said) in [
        ("GET {foo}over", "\"value\""),
        ("GET {foo}soon", "\"value\""),
        ("GET {foo}later", "\"value\""),
        ("GET {foo}stays", "(nil)"),
        ("HGET {foo}hash field", "\"value\""),
        ("LRANGE {foo}list 0 -1", "1) \"a\"\n2) \"b\""),
    ] {
        assert_eq!(ask(cluster.to(), line), said, "{line}");
    }
    assert_ne!(ask(cluster.to(), "PTTL {foo}soon"), "(integer) -1");
    eventually("what is over goes behind the claim", || {
        ask(cluster.to(), &format!("CLUSTER COUNTKEYSINSLOT {SLOT}")) == "(integer) 5"
    });
}

/// Keys that are over go with those that are not.
#[test]
fn a_move_that_ended_leaves_no_key_that_is_over() {
    let cluster = Cluster::start([APUS, APUS, APUS], &[]);
    let mut source = plays_source(&cluster, "12182", "12182");
    source.send(&["SET", "{foo}1", "x"]);
    source.send(&["PEXPIREAT", "{foo}1", "1"]);
    let count = format!("CLUSTER COUNTKEYSINSLOT {SLOT}");
    eventually("the key has come", || ask(cluster.to(), &count) == "(integer) 1");
    drop(source);
    eventually("the key is gone", || ask(cluster.to(), &count) == "(integer) 0");
    plays_source(&cluster, "12182", "12182");
}

/// Each word is good in one state.
#[test]
fn words_of_a_source_out_of_order_end_a_move() {
    let cluster = Cluster::start([APUS, APUS, APUS], &[]);
    let moves: [&[&str]; 6] = [
        &["PAUSED"],
        &["FAILOVER-GRANTED"],
        &["SNAPSHOT-EOF", "SNAPSHOT-EOF"],
        &["SNAPSHOT-EOF", "FAILOVER-GRANTED"],
        &["SNAPSHOT-EOF", "PAUSED", "PAUSED"],
        &["SNAPSHOT-EOF", "PAUSED", "SNAPSHOT-EOF"],
    ];
    for words in moves {
        let mut source = plays_source(&cluster, "12182", "12182");
        let (last, before) = words.split_last().unwrap();
        for (word, asked) in before.iter().zip(["REQUEST-PAUSE", "REQUEST-FAILOVER"]) {
            say(&mut source, word, asked);
        }
        source.send(&["CLUSTER", "SYNCSLOTS", last]);
        // Closed with that.
        source.receive_to_close();
        assert_eq!(Cluster::ending(cluster.to()), "failed", "{words:?}");
        let message = newest(cluster.to(), "message");
        assert!(message.contains("Unexpected state machine transition"), "{words:?} {message}");
    }
    fill(&cluster);
    cluster.begin();
    assert_eq!(Cluster::ending(cluster.from()), "success");
}

/// What a command leaves out would be lost with the move, whatever ran the command.
#[test]
fn a_command_of_the_source_that_fails_ends_the_move() {
    let cluster = Cluster::start([APUS, APUS, APUS], &[]);
    let incr: &[&[&str]] = &[&["SET", "foo", "x"], &["INCR", "foo"]];
    let transaction: &[&[&str]] =
        &[&["MULTI"], &["SET", "foo", "x"], &["INCR", "foo"], &["SET", "{foo}1", "x"], &["EXEC"]];
    let cases = [(incr, "value is not an integer"), (transaction, "command of a transaction")];
    for (words, why) in cases {
        let mut source = plays_source(&cluster, "12182", "12182");
        words.iter().for_each(|words| source.send(words));
        source.receive_to_close();
        assert_eq!(Cluster::ending(cluster.to()), "failed", "{words:?}");
        let message = newest(cluster.to(), "message");
        assert!(message.contains(why), "{words:?} {message}");
        // What came is dropped before the slot may come again.
        let count = format!("CLUSTER COUNTKEYSINSLOT {SLOT}");
        eventually("the keys are dropped", || ask(cluster.to(), &count) == "(integer) 0");
    }
}

/// Orders that are refused as keys are left do not keep those from being dropped.
#[test]
fn refused_moves_leave_no_keys_for_good() {
    let cluster = Cluster::start([APUS, APUS, APUS], &[]);
    let (first, last, _) =
        *owners(cluster.from()).iter().find(|it| it.0 <= SLOT && SLOT <= it.1).unwrap();
    let bounds = [first.to_string(), last.to_string()];
    let mut source = plays_source(&cluster, &bounds[0], &bounds[1]);
    let keys = (0..60_000).map(|number| format!("key{number}"));
    let is_of_it = |key: &String| (first..=last).contains(&i64::from(hash_slot(key.as_bytes())));
    let keys: Vec<String> = keys.filter(is_of_it).collect();
    source.send_raw(&keys.iter().flat_map(|key| encode(&["SET", key, "x"])).collect::<Vec<u8>>());
    let count = Value::Integer(i64::try_from(keys.len()).unwrap());
    eventually("all have come", || cluster.to().client().call(&["DBSIZE"]) == count);
    drop(source);
    let mut again = cluster.to().client();
    eventually("the keys are dropped", || {
        (0..50).any(|_| establish(&mut again, &cluster, &bounds[0], &bounds[1]) == ok())
    });
}

/// Snapshots of moves are taken one after the other.
#[test]
fn moves_wait_for_each_other_and_leave_room_for_saves() {
    let cluster = Cluster::start([APUS, APUS, APUS], &[]);
    let (first, last, _) =
        *owners(cluster.from()).iter().find(|it| it.0 <= SLOT && SLOT <= it.1).unwrap();
    let tags = (0..).map(|number: u32| number.to_string());
    let tags = tags.map(|tag| (i64::from(hash_slot(tag.as_bytes())), tag));
    let tags: Vec<_> = tags.filter(|(slot, _)| (first..=last).contains(slot)).take(4).collect();
    let mut order = "CLUSTER MIGRATESLOTS".to_owned();
    for (slot, tag) in &tags {
        for number in 0..50 {
            let line = format!("SET {{{tag}}}{number} {}", "x".repeat(1000));
            assert_eq!(ask(cluster.from(), &line), "OK");
        }
        order += &format!(" SLOTSRANGE {slot} {slot} NODE {}", id(cluster.to()));
    }
    assert_eq!(ask(cluster.from(), "CONFIG SET cluster-slot-move-rate 5000"), "OK");
    assert_eq!(ask(cluster.from(), &order), "OK");
    eventually("one has its turn, and the others wait", || {
        let states = move_states(cluster.from());
        let waiting = states.iter().filter(|state| *state == "waiting-to-snapshot").count();
        waiting == 3 && states.iter().any(|state| state == "snapshotting")
    });
    assert_eq!(ask(cluster.from(), "BGSAVE"), "Background saving started");
    eventually("the save is over", || {
        cluster.from().client().info("rdb_bgsave_in_progress") == "0"
    });
    assert_eq!(cluster.from().client().info("rdb_last_bgsave_status"), "ok");
    assert_eq!(ask(cluster.from(), "CONFIG SET cluster-slot-move-rate 0"), "OK");
    eventually("all have gone", || move_states(cluster.from()) == ["success"; 4]);
}

/// A key that is lost at the target while it comes would come again, as no more than what the
/// source does to it next.
#[test]
fn keys_that_come_are_not_taken_away_at_the_target() {
    let cluster = slow(&[]);
    let before = shown(cluster.from());
    let (mut source, mut target) = (cluster.from().client(), cluster.to().client());
    // RM goes by patterns, and names no key.
    let (mut cursor, mut removed) = ("0".to_owned(), 0);
    loop {
        let line = format!("RM {cursor} MATCH {{foo}}* COUNT 1000");
        let Value::Array(parts) = target.call(&line.split(' ').collect::<Vec<_>>()) else {
            panic!("a cursor and a count")
        };
        cursor = String::from_utf8(parts[0].as_bytes().unwrap().to_vec()).unwrap();
        let Value::Integer(count) = parts[1] else { panic!("a count") };
        removed += count;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(removed, 0);
    assert_eq!(ask_by(&mut source, "CONFIG SET cluster-slot-move-rate 0"), "OK");
    assert_eq!(Cluster::ending(cluster.from()), "success");
    cluster.await_gone();
    assert_eq!(shown(cluster.to()), before);
}

/// Where the target has no room the move fails, and costs nothing.
#[test]
fn a_target_without_room_evicts_nothing_that_comes() {
    let cluster = Cluster::start([APUS, APUS, APUS], &[]);
    let (mut source, mut target) = (cluster.from().client(), cluster.to().client());
    let fields: Vec<String> =
        (0..50).map(|field| format!("f{field} {}", "v".repeat(400))).collect();
    for number in 0..400 {
        let line = format!("HSET {{foo}}{number} {}", fields.join(" "));
        assert_eq!(ask_by(&mut source, &line), "(integer) 50");
    }
    let room = target.figure("used_memory") + (3 << 20);
    for line in [
        "CONFIG SET maxmemory-policy allkeys-random".to_owned(),
        format!("CONFIG SET maxmemory {room}"),
    ] {
        assert_eq!(ask_by(&mut target, &line), "OK");
    }
    assert_eq!(ask_by(&mut source, "CONFIG SET cluster-slot-move-rate 4000000"), "OK");
    cluster.begin();
    let ending = Cluster::ending(cluster.from());
    assert_eq!(ending, "failed");
    for number in 0..400 {
        assert_eq!(ask_by(&mut source, &format!("HLEN {{foo}}{number}")), "(integer) 50");
    }
    let count = format!("CLUSTER COUNTKEYSINSLOT {SLOT}");
    eventually("the target has dropped what came", || ask_by(&mut target, &count) == "(integer) 0");
    assert_eq!(target.info("evicted_keys"), "0");
}
