//! Redis 6.2 as a peer: data that it can load, a stream in words that it knows, and a line in both
//! logs where there are none.

use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow};
use tests::server::eventually;
use tests::{Oracle, Server, check};

const REDIS62: NodeKind = NodeKind::Genuine(Oracle::Redis62);

/// What Redis 6.2 says of an error in the stream of its primary.
const MET_ERROR: &str = "sending an error to its master";

/// A primary of ours whose replicas may be Redis 6.2, and one that is.
fn pair() -> (Server, Server) {
    let primary = NodeKind::Apus.start(&["--rdb-write-version", "9"]);
    let replica = REDIS62.start(&[]);
    follow(&replica, primary.port());
    await_replica(&primary, &replica);
    (primary, replica)
}

fn ask(server: &Server, line: &str) -> String {
    let words = base::quote::split_arguments(line.as_bytes()).expect("its quotes are even");
    render(&server.client().call(&words))
}

/// Its introduction is that of Redis 7.0, byte for byte, so that an operator has to say it.
#[test]
fn a_replica_that_cannot_load_its_data_is_told_of_in_both_logs() {
    for to_disk in ["no", "yes"] {
        let mut primary = NodeKind::Apus.start(&["--repl-diskless-sync", to_disk]);
        let mut replica = REDIS62.start(&[]);
        check(&mut primary.client(), "> SET k v\nOK");
        follow(&replica, primary.port());
        primary.wait_for_log("they want rdb-write-version 9 here");
        replica.wait_for_log("Can't handle RDB format version 10");
        check(&mut primary.client(), "> CONFIG SET rdb-write-version 9\nOK");
        await_replica(&primary, &replica);
        assert_eq!(ask(&replica, "GET k"), "\"v\"");
    }
}

/// What later servers say with words of their own is said without them.
#[test]
fn the_stream_has_no_word_that_redis_62_does_not_know() {
    const LINES: &[&str] = &[
        "XADD x 1-1 f v",
        "XADD x 2-1 f v",
        "XADD x 3-1 f v",
        "XGROUP CREATE x g 0 ENTRIESREAD 0",
        "XGROUP CREATE made g $ MKSTREAM ENTRIESREAD 0",
        "XREADGROUP GROUP g c COUNT 2 STREAMS x >",
        "XGROUP SETID x g 2-1 ENTRIESREAD 2",
        "XACK x g 1-1",
        "XTRIM x MAXLEN 1 ACKED",
        "XSETID x 9-9 ENTRIESADDED 7 MAXDELETEDID 1-1",
        "SADD s a b c",
        "HSET h f v g w",
        "ZADD z 1 a 2 b",
        "RPUSH l a b c",
        "EXPIRE h 1000000 NX",
        "EXPIRE z 1000000 GT",
        "LMPOP 1 l LEFT",
        "ZMPOP 1 z MIN",
        "BITOP DIFF o s2 s3",
        "SINTERCARD 1 s",
    ];
    let (primary, replica) = pair();
    LINES.iter().for_each(|line| assert!(!ask(&primary, line).contains("(error)"), "{line}"));
    // Payloads of a version that Redis 6.2 does not load are packed anew.
    let mut client = primary.client();
    for key in ["s", "h", "z", "l", "x"] {
        let payload = client.call(&["DUMP", key]).as_bytes().expect("a payload").to_vec();
        let copy = format!("copy:{key}").into_bytes();
        let reply = client.call(&[&b"RESTORE"[..], &copy, b"0", &payload]);
        assert_eq!(render(&reply), "OK", "{key}");
    }
    let again = |line: &str| {
        await_replica(&primary, &replica);
        assert_eq!(ask(&primary, line), ask(&replica, line), "{line}");
    };
    let compare = || {
        for key in ["x", "copy:x", "made"] {
            again(&format!("XRANGE {key} - +"));
        }
        // The longer form has times, which pass.
        again("XPENDING x g");
        for line in ["SISMEMBER s b", "HGETALL h", "ZRANGE z 0 -1 WITHSCORES", "LRANGE l 0 -1"] {
            again(line);
            let (name, rest) = line.split_once(' ').expect("each has a key");
            again(&format!("{name} copy:{rest}"));
        }
    };
    compare();
    assert_eq!(primary.client().info("sync_full"), "1", "no link ended");
    // A group goes on at the replica where it stood.
    let groups = ask(&replica, "XINFO GROUPS x");
    assert!(groups.contains("\"last-delivered-id\"") && groups.contains("\"2-1\""), "{groups}");
    assert!(!replica.log().contains(MET_ERROR), "{}", replica.log());
    // Behind a full sync it is the same.
    check(&mut primary.client(), "> SET before all\nOK");
    let fresh = REDIS62.start(&[]);
    follow(&fresh, primary.port());
    await_replica(&primary, &fresh);
    for line in ["XRANGE x - +", "HGETALL copy:h", "GET before"] {
        assert_eq!(ask(&primary, line), ask(&fresh, line), "{line}");
    }
}

/// A primary of ours keeps for its own replicas what it does not tell others.
#[test]
fn one_of_ours_has_all_data_of_a_full_sync_beside_redis_62() {
    let (primary, _old) = pair();
    check(
        &mut primary.client(),
        "> XADD x 1-1 f v\n\"1-1\"\n> XADD x 2-1 f v\n\"2-1\"\n> XDEL x 1-1\n(integer) 1",
    );
    check(&mut primary.client(), "> HSETEX h EX 1000000 FIELDS 1 f v\n(integer) 1");
    let replica = NodeKind::Apus.start(&[]);
    follow(&replica, primary.port());
    await_replica(&primary, &replica);
    for line in ["XINFO STREAM x", "HGETALL h", "DEBUG DIGEST"] {
        assert_eq!(ask(&primary, line), ask(&replica, line), "{line}");
    }
}

#[test]
fn a_library_of_functions_ends_the_link_of_redis_62_with_a_line() {
    const LOAD: &str = "FUNCTION LOAD \"#!lua name=lib\\nredis.register_function('f', \
                        function() return 1 end)\"";
    let (mut primary, replica) = pair();
    assert_eq!(ask(&primary, LOAD), "\"lib\"");
    primary.wait_for_log(
        "cannot hold what was written, a function, what a stream counts, or a payload of Redis \
         7.0: its link is closed",
    );
    primary.wait_for_log("there are functions, and what rdb-write-version asks for has none");
    assert_eq!(ask(&primary, "SET k v"), "OK");
    assert_eq!(ask(&replica, "GET k"), "(nil)");
    assert_eq!(ask(&primary, "FUNCTION FLUSH"), "OK");
    eventually("it follows again", || ask(&replica, "GET k") == "\"v\"");
    await_replica(&primary, &replica);
    assert!(!replica.log().contains(MET_ERROR), "{}", replica.log());
}

/// Ours passes on what a newer primary says as it came: what Redis 6.2 does not know ends its link.
#[test]
fn a_chain_ends_before_a_word_that_redis_62_does_not_know() {
    let top = NodeKind::Genuine(Oracle::Redis70).start(&[]);
    let mut middle = NodeKind::Apus.start(&["--rdb-write-version", "9"]);
    let below = REDIS62.start(&[]);
    follow(&middle, top.port());
    await_replica(&top, &middle);
    follow(&below, middle.port());
    await_replica(&middle, &below);
    for line in [
        "XADD x 1-1 f v",
        "XGROUP CREATE x g 0",
        "XREADGROUP GROUP g c STREAMS x >",
        "XGROUP SETID x g 1-1 ENTRIESREAD 1",
    ] {
        assert!(!ask(&top, line).contains("(error)"), "{line}");
    }
    middle.wait_for_log("what a stream counts, or a payload of Redis 7.0: its link is closed");
    await_replica(&top, &middle);
    await_replica(&middle, &below);
    assert_eq!(ask(&below, "XPENDING x g - + 10").lines().count(), 4, "it has what was read");
    assert!(!below.log().contains(MET_ERROR), "{}", below.log());
}
