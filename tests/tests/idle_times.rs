//! How long a key was not used: the idle time grows with the clock, whatever that does and however
//! long it takes, and is kept in snapshots.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use proto::value::Value;
use tests::server::eventually;
use tests::{Client, Server, check};

/// After so long the finest clock of `allkeys-apus` has gone round.
const ROUND_MS: i64 = 1 << 27;

fn start(policy: &str) -> Server {
    Server::start(&["--enable-debug-command", "local", "--maxmemory-policy", policy, "--save", ""])
}

fn idle(client: &mut Client, key: &str) -> i64 {
    let reply = client.call(&["OBJECT", "IDLETIME", key]);
    let Value::Integer(seconds) = reply else { panic!("{reply:?}") };
    seconds
}

fn about(found: i64, right: i64) -> bool {
    (right - 300..right + 900).contains(&found)
}

#[test]
fn a_key_that_was_idle_for_very_long_never_looks_new() {
    for policy in ["allkeys-apus", "allkeys-lru", "allkeys-lrm"] {
        let server = start(policy);
        let mut client = server.client();
        check(&mut client, "> SET old v\nOK\n");
        let mut right = 0;
        // A clock that jumps, and one that is followed.
        for jump in [ROUND_MS + 5000, 3_000_000, 30_000_000, ROUND_MS] {
            client.call(&["DEBUG", "JUMP-CLOCK", &jump.to_string()]);
            right += jump / 1000;
            check(&mut client, "> SET new v\nOK\n");
            eventually("the key is as old as it is", || about(idle(&mut client, "old"), right));
            assert!(idle(&mut client, "new") < 900, "{policy}");
        }
        client.call(&["DEBUG", "JUMP-CLOCK", "-3600000"]);
        assert!(idle(&mut client, "new") < 900, "{policy}: a clock that is set back");
    }
}

#[test]
fn an_idle_time_outlives_a_snapshot_and_a_transfer() {
    const IDLE_S: i64 = 500_000;
    let policies = ["allkeys-apus", "allkeys-lru", "volatile-lru", "allkeys-lrm", "volatile-lrm"];
    for policy in policies {
        let mut server = start(policy);
        let mut client = server.client();
        check(&mut client, "> SET key v\nOK\n");
        let Value::Bulk(dump) = client.call(&["DUMP", "key"]) else { panic!("it is there") };
        let idle_s = IDLE_S.to_string();
        client.call(&[b"RESTORE", &b"moved"[..], b"0", &dump, b"IDLETIME", idle_s.as_bytes()]);
        check(&mut client, "> SAVE\nOK\n");
        assert!(about(idle(&mut client, "moved"), IDLE_S), "{policy}");
        server.kill();
        server.restart();
        let mut client = server.client();
        let found = ["moved", "key"].map(|key| idle(&mut client, key));
        assert!(about(found[0], IDLE_S) && found[1] < 900, "{policy}: {found:?}");
    }
}
