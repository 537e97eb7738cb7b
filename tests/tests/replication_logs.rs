//! Histories in the append-only file: a server that is killed and comes back goes on in part where
//! its log says so, and never with data that are not those of the others.
//!
//! `APUS_REPLICATION_KILLS=100` asks for so many kills.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::random::Random;
use rustix::process::Signal;
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

use crate::append_only::{differences, state};
use crate::replication_primary::state_of;

const LOGS: &[&str] = &["--appendonly", "yes"];

/// Kills in a run.
const KILLS: usize = 6;

fn await_log(server: &Server) {
    let mut client = server.client();
    eventually("the log has a base", || {
        client.info("aof_rewrite_in_progress") == "0"
            && client.info("aof_rewrite_scheduled") == "0"
            && client.info("aof_enabled") == "1"
    });
}

/// Has all that was written so far in the log, as a kill finds it.
fn await_written(server: &Server) {
    let mut client = server.client();
    eventually("the log has everything", || client.info("aof_buffer_length") == "0");
}

/// A replica has the data of its primary, which is ours; digests of others are others.
fn assert_same(top: &Server, replica: &Server, what: &str) {
    let digest = |server: &Server| render(&server.client().call(&["DEBUG", "DIGEST"]));
    if replica.is_oracle() {
        let (expected, found) = (state(&mut top.client()), state_of(replica));
        assert!(expected == found, "{what}: {}", differences(&expected, &found));
    } else {
        assert_eq!(digest(top), digest(replica), "{what}");
    }
}

#[test]
fn a_primary_that_was_killed_goes_on_with_replicas_that_have_what_its_log_has() {
    let mut top = NodeKind::Apus.start(LOGS);
    let replicas = [
        NodeKind::Apus.start(&[]),
        NodeKind::Apus.start(LOGS),
        NodeKind::Genuine(Oracle::Redis70).start(&[]),
    ];
    check(&mut top.client(), "> SET k v\nOK");
    for replica in &replicas {
        follow(replica, top.port());
        await_replica(&top, replica);
    }
    check(&mut top.client(), "> SELECT 3\nOK\n> SET k w\nOK\n> WAIT 3 0\n(integer) 3");
    for round in 1..=2 {
        await_written(&top);
        let (id, offset) = {
            let mut client = top.client();
            (client.info("master_replid"), client.figure("master_repl_offset"))
        };
        top.kill();
        top.restart();
        let mut client = top.client();
        assert_eq!(client.info("master_replid2"), id);
        assert_eq!(client.figure("second_repl_offset"), offset + 1);
        check(&mut client, &format!("> SELECT 3\nOK\n> APPEND k x\n(integer) {}", 1 + round));
        for replica in &replicas {
            follow(replica, top.port());
            await_replica(&top, replica);
            assert_same(&top, replica, "killed at rest");
        }
        assert_eq!(["sync_full", "sync_partial_ok"].map(|it| client.info(it)), ["0", "3"]);
    }
}

/// A replica that syncs at once says so at once: nobody waits for the word of the next second.
#[test]
fn waitaof_hears_at_once_that_a_replica_has_synced() {
    const ROUNDS: u32 = 20;
    let always = [LOGS, &["--appendfsync", "always"]].concat();
    for kind in [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)] {
        let (top, replica) = (kind.start(&always), NodeKind::Apus.start(&always));
        follow(&replica, top.port());
        await_replica(&top, &replica);
        await_log(&replica);
        let mut client = top.client();
        let began = Instant::now();
        for _ in 0..ROUNDS {
            check(&mut client, "> SET k v\nOK\n> WAITAOF 1 1 0\n1) (integer) 1\n2) (integer) 1");
        }
        // With a word of each second they take a second each.
        assert!(began.elapsed() < Duration::from_secs(1) * ROUNDS / 2, "{kind:?}");
    }
}

/// What clients of a writable replica wrote outlives a kill, as in Redis, and nobody else has it.
#[test]
fn a_writable_replica_keeps_what_its_clients_wrote() {
    let kinds = [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)];
    for (kind, from_the_start) in kinds.into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let (top, below) = (NodeKind::Apus.start(&[]), NodeKind::Apus.start(&[]));
        let port = top.port().to_string();
        let read_only = if from_the_start { "no" } else { "yes" };
        let own = ["--replicaof", "127.0.0.1", &port, "--replica-read-only", read_only];
        let mut replica = kind.start(&[LOGS, &own].concat());
        check(&mut top.client(), "> SET k v\nOK\n> SELECT 3\nOK\n> SET k w\nOK");
        await_replica(&top, &replica);
        await_log(&replica);
        follow(&below, replica.port());
        await_replica(&replica, &below);
        let mut client = replica.client();
        check(&mut client, "> CONFIG SET replica-read-only no\nOK\n> APPEND k x\n(integer) 2");
        check(&mut client, "> MULTI\nOK\n> SET own 1\nQUEUED\n> INCR own\nQUEUED");
        check(&mut client, "> EXEC\n1) OK\n2) (integer) 2\n> SELECT 5\nOK\n> INCR n\n(integer) 1");
        check(&mut top.client(), "> SELECT 3\nOK\n> APPEND k y\n(integer) 2");
        // What waiters take of the stream's elements is theirs, too.
        let mut waiters = [replica.client(), replica.client()];
        waiters[0].send(&["BLPOP", "queue", "0"]);
        waiters[1].send(&["BLMOVE", "source", "target", "LEFT", "RIGHT", "0"]);
        eventually("they wait", || replica.client().figure("blocked_clients") == 2);
        check(&mut top.client(), "> RPUSH queue a b\n(integer) 2");
        check(
            &mut top.client(),
            "> MULTI\nOK\n> RPUSH source c d\nQUEUED\n> SET with it\nQUEUED\n\
             > EXEC\n1) (integer) 2\n2) OK",
        );
        waiters.iter_mut().for_each(|waiter| _ = waiter.receive());
        await_replica(&top, &replica);
        await_replica(&replica, &below);
        check(&mut below.client(), "> MGET k own\n1) \"v\"\n2) (nil)");
        await_written(&replica);
        top.signal(Signal::STOP);
        replica.kill();
        replica.restart();
        let mut client = replica.client();
        check(&mut client, "> MGET k own\n1) \"vx\"\n2) \"2\"\n> SELECT 3\nOK\n> GET k\n\"wy\"");
        check(&mut client, "> SELECT 5\nOK\n> GET n\n\"1\"\n> SELECT 0\nOK");
        check(&mut client, "> LRANGE queue 0 -1\n1) \"b\"\n> LRANGE source 0 -1\n1) \"d\"");
        check(&mut client, "> LRANGE target 0 -1\n1) \"c\"\n> GET with\n\"it\"");
        top.signal(Signal::CONT);
        await_replica(&top, &replica);
        // Redis takes all data anew behind a log; we go on in part, as after a broken link.
        let kept = if replica.is_oracle() { "(nil)" } else { "\"1\"" };
        let mut client = replica.client();
        check(&mut client, &format!("> SELECT 5\nOK\n> GET n\n{kept}"));
    }
}

#[test]
fn a_replica_that_was_killed_goes_on() {
    let kinds = Oracle::ALL.map(NodeKind::Genuine).into_iter().chain([NodeKind::Apus]);
    for kind in kinds {
        let top = kind.start(&[]);
        let port = top.port().to_string();
        let mut replica =
            NodeKind::Apus.start(&[LOGS, &["--replicaof", "127.0.0.1", &port]].concat());
        check(&mut top.client(), "> SELECT 3\nOK\n> SET k v\nOK");
        await_replica(&top, &replica);
        await_log(&replica);
        for (round, is_killed) in (1..).zip([true, false, true]) {
            let session = format!("> SELECT 3\nOK\n> INCR n\n(integer) {round}");
            check(&mut top.client(), &session);
            await_replica(&top, &replica);
            await_written(&replica);
            if is_killed {
                replica.kill();
            } else {
                replica.client().send(&["SHUTDOWN"]);
                eventually("it ends", || replica.has_ended());
            }
            let session = format!("> SELECT 3\nOK\n> APPEND k x\n(integer) {}", 1 + round);
            check(&mut top.client(), &session);
            replica.restart();
            await_replica(&top, &replica);
            check(
                &mut replica.client(),
                &format!(
                    "> SELECT 3\nOK\n> GET n\n\"{round}\"\n> GET k\n\"v{}\"",
                    "x".repeat(round)
                ),
            );
        }
        assert_eq!(
            ["sync_full", "sync_partial_ok"].map(|it| top.client().info(it)),
            ["1", "3"],
            "{kind:?}"
        );
    }
}

/// Increments keys in two databases until it is told to end, or the server ends.
fn write_until(port: u16, writer: usize, is_over: &AtomicBool) {
    let Ok(mut client) = Client::try_connect(port) else { return };
    for number in 0.. {
        let (key, database) =
            (format!("key:{writer}:{}", number % 50), (number / 7 % 2).to_string());
        let lines: [&[&str]; 5] = [
            &["SELECT", &database],
            &["INCR", &key],
            &["MULTI"],
            &["RPUSH", "list", &key],
            &["EXEC"],
        ];
        for line in lines {
            if is_over.load(Ordering::Relaxed) || client.try_call(line).is_err() {
                return;
            }
        }
    }
}

/// All servers have the same data in the end, whichever is killed under load, and however much of
/// its log that takes.
#[test]
fn kills_at_any_moment_never_join_what_does_not_belong_together() {
    let kills = std::env::var("APUS_REPLICATION_KILLS");
    let kills = kills.map_or(KILLS, |number| number.parse().expect("a number"));
    let mut random = Random::from_entropy();
    let mut partial = 0;
    for fsync in ["everysec", "always"] {
        let settings = [LOGS, &["--appendfsync", fsync]].concat();
        let mut top = NodeKind::Apus.start(&settings);
        let port = top.port().to_string();
        let follows = [&settings[..], &["--replicaof", "127.0.0.1", &port]].concat();
        let mut replica = NodeKind::Apus.start(&follows);
        let other = NodeKind::Genuine(Oracle::Redis82).start(&[]);
        follow(&other, top.port());
        for _ in 0..kills {
            for server in [&replica, &other] {
                await_replica(&top, server);
            }
            let (is_over, writes_to) = (AtomicBool::new(false), top.port());
            let (kills_top, kills_replica) =
                [(true, false), (false, true), (true, true)][random.below(3) as usize];
            std::thread::scope(|scope| {
                for writer in 0..3 {
                    let is_over = &is_over;
                    scope.spawn(move || write_until(writes_to, writer, is_over));
                }
                std::thread::sleep(Duration::from_millis(30 + random.below(150)));
                if kills_replica {
                    replica.kill();
                }
                if kills_top {
                    top.kill();
                }
                is_over.store(true, Ordering::Relaxed);
            });
            if kills_top {
                top.restart();
            }
            if kills_replica {
                replica.restart();
            }
            for server in [&replica, &other] {
                follow(server, top.port());
                await_replica(&top, server);
                assert_same(&top, server, &format!("{fsync} {kills_top} {kills_replica}"));
            }
            partial += top.client().figure("sync_partial_ok");
        }
    }
    assert!(partial > 0, "nobody went on in part");
}

/// What a transaction writes before it has the server follow another is of the history that ends
/// there: a reply that says so is kept.
#[test]
fn what_a_transaction_wrote_before_the_role_changed_is_in_the_log() {
    for mut server in Oracle::Redis82.beside(&["--appendonly", "yes", "--appendfsync", "always"]) {
        await_log(&server);
        let mut client = server.client();
        check(&mut client, "> MULTI\nOK\n> SET k v\nQUEUED\n> REPLICAOF 127.0.0.1 1\nQUEUED");
        check(&mut client, "> EXEC\n1) OK\n2) OK");
        assert_eq!(client.info("role"), "slave");
        server.kill();
        server.restart();
        check(&mut server.client(), "> GET k\n\"v\"");
    }
}
