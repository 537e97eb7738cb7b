//! Whose data a replica of a cluster has: it takes a shard over with the data of that shard only,
//! and goes on with them where it stood when it starts again.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use base::hash_slot::hash_slot;
use tests::cluster::{Program, ask, await_whole, create, id, meet, owners};
use tests::server::eventually;
use tests::shards::is_linked;
use tests::{Oracle, Server};

const APUS: Program = Program::Apus;
const REDIS82: Program = Program::Stock(Oracle::Redis82);

/// So many keys the second shard has.
const KEYS: i64 = 100;

/// Keys of a node's slots.
fn keys_of(node: &Server, count: usize) -> Vec<String> {
    let (port, owners) = (i64::from(node.port()), owners(node));
    let is_its = |key: &String| {
        let slot = i64::from(hash_slot(key.as_bytes()));
        owners.iter().any(|it| it.2 == port && it.0 <= slot && slot <= it.1)
    };
    (0..).map(|number: u32| format!("key{number}")).filter(is_its).take(count).collect()
}

fn key_count(node: &Server) -> String {
    ask(node, "DBSIZE")
}

/// A replica follows a primary from now on, which knows of it.
fn replicate(replica: &Server, primary: &Server) {
    // While it loads a node does not tell its name.
    let (name, leader) = (id(replica), id(primary));
    assert_eq!(ask(replica, &format!("CLUSTER REPLICATE {leader}")), "OK");
    eventually("the primary knows its replica", || {
        ask(primary, &format!("CLUSTER REPLICAS {leader}")).contains(&name)
    });
}

/// The replica's offset is the greater one, and a number of another history.
#[test]
fn a_replica_from_another_shard_does_not_take_over_before_it_has_the_data() {
    let options = ["--repl-diskless-sync", "yes", "--cluster-manual-failover-timeout", "1500"];
    let primaries = [APUS, APUS, APUS].map(|program| program.node(&options));
    let replica = APUS.node(&options);
    create(&primaries.each_ref(), 0);
    meet(&primaries[0], &replica);
    await_whole(&[&primaries[0], &primaries[1], &primaries[2], &replica], 4);
    let [first, second, _] = &primaries;
    replicate(&replica, first);
    eventually("the replica is linked", || is_linked(&replica));
    let mut client = first.client();
    for _ in 0..10 {
        client.call(&["SET", &keys_of(first, 1)[0], &"x".repeat(200_000)]);
    }
    let mut client = second.client();
    keys_of(second, KEYS as usize).iter().for_each(|key| _ = client.call(&["SET", key, "value"]));
    let count = format!("(integer) {KEYS}");
    assert_eq!(key_count(second), count);
    eventually("the replica has all of the first", || {
        replica.client().figure("slave_repl_offset") > 2_000_000
    });
    // The data do not come before that is over.
    assert_eq!(ask(second, "CONFIG SET repl-diskless-sync-delay 3600"), "OK");
    replicate(&replica, second);
    let forced = ask(&replica, "CLUSTER FAILOVER FORCE");
    assert!(forced.contains("none of its master's data"), "{forced}");
    assert_eq!(ask(&replica, "CLUSTER FAILOVER"), "OK");
    eventually("that is given up", || replica.log().contains("Manual failover timed out."));
    assert_eq!(
        (replica.client().info("role").as_str(), key_count(second)),
        ("slave", count.clone())
    );
    assert_eq!(ask(second, "CONFIG SET repl-diskless-sync-delay 0"), "OK");
    eventually("the replica has the data", || is_linked(&replica) && key_count(&replica) == count);
    assert_eq!(key_count(second), count);
}

fn goes_on_behind_its_restart(program: Program) {
    let (primary, mut replica) = (program.node(&[]), program.node(&[]));
    assert_eq!(ask(&primary, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    meet(&primary, &replica);
    await_whole(&[&primary, &replica], 2);
    replicate(&replica, &primary);
    eventually("the replica is linked", || is_linked(&replica));
    assert_eq!(ask(&primary, "SET before 1"), "OK");
    eventually("the key is at the replica", || key_count(&replica) == "(integer) 1");
    replica.client().send(&["SHUTDOWN", "SAVE"]);
    eventually("the replica has ended", || replica.has_ended());
    let figures = |name: &str| primary.client().figure(name);
    let before = figures("sync_full");
    assert_eq!(ask(&primary, "SET behind 1"), "OK");
    replica.restart();
    eventually("the replica is linked again", || {
        is_linked(&replica) && key_count(&replica) == "(integer) 2"
    });
    assert_eq!((figures("sync_full"), figures("sync_partial_ok")), (before, 1), "{program:?}");
}

#[test]
fn a_replica_that_starts_again_from_its_snapshot_goes_on_where_that_stands() {
    goes_on_behind_its_restart(APUS);
}

#[test]
fn a_replica_of_redis_goes_on_where_its_snapshot_stands() {
    goes_on_behind_its_restart(REDIS82);
}
