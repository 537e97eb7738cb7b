//! What WAIT acknowledged is there when the primary, the replica or both are killed and a replica
//! is promoted by hand or by Sentinel, readers of a replica see transactions whole, and a server
//! that comes back ends with the same data.
//!
//! `APUS_REPLICATION_KILLS=100` asks for so many kills of each kind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::random::Random;
use proto::value::Value;
use rustix::process::Signal;
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow, promote};
use tests::sentinel::{NAME, Sentinel, SentinelProgram};
use tests::server::{eventually, free_port};
use tests::{Client, Oracle, Server};

/// Kills in a run.
const KILLS: usize = 4;

fn kills() -> usize {
    let asked = std::env::var("APUS_REPLICATION_KILLS").ok();
    asked.map_or(KILLS, |number| number.parse().expect("a number"))
}

/// Where writers wait for what.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promise {
    /// WAIT: a replica has it in memory.
    Memory,
    /// WAITAOF: the disks of both have it.
    Disks,
}

/// A node that keeps its port, as Sentinels want it.
fn start(log: &str) -> Server {
    start_with(&["--appendonly", log])
}

fn start_with(arguments: &[&str]) -> Server {
    let port = free_port().to_string();
    NodeKind::Apus.start(&[&["--port", &port], arguments].concat())
}

#[test]
fn what_wait_acknowledged_outlives_the_primary() {
    for log in ["no", "yes"] {
        let (mut primary, mut replica) = (start(log), start(log));
        let (mut random, mut total) = (Random::from_entropy(), 0);
        for kill in 0..kills() {
            follow(&replica, primary.port());
            await_replica(&primary, &replica);
            let after = random.below(200);
            let told = under_writers(primary.port(), Some(&replica), Promise::Memory, || {
                std::thread::sleep(Duration::from_millis(50 + after));
                primary.signal(Signal::KILL);
            });
            primary.kill();
            total += told.iter().sum::<i64>();
            promote(&replica);
            assert_kept(&mut replica.client(), &told, &format!("appendonly {log}, kill {kill}"));
            primary.restart();
            std::mem::swap(&mut primary, &mut replica);
        }
        assert!(total > 0, "nothing was acknowledged");
        follow(&replica, primary.port());
        await_replica(&primary, &replica);
        assert_same(&primary, &replica, log);
    }
}

/// The primary waits for a replica that is killed, and goes on with it.
#[test]
fn a_killed_replica_comes_back_to_what_was_acknowledged() {
    for log in ["no", "yes"] {
        let (primary, mut replica) = (start(log), start(log));
        let mut random = Random::from_entropy();
        for kill in 0..kills() {
            follow(&replica, primary.port());
            await_replica(&primary, &replica);
            let after = random.below(200);
            let told = under_writers(primary.port(), None, Promise::Memory, || {
                std::thread::sleep(Duration::from_millis(50 + after));
                replica.kill();
                replica.restart();
                follow(&replica, primary.port());
                std::thread::sleep(Duration::from_millis(after));
                // A client that waits for the replica is told that it waited long enough.
                primary.client().call(&["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
            });
            await_replica(&primary, &replica);
            for node in [&primary, &replica] {
                assert_kept(&mut node.client(), &told, &format!("appendonly {log}, kill {kill}"));
            }
            assert_same(&primary, &replica, log);
        }
    }
}

/// With a log, whichever of the two is the primary afterwards.
#[test]
fn what_both_disks_have_outlives_a_kill_of_both() {
    let node = || start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (mut primary, mut replica) = (node(), node());
    let mut random = Random::from_entropy();
    for kill in 0..kills() {
        follow(&replica, primary.port());
        await_replica(&primary, &replica);
        // The log of a replica is there when the rewrite behind its full sync is done.
        let mut client = primary.client();
        client.call(&["INCR", "begun"]);
        let synced = render(&client.call(&["WAITAOF", "1", "1", "0"]));
        assert_eq!(synced, "1) (integer) 1\n2) (integer) 1");
        let after = random.below(200);
        let told = under_writers(primary.port(), None, Promise::Disks, || {
            std::thread::sleep(Duration::from_millis(50 + after));
            let mut both = [&primary, &replica];
            both.rotate_left(kill % 2);
            both.into_iter().for_each(|it| it.signal(Signal::KILL));
        });
        for node in [&mut primary, &mut replica] {
            node.kill();
            node.restart();
        }
        for node in [&primary, &replica] {
            promote(node);
            assert_kept(&mut node.client(), &told, &format!("kill {kill}"));
        }
        if random.below(2) == 0 {
            std::mem::swap(&mut primary, &mut replica);
        }
    }
    follow(&replica, primary.port());
    await_replica(&primary, &replica);
    assert_same(&primary, &replica, "yes");
}

/// Half of the failovers are led by a real Sentinel.
#[test]
fn what_wait_acknowledged_outlives_the_primary_of_a_sentinel() {
    for (log, program) in
        [("no", SentinelProgram::Apus), ("yes", SentinelProgram::Stock(Oracle::Redis82))]
    {
        let mut nodes = [start(log), start(log)];
        follow(&nodes[1], nodes[0].port());
        await_replica(&nodes[0], &nodes[1]);
        let sentinel = watch(program, nodes[0].port());
        let mut random = Random::from_entropy();
        // Each takes some seconds.
        for kill in 0..kills().div_ceil(2) {
            sentinel.meet(1, 0);
            let [primary, replica] = &nodes;
            let after = random.below(200);
            let told = under_writers(primary.port(), Some(replica), Promise::Memory, || {
                std::thread::sleep(Duration::from_millis(50 + after));
                primary.signal(Signal::KILL);
            });
            nodes[0].kill();
            let new = nodes[1].port();
            eventually("it is promoted", || sentinel.primary_port() == Some(new));
            let what = format!("appendonly {log}, kill {kill}");
            assert_kept(&mut nodes[1].client(), &told, &what);
            nodes[0].restart();
            follow(&nodes[0], new);
            await_replica(&nodes[1], &nodes[0]);
            nodes.rotate_left(1);
        }
        assert_same(&nodes[0], &nodes[1], log);
    }
}

/// A Sentinel that watches a primary which is soon down.
fn watch(program: SentinelProgram, port: u16) -> Sentinel {
    program.start(&format!(
        "sentinel monitor {NAME} 127.0.0.1 {port} 1\n\
         sentinel down-after-milliseconds {NAME} 2000\n\
         sentinel failover-timeout {NAME} 2000\n"
    ))
}

fn assert_same(primary: &Server, replica: &Server, log: &str) {
    let digest = |it: &Server| render(&it.client().call(&["DEBUG", "DIGEST"]));
    assert_eq!(digest(primary), digest(replica), "appendonly {log}");
}

/// Each writer finds at least what it was told.
fn assert_kept(client: &mut Client, told: &[i64], what: &str) {
    for (key, least) in told.iter().enumerate() {
        let found = render(&client.call(&["GET", &format!("key:{key}")]));
        let found: i64 = found.trim_matches('"').parse().unwrap_or(0);
        assert!(found >= *least, "{what}, key:{key}: {found} < {least}");
    }
}

/// What each writer was told that there is, when `end` has ended them all.
fn under_writers(
    port: u16,
    replica: Option<&Server>,
    promise: Promise,
    end: impl FnOnce(),
) -> Vec<i64> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let write = |writer: usize| write_until_the_end(port, writer, promise, &is_over);
        let writers: Vec<_> = (0..3).map(|it| scope.spawn(move || write(it))).collect();
        let reader = replica.map(|replica| scope.spawn(|| read_whole(replica, &is_over)));
        end();
        is_over.store(true, Ordering::Relaxed);
        if let Some(reader) = reader {
            reader.join().expect("what it saw was whole");
        }
        writers.into_iter().map(|it| it.join().expect("it ends with the primary")).collect()
    })
}

/// Looks again and again at two keys that are always equal.
fn read_whole(replica: &Server, is_over: &AtomicBool) {
    let mut client = replica.client();
    while !is_over.load(Ordering::Relaxed) {
        let reply = client.call(&["MGET", "one", "other"]);
        let Value::Array(pair) = reply else { panic!("MGET replies a list: {reply:?}") };
        assert_eq!(pair[0], pair[1], "a transaction was seen in part");
    }
}

/// Increments a key, and two that are always equal, until the primary is gone; the newest value
/// that is promised.
fn write_until_the_end(port: u16, writer: usize, promise: Promise, is_over: &AtomicBool) -> i64 {
    let key = format!("key:{writer}");
    let mut acknowledged = 0;
    let Ok(mut client) = Client::try_connect(port) else { return 0 };
    let mut round = || -> Option<i64> {
        for words in [&["MULTI"][..], &["INCR", &key], &["INCR", "one"], &["INCR", "other"]] {
            client.try_call(words).ok()?;
        }
        let Value::Array(replies) = client.try_call(&["EXEC"]).ok()? else { return None };
        let Value::Integer(value) = replies[0] else { return None };
        let one = Value::Integer(1);
        let is_kept = match promise {
            Promise::Memory => client.try_call(&["WAIT", "1", "0"]).ok()? == one,
            Promise::Disks => {
                let waited = client.try_call(&["WAITAOF", "1", "1", "0"]).ok()?;
                waited == Value::Array(vec![one.clone(), one])
            }
        };
        is_kept.then_some(value)
    };
    while !is_over.load(Ordering::Relaxed) {
        let Some(value) = round() else { break };
        acknowledged = value;
    }
    acknowledged
}
