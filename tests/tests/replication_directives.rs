//! Directives of a replica, beside Redis 8.2: what it announces, how it loads, and whether it
//! evicts.

use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

const KINDS: [NodeKind; 2] = [NodeKind::Genuine(Oracle::Redis82), NodeKind::Apus];

/// A primary of ours with a key, and a replica with these arguments that has all of it.
fn replica(kind: NodeKind, arguments: &[&str]) -> [Server; 2] {
    let pair = [NodeKind::Apus.start(&[]), kind.start(arguments)];
    check(&mut pair[0].client(), "> SET k v\nOK");
    follow(&pair[1], pair[0].port());
    await_replica(&pair[0], &pair[1]);
    pair
}

#[test]
fn a_replica_is_known_by_what_it_announces() {
    let announced = ["--replica-announce-ip", "192.0.2.7", "--replica-announce-port", "7777"];
    for kind in KINDS {
        let [primary, _replica] = replica(kind, &announced);
        let mut client = primary.client();
        let told = client.info("slave0");
        assert!(told.starts_with("ip=192.0.2.7,port=7777,state=online,"), "{told}");
        let role = render(&client.call(&["ROLE"]));
        assert!(role.contains("1) \"192.0.2.7\"") && role.contains("2) \"7777\""), "{role}");
        let elsewhere = render(&client.call(&["FAILOVER", "TO", "127.0.0.1", "7777"]));
        assert_eq!(elsewhere, "(error) ERR FAILOVER target HOST and PORT is not a replica.");
    }
}

/// The log says where the data go: by way of a file, or straight to the loader.
#[test]
fn each_way_to_load_is_taken_where_it_is_asked_for() {
    let (disk, parser) = ("to disk", "to parser");
    for kind in KINDS {
        let ours: &[_] = &[("flush-before-load", true, parser), ("flushdb", true, parser)];
        let all = [
            ("disabled", false, disk),
            ("on-empty-db", false, parser),
            ("on-empty-db", true, disk),
            ("swapdb", true, parser),
        ];
        let ours = if kind == NodeKind::Apus { ours } else { &[] };
        for &(mode, has_data, place) in all.iter().chain(ours) {
            let primary = NodeKind::Apus.start(&[]);
            check(&mut primary.client(), "> SET k v\nOK");
            let replica = kind.start(&["--repl-diskless-load", mode]);
            if has_data {
                check(&mut replica.client(), "> SET old 1\nOK");
            }
            follow(&replica, primary.port());
            await_replica(&primary, &replica);
            check(&mut replica.client(), "> GET k\n\"v\"\n> DBSIZE\n(integer) 1");
            let log = replica.log();
            assert!(log.contains(&format!("with EOF {place}")), "{kind:?} {mode}:\n{log}");
        }
    }
}

/// With `replica-ignore-maxmemory` a replica keeps what its primary keeps; without it, it makes
/// room by itself.
#[test]
fn a_replica_evicts_only_where_it_heeds_its_own_limit() {
    const KEYS: i64 = 160;
    for (kind, ignores) in KINDS.into_iter().flat_map(|kind| [(kind, "yes"), (kind, "no")]) {
        let own = ["--replica-ignore-maxmemory", ignores, "--maxmemory-policy", "allkeys-lru"];
        let [primary, replica] = replica(kind, &own);
        let (mut client, mut below) = (primary.client(), replica.client());
        let limit = (below.figure("used_memory") + (6 << 20)).to_string();
        assert_eq!(render(&below.call(&["CONFIG", "SET", "maxmemory", &limit])), "OK");
        let value = "v".repeat(100_000);
        for number in 1..KEYS {
            client.call(&["SET", &format!("key:{number}"), &value]);
        }
        await_replica(&primary, &replica);
        let keys = |client: &mut Client| render(&client.call(&["DBSIZE"]));
        let all = format!("(integer) {KEYS}");
        assert_eq!(keys(&mut client), all);
        match ignores {
            "yes" => {
                assert_eq!(keys(&mut below), all, "{kind:?}");
                assert_eq!(below.figure("evicted_keys"), 0, "{kind:?}");
            }
            _ => eventually("room is made", || {
                below.figure("evicted_keys") > 0 && keys(&mut below) != all
            }),
        }
    }
}
