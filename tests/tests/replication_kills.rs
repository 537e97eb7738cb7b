//! What WAIT acknowledged is on the replica that is promoted when the primary is killed, readers of
//! a replica see transactions whole, and the old primary comes back with the same data.
//!
//! `APUS_REPLICATION_KILLS=100` asks for so many kills with and without a log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::random::Random;
use proto::value::Value;
use tests::Server;
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow, promote};

/// Kills in a run.
const KILLS: usize = 3;

#[test]
fn what_wait_acknowledged_outlives_the_primary() {
    let kills = std::env::var("APUS_REPLICATION_KILLS");
    let kills = kills.map_or(KILLS, |number| number.parse().expect("a number"));
    for log in ["no", "yes"] {
        let start = || NodeKind::Apus.start(&["--appendonly", log]);
        let (mut primary, mut replica) = (start(), start());
        let (mut random, mut total) = (Random::from_entropy(), 0);
        for _ in 0..kills {
            follow(&replica, primary.port());
            await_replica(&primary, &replica);
            let acknowledged = kill_under_writers(&mut primary, &replica, random.below(200));
            total += acknowledged.iter().sum::<i64>();
            promote(&replica);
            let mut client = replica.client();
            for (key, least) in acknowledged.iter().enumerate() {
                let found = render(&client.call(&["GET", &format!("key:{key}")]));
                let found: i64 = found.trim_matches('"').parse().unwrap_or(0);
                assert!(found >= *least, "appendonly {log}, key:{key}: {found} < {least}");
            }
            primary.restart();
            std::mem::swap(&mut primary, &mut replica);
        }
        assert!(total > 0, "nothing was acknowledged");
        follow(&replica, primary.port());
        await_replica(&primary, &replica);
        let digest = |it: &Server| render(&it.client().call(&["DEBUG", "DIGEST"]));
        assert_eq!(digest(&primary), digest(&replica), "appendonly {log}");
    }
}

/// What each writer was told that the replica has, when the primary is killed after a while.
fn kill_under_writers(primary: &mut Server, replica: &Server, after_ms: u64) -> Vec<i64> {
    let (port, is_over) = (primary.port(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let write = |writer: usize| write_until_the_end(port, writer);
        let writers: Vec<_> = (0..3).map(|it| scope.spawn(move || write(it))).collect();
        let reader = scope.spawn(|| {
            let mut client = replica.client();
            while !is_over.load(Ordering::Relaxed) {
                let Value::Array(pair) = client.call(&["MGET", "one", "other"]) else {
                    panic!("MGET replies a list")
                };
                assert_eq!(pair[0], pair[1], "a transaction was seen in part");
            }
        });
        std::thread::sleep(Duration::from_millis(50 + after_ms));
        primary.kill();
        is_over.store(true, Ordering::Relaxed);
        reader.join().expect("what it saw was whole");
        writers.into_iter().map(|it| it.join().expect("it ends with the primary")).collect()
    })
}

/// Increments a key, and two that are always equal, until the primary is gone; the newest value
/// that the replica has for certain.
fn write_until_the_end(port: u16, writer: usize) -> i64 {
    let key = format!("key:{writer}");
    let mut acknowledged = 0;
    let Ok(mut client) = tests::Client::try_connect(port) else { return 0 };
    let mut round = || -> Option<i64> {
        for words in [&["MULTI"][..], &["INCR", &key], &["INCR", "one"], &["INCR", "other"]] {
            client.try_call(words).ok()?;
        }
        let Value::Array(replies) = client.try_call(&["EXEC"]).ok()? else { return None };
        let Value::Integer(value) = replies[0] else { return None };
        let waited = client.try_call(&["WAIT", "1", "0"]).ok()?;
        (waited == Value::Integer(1)).then_some(value)
    };
    while let Some(value) = round() {
        acknowledged = value;
    }
    acknowledged
}
