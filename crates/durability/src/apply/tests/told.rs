//! What a replica applies is told to subscribers, listeners and statistics; what a replica's clock
//! says of keys that the primary has not removed.

use std::sync::atomic::Ordering;

use engine::clients::registry::{Peer, SubscriptionKind};
use engine::observe::pubsub::Subscriptions;
use engine::reclaim::local_expiry;
use engine::testing::read_messages;
use keyspace::Count;

use super::Rig;
use crate::testing::await_end;

#[test]
fn subscribers_hear_messages_and_events_in_the_order_of_the_stream() {
    let mut rig = Rig::new(2, 0);
    let server = rig.server;
    server.config.set_many(&[b"notify-keyspace-events", b"KEA"], true).unwrap();
    engine::keyspace_settings::store_settings(server);
    let client = server.clients.register(Peer::Unix, Peer::Unix, 0, 0);
    let mut subscriptions = Subscriptions::new(&server.pushes.pubsub, &server.mailboxes, &client);
    subscriptions.add(SubscriptionKind::Channel, b"news");
    subscriptions.add(SubscriptionKind::Channel, b"__keyspace@0__:a");
    rig.push(&["PUBLISH news 1", "SET a 1", "MULTI", "PUBLISH news 2", "DEL a", "EXEC"]);
    rig.push(&["PUBLISH news 3", "SPUBLISH news 4"]);
    rig.settle().unwrap();
    let told: Vec<String> = read_messages(&client);
    let words = ["news $1 1 ", ":a $3 set ", "news $1 2 ", ":a $3 del ", "news $1 3 "];
    assert_eq!(told.len(), words.len(), "{told:?}");
    for (line, end) in told.iter().zip(words) {
        assert!(line.ends_with(end), "{told:?}");
    }
}

#[test]
fn what_is_applied_counts() {
    let mut rig = Rig::new(2, 0);
    let server = rig.server;
    let changes = || server.keyspace.counters().total(Count::Changes);
    let before = changes();
    rig.push(&["SET a 1", "PING", "MULTI", "SET a 2", "RPUSH l 1 2 3", "EXEC"]);
    rig.settle().unwrap();
    // A command is accounted right before its offset is told, and the last count right behind it.
    await_end("a count", || server.threads.applier.commands.load(Ordering::Relaxed) == 4);
    assert_eq!(changes() - before, 5);
    let set = server.table.resolve(super::words("SET a b").as_args()).unwrap().id;
    assert_eq!(server.observed.stats.calls_of(set).unwrap().calls, 2);
}

#[test]
fn what_is_over_is_there_for_the_stream_and_not_for_clients() {
    let mut rig = Rig::new(2, 0);
    rig.push(&["SET a 1 PXAT 1000", "SADD s x", "PEXPIREAT s 1000", "HSET h f 1 g 2"]);
    rig.push(&["HPEXPIREAT h 1000 FIELDS 1 f"]);
    rig.settle().unwrap();
    assert_eq!(rig.ask(0, "GET a"), "$-1\r\n");
    assert_eq!(rig.ask(0, "EXISTS a s"), ":0\r\n");
    assert_eq!(rig.ask(0, "DBSIZE"), ":3\r\n");
    assert_eq!(rig.ask(0, "HGET h f"), "$-1\r\n");
    rig.push(&["INCR a", "SADD s y", "PERSIST a", "PERSIST s", "HINCRBY h f 1"]);
    rig.push(&["HPERSIST h FIELDS 1 f"]);
    rig.settle().unwrap();
    assert_eq!(rig.ask(0, "GET a"), "$1\r\n2\r\n");
    assert_eq!(rig.ask(0, "SCARD s"), ":2\r\n");
    assert_eq!(rig.ask(0, "HGET h f"), "$1\r\n2\r\n");
}

#[test]
fn a_deadline_that_a_client_of_a_replica_sets_is_kept_there() {
    let mut rig = Rig::new(2, 0);
    let server = rig.server;
    let local = server.keyspace.local_deadlines();
    rig.push(&["SET theirs 1 PXAT 1000", "SADD other x", "PEXPIREAT other 1000"]);
    rig.settle().unwrap();
    assert!(local.is_empty());
    for line in ["SET a 1 PX 1", "SET b 1", "PEXPIRE b 1", "SET c 1 EX 1000", "SET d 1 EX 1000"] {
        rig.ask(0, line);
    }
    rig.ask(3, "SETEX c 1000 1");
    rig.ask(0, "PERSIST d");
    assert_eq!(local.len(), 5);
    assert_eq!(rig.ask(0, "DBSIZE"), ":6\r\n");
    let before = server.keyspace.clock().now_ms();
    await_end("two milliseconds", || server.keyspace.clock().now_ms() > before + 2);
    await_end("a round", || {
        local_expiry::tick(server);
        local.len() == 2
    });
    assert_eq!(rig.ask(0, "DBSIZE"), ":4\r\n");
    assert_eq!(rig.ask(0, "EXISTS c d a b"), ":2\r\n");
    assert!(rig.journal.text().ends_with("1000\r\n"), "nobody is told");
}
