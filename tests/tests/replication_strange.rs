//! Peers that do what no server does, and changes of role that meet each other: the server goes on,
//! and nothing that was acknowledged is lost.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tests::impostor::{greeting, impostor};
use tests::render::render;
use tests::replication::{await_replica, follow};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

const HASTY: &[&str] = &["--repl-diskless-sync-delay", "0", "--save", ""];

fn ask(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

#[test]
fn changes_of_role_that_meet_in_exec_and_beside_it_all_come_to_an_end() {
    let server = Server::start(HASTY);
    let beside = {
        let mut client = server.client();
        std::thread::spawn(move || {
            for _ in 0..40 {
                assert_eq!(ask(&mut client, "REPLICAOF 127.0.0.1 1"), "OK");
                assert_eq!(ask(&mut client, "REPLICAOF NO ONE"), "OK");
            }
        })
    };
    let mut client = server.client();
    for _ in 0..40 {
        check(&mut client, "> MULTI\nOK\n> REPLICAOF NO ONE\nQUEUED");
        assert_eq!(render(&client.call(&["EXEC"])), "1) OK");
    }
    beside.join().unwrap();
    check(&mut client, "> REPLICAOF NO ONE\nOK\n> SET k v\nOK");
}

/// Both begin at once, again and again: one of them is refused or given up, and there is always one
/// server that takes writes in the end, with all that was written before.
#[test]
fn a_failover_beside_replicaof_comes_to_an_end() {
    let pair = [Server::start(HASTY), Server::start(HASTY)];
    let mut written = 0;
    for round in 0..12 {
        let (top, below) = (&pair[round % 2], &pair[1 - round % 2]);
        check(&mut top.client(), "> REPLICAOF NO ONE\nOK");
        follow(below, top.port());
        await_replica(top, below);
        check(&mut top.client(), &format!("> INCR written\n(integer) {}", written + 1));
        written += 1;
        await_replica(top, below);
        let (mut one, mut other) = (top.client(), top.client());
        let began = Barrier::new(2);
        let answers = std::thread::scope(|scope| {
            let failover = scope.spawn(|| {
                began.wait();
                ask(&mut one, "FAILOVER TIMEOUT 2000")
            });
            began.wait();
            std::thread::sleep(Duration::from_micros(300 * round as u64));
            let demoted = ask(&mut other, &format!("REPLICAOF 127.0.0.1 {}", below.port()));
            [failover.join().unwrap(), demoted]
        });
        let is_told = |it: &String| it.starts_with("OK") || it.starts_with("(error) ");
        assert!(answers.iter().all(is_told), "{answers:?}");
        let mut clients = [top.client(), below.client()];
        eventually("no failover is under way", || {
            clients.iter_mut().all(|it| it.info("master_failover_state") == "no-failover")
        });
        // Where REPLICAOF came first, both are replicas of each other.
        check(&mut clients[1], "> REPLICAOF NO ONE\nOK");
        follow(top, below.port());
        await_replica(below, top);
        for client in &mut clients {
            check(client, &format!("> GET written\n\"{written}\""));
        }
        check(&mut clients[1], "> SET k v\nOK");
    }
}

/// Sentinels promote by a transaction, whichever clients write to the replica meanwhile.
#[test]
fn a_transaction_promotes_a_replica_that_clients_write_to() {
    let top = Oracle::Redis70.start(HASTY);
    let below = Server::start(&[HASTY, &["--replica-read-only", "no"]].concat());
    follow(&below, top.port());
    check(&mut top.client(), "> SET k v\nOK");
    await_replica(&top, &below);
    let mut client = below.client();
    check(&mut client, "> MULTI\nOK\n> SLAVEOF NO ONE\nQUEUED\n> SET own 1\nQUEUED");
    assert_eq!(render(&client.call(&["EXEC"])), "1) OK\n2) OK");
    check(&mut client, "> GET k\n\"v\"\n> GET own\n\"1\"");
    assert!(ask(&mut client, "ROLE").starts_with("1) \"master\""));
}

#[test]
fn a_transaction_that_changes_the_role_shows_nothing_half_done() {
    let server = Server::start(HASTY);
    let mut writer = server.client();
    check(&mut writer, "> SET k clean\nOK");
    let readers: Vec<_> = (0..2).map(|_| server.client()).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for mut reader in readers {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(ask(&mut reader, "GET k"), "\"clean\"");
                }
            });
        }
        for _ in 0..50 {
            writer.call(&["MULTI"]);
            for line in ["SET k dirty", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "SET k clean"]
            {
                assert_eq!(ask(&mut writer, line), "QUEUED");
            }
            let reply = render(&writer.call(&["EXEC"]));
            assert_eq!(reply, "1) OK\n2) OK\n3) OK\n4) OK");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_promotion_waits_for_no_pause() {
    let (top, below) = (Oracle::Redis70.start(HASTY), Server::start(HASTY));
    follow(&below, top.port());
    await_replica(&top, &below);
    let mut client = below.client();
    check(&mut client, "> CLIENT PAUSE 3600000 WRITE\nOK");
    check(&mut top.client(), "> SET k v\nOK");
    check(&mut client, "> REPLICAOF NO ONE\nOK\n> CLIENT UNPAUSE\nOK\n> SET k w\nOK");
}

#[test]
fn unpause_does_not_end_what_a_failover_holds() {
    let (top, below) = (Server::start(HASTY), Oracle::Redis70.start(HASTY));
    follow(&below, top.port());
    await_replica(&top, &below);
    below.signal(Signal::STOP);
    let mut client = top.client();
    check(&mut client, "> SET k v\nOK\n> FAILOVER\nOK\n> CLIENT UNPAUSE\nOK");
    let mut writer = top.client();
    writer.send(&["SET", "k", "w"]);
    assert!(writer.is_silent());
    check(&mut client, "> FAILOVER ABORT\nOK");
    assert_eq!(render(&writer.receive()), "OK");
    below.signal(Signal::CONT);
}

/// The old id ends where the stream of the old primary did, whatever database that had selected.
#[test]
fn the_second_id_ends_where_the_histories_part() {
    let (top, below) = (Oracle::Redis70.start(HASTY), Server::start(HASTY));
    follow(&below, top.port());
    await_replica(&top, &below);
    check(&mut top.client(), "> SELECT 5\nOK\n> SET k v\nOK\n> WAIT 1 0\n(integer) 1");
    await_replica(&top, &below);
    let mut client = below.client();
    check(&mut client, "> REPLICAOF NO ONE\nOK");
    // Nothing but a ping came behind it.
    let [ended, end] =
        [top.client().figure("master_repl_offset"), client.figure("second_repl_offset") - 1];
    assert!(end <= ended && end + 200 > ended, "{end} {ended}");
    assert!((end - ended) % 14 == 0, "no record of ours is of the old history: {end} {ended}");
    assert_eq!(client.info("master_replid2"), top.client().info("master_replid"));
}

#[test]
fn a_target_that_refuses_leaves_the_primary_one() {
    let top = Server::start(HASTY);
    let mut client = top.client();
    check(&mut client, "> SET precious v\nOK");
    let (port, heard) = impostor(|words| match words.split(' ').next().unwrap() {
        "PSYNC" => Some(b"-ERR PSYNC FAILOVER can't be sent to a master.\r\n".to_vec()),
        _ => greeting(words),
    });
    // The same that answers so is a replica on another connection.
    let mut replica = top.client();
    replica.call(&["REPLCONF", "listening-port", &port.to_string()]);
    replica.send(&["PSYNC", "?", "-1"]);
    eventually("it is sent its data", || {
        replica.send_raw(b"*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$1\r\n0\r\n");
        ask(&mut client, "INFO replication").contains("state=online")
    });
    let to = format!("FAILOVER TO 127.0.0.1 {port} FORCE TIMEOUT 10");
    assert_eq!(ask(&mut client, &to), "OK");
    let said = heard.join().unwrap();
    assert!(said.iter().any(|line| line.starts_with("PSYNC") && line.ends_with("FAILOVER")));
    assert!(!said.iter().any(|line| line == "SYNC"), "{said:?}");
    eventually("it is a primary again", || {
        client.info("role") == "master" && client.info("master_failover_state") == "no-failover"
    });
    check(&mut client, "> GET precious\n\"v\"\n> SET k v\nOK");
}

#[test]
fn a_failover_without_a_backlog_comes_to_nothing() {
    let settings = ["--repl-backlog-ttl", "1"];
    let (top, below) = (Server::start(&[HASTY, &settings].concat()), Oracle::Redis70.start(HASTY));
    follow(&below, top.port());
    await_replica(&top, &below);
    let mut client = top.client();
    let to = format!("FAILOVER TO 127.0.0.1 {} FORCE TIMEOUT 4000", below.port());
    below.signal(Signal::STOP);
    check(&mut client, "> SET k v\nOK");
    assert_eq!(ask(&mut client, &to), "OK");
    drop(below);
    eventually("it is over", || client.info("master_failover_state") == "no-failover");
    check(&mut client, "> SET k w\nOK");
    assert_eq!(client.info("role"), "master");
}

/// Data that were lost on the way stand nowhere, and a snapshot of them does not say otherwise.
#[test]
fn what_is_lost_on_the_way_is_fetched_whole_after_a_restart() {
    let top = Server::start(HASTY);
    check(&mut top.client(), "> SET k v\nOK");
    let settings = ["--repl-diskless-load", "flush-before-load", "--save", "3600 1"];
    let mut replica = Server::start_with_config("", &settings);
    follow(&replica, top.port());
    await_replica(&top, &replica);
    let (port, heard) = impostor(|words| match words.split(' ').next().unwrap() {
        "PSYNC" => {
            Some(format!("+FULLRESYNC {} 7\r\n$5000\r\nREDIS0010", "a".repeat(40)).into_bytes())
        }
        _ => greeting(words),
    });
    replica.client().call(&["REPLICAOF", "127.0.0.1", &port.to_string()]);
    heard.join().unwrap();
    let mut client = replica.client();
    let began = Instant::now();
    while ask(&mut client, "DBSIZE") != "(integer) 0" {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
    client.send(&["SHUTDOWN", "SAVE"]);
    eventually("it ends", || replica.has_ended());
    replica.restart();
    follow(&replica, top.port());
    await_replica(&top, &replica);
    check(&mut replica.client(), "> GET k\n\"v\"");
}
