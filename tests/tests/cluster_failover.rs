//! Primaries that die, and replicas that take their place, in clusters of Apus and real servers.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use proto::value::Value;
use tests::cluster::{Program, ask, await_whole, create, follow, id, meet, state};
use tests::server::eventually;
use tests::{Oracle, Server};

const APUS: Program = Program::Apus;
const REDIS70: Program = Program::Stock(Oracle::Redis70);
const REDIS82: Program = Program::Stock(Oracle::Redis82);
const VALKEY91: Program = Program::Stock(Oracle::Valkey91);

/// Three primaries, and a replica of the first.
struct Shards {
    primaries: [Server; 3],
    replica: Server,
}

impl Shards {
    fn start(primaries: [Program; 3], replica: Program) -> Self {
        let (primaries, replica) = (primaries.map(|program| program.node(&[])), replica.node(&[]));
        create(&primaries.each_ref(), 0);
        meet(&primaries[0], &replica);
        let shards = Self { primaries, replica };
        await_whole(&shards.all(), 4);
        let line = format!("CLUSTER REPLICATE {}", id(&shards.primaries[0]));
        assert_eq!(ask(&shards.replica, &line), "OK");
        shards.await_replica();
        shards
    }

    fn all(&self) -> Vec<&Server> {
        self.primaries.iter().chain([&self.replica]).collect()
    }

    fn await_replica(&self) {
        eventually("the replica has the data, and all know it as a replica", || {
            let is_told = |node: &Server| {
                let line = format!("CLUSTER REPLICAS {}", id(&self.primaries[0]));
                ask(node, &line).contains(&id(&self.replica))
            };
            let mut client = self.replica.client();
            client.info("role") == "slave"
                && client.info("master_link_status") == "up"
                && self.all().into_iter().all(is_told)
        });
    }
}

/// A primary is killed; its replica is elected by the two that are left.
fn is_replaced(primaries: [Program; 3], replica: Program) {
    let mut shards = Shards::start(primaries, replica);
    let key = "foo";
    let reply = follow(&shards.all(), &shards.primaries[0], &["SET", key, "value"]);
    assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
    eventually("the write is at the replica", || {
        let mut client = shards.replica.client();
        let offset = |name: &str, client: &mut tests::Client| client.info(name);
        let below = offset("slave_repl_offset", &mut client);
        let above = offset("master_repl_offset", &mut shards.primaries[0].client());
        below == above
    });
    shards.primaries[0].kill();
    let survivors = [&shards.primaries[1], &shards.primaries[2], &shards.replica];
    eventually("the replica leads, and all slots are served", || {
        shards.replica.client().info("role") == "master"
            && survivors.iter().all(|node| {
                state(node, "cluster_state") == "ok" && state(node, "cluster_slots_ok") == "16384"
            })
    });
    for first in survivors {
        let got = follow(&survivors, first, &["GET", key]);
        assert_eq!(got.as_bytes(), Some(b"value".as_slice()));
    }
}

#[test]
fn a_replica_of_apus_takes_over_from_redis_by_votes_of_apus_and_redis() {
    is_replaced([REDIS82, APUS, REDIS82], APUS);
}

#[test]
fn a_replica_of_redis_takes_over_from_apus_by_votes_of_apus() {
    is_replaced([APUS, APUS, APUS], REDIS70);
}

#[test]
fn a_replica_of_apus_takes_over_from_redis70_by_votes_of_apus_and_redis70() {
    is_replaced([REDIS70, APUS, REDIS70], APUS);
}

#[test]
fn a_replica_of_apus_takes_over_from_valkey_by_votes_of_apus_and_valkey() {
    is_replaced([VALKEY91, APUS, VALKEY91], APUS);
}

#[test]
fn a_replica_of_valkey_takes_over_from_apus_by_votes_of_apus() {
    is_replaced([APUS, APUS, APUS], VALKEY91);
}

#[test]
fn a_replica_of_apus_takes_over_from_apus() {
    is_replaced([APUS, APUS, APUS], APUS);
}

fn hands_over(primaries: [Program; 3], replica: Program) {
    let shards = Shards::start(primaries, replica);
    // Of a slot of the first primary.
    let key = "bar";
    let reply = follow(&shards.all(), &shards.primaries[0], &["SET", key, "value"]);
    assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
    assert_eq!(ask(&shards.replica, "CLUSTER FAILOVER"), "OK");
    eventually("they have changed places", || {
        shards.replica.client().info("role") == "master"
            && shards.primaries[0].client().info("role") == "slave"
    });
    await_whole(&shards.all(), 4);
    // The one that leads no more sends clients on, and lets them read that say so.
    let mut client = shards.primaries[0].client();
    let moved = client.call(&["GET", key]);
    assert!(matches!(&moved, Value::Error(line) if line.starts_with(b"MOVED 5061 ")), "{moved:?}");
    client.call(&["READONLY"]);
    eventually("a replica shows what it has", || {
        client.call(&["GET", key]).as_bytes() == Some(b"value".as_slice())
    });
}

#[test]
fn a_primary_of_apus_hands_over_to_redis() {
    hands_over([APUS, APUS, APUS], REDIS82);
}

#[test]
fn a_primary_of_valkey_hands_over_to_apus() {
    hands_over([VALKEY91, APUS, APUS], APUS);
}

#[test]
fn a_primary_of_redis_hands_over_to_apus() {
    hands_over([REDIS70, APUS, APUS], APUS);
}
