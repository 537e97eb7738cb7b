//! What begins, waits or is under way when the role of a server changes: the old role's promises
//! end with it, and nothing of the other side is done behind the answer.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tests::client::encode;
use tests::memcached::Connection;
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow};
use tests::server::{eventually, free_port};
use tests::{Arrival, Client, Oracle, Server, check};

const ARGUMENTS: &[&str] = &["--repl-diskless-sync-delay", "0", "--save", ""];

fn ask(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

fn pair(further: &[&str]) -> (Server, Server) {
    let below = Server::start(&[ARGUMENTS, further].concat());
    let top = Server::start(ARGUMENTS);
    follow(&below, top.port());
    await_replica(&top, &below);
    (top, below)
}

/// Runs this while a client of the server says the same requests over and over.
fn beside_load<T>(server: &Server, requests: &[u8], replies: usize, run: impl FnOnce() -> T) -> T {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.client();
            while !is_over.load(Ordering::Relaxed) {
                client.send_raw(requests);
                (0..replies).for_each(|_| drop(client.receive()));
            }
        });
        let _stop = Stop(&is_over);
        run()
    })
}

/// A wait for so many keys begins on another thread, and is shown only when its session hears of
/// it: a demotion that comes in between ends it all the same, and nobody is served by a replica.
#[test]
fn a_wait_that_begins_beside_a_demotion_is_ended_by_it() {
    let (top, below) = (Server::start(ARGUMENTS), Server::start(ARGUMENTS));
    let keys: Vec<String> = (0..30_000).map(|number| format!("w{number}")).collect();
    let words = ["BLPOP"].into_iter().chain(keys.iter().map(String::as_str)).chain(["0"]);
    let request = encode(&words.collect::<Vec<_>>());
    let mut admin = below.client();
    for round in 0..12 {
        let mut waiting: Vec<Client> = (0..4).map(|_| below.client()).collect();
        waiting.iter_mut().for_each(|client| client.send_raw(&request));
        // At another moment of the way each time.
        std::thread::sleep(Duration::from_millis(round * 5));
        follow(&below, top.port());
        let mut left: Vec<Client> = Vec::new();
        for mut client in waiting {
            match client.arrival(Duration::from_secs(5)) {
                Ok(Arrival::Silence) => left.push(client),
                Ok(Arrival::Reply(reply)) => {
                    let told = render(&reply);
                    let is_told = told.contains("UNBLOCKED") || told.contains("READONLY");
                    assert!(is_told, "{told}");
                }
                // Before the reply could be read.
                Ok(Arrival::Closed) | Err(_) => {}
            }
        }
        assert!(left.is_empty(), "{} wait on in round {round}", left.len());
        await_replica(&top, &below);
        assert_eq!(ask(&mut top.client(), "RPUSH w7 x"), "(integer) 1");
        await_replica(&top, &below);
        assert_eq!(ask(&mut admin, "LLEN w7"), "(integer) 1");
        assert_eq!(ask(&mut top.client(), "DEL w7"), "(integer) 1");
        await_replica(&top, &below);
        assert_eq!(ask(&mut admin, "REPLICAOF NO ONE"), "OK");
    }
}

/// Units that need all locks wait for them beside the transaction that promotes: what is given up
/// by it is not applied behind it.
#[test]
fn what_a_promotion_gave_up_is_not_applied_behind_it() {
    let further = ["--replica-read-only", "no", "--enable-debug-command", "yes"];
    let (top, below) = pair(&further);
    let mut requests = encode(&["SET", "x", "1"]);
    (0..20).for_each(|_| requests.extend(encode(&["SWAPDB", "0", "1"])));
    requests.extend(encode(&["FLUSHALL"]));
    let mut client = below.client();
    for _ in 0..8 {
        let replies = beside_load(&top, &requests, 22, || {
            std::thread::sleep(Duration::from_millis(100));
            let unit = ["MULTI", "SET local 1", "DEBUG SLEEP 0.05", "REPLICAOF NO ONE", "EXEC"];
            unit.map(|line| ask(&mut client, line))
        });
        assert!(replies[4].ends_with("3) OK"), "{replies:?}");
        assert_eq!(client.info("role"), "master");
        assert_eq!(ask(&mut client, "GET local"), "\"1\"");
        follow(&below, top.port());
        await_replica(&top, &below);
    }
}

/// As with Redis: what a transaction reads before and behind its promotion is of one moment.
#[test]
fn a_transaction_that_promotes_sees_one_moment() {
    let (top, below) = pair(&[]);
    let requests: Vec<u8> = (0..500).flat_map(|_| encode(&["INCR", "count"])).collect();
    let mut client = below.client();
    for is_watched in [false, true, false, true] {
        beside_load(&top, &requests, 500, || {
            std::thread::sleep(Duration::from_millis(100));
            if is_watched {
                check(&mut client, "> WATCH other\nOK");
            }
            for line in ["MULTI", "GET count", "REPLICAOF NO ONE", "GET count"] {
                ask(&mut client, line);
            }
            let told = ask(&mut client, "EXEC");
            let lines: Vec<&str> = told.lines().collect();
            assert_eq!(lines[1], "2) OK", "{told}");
            assert_eq!(lines[0].strip_prefix("1)"), lines[2].strip_prefix("3)"), "{told}");
        });
        follow(&below, top.port());
        await_replica(&top, &below);
    }
}

/// What the replica of a replica could not hold is no part of its stream.
#[test]
fn what_clients_of_a_writable_replica_store_closes_no_link() {
    let (top, middle) = pair(&["--replica-read-only", "no", "--appendonly", "yes"]);
    let below = NodeKind::Genuine(Oracle::Redis70).start(&[]);
    follow(&below, middle.port());
    await_replica(&middle, &below);
    check(
        &mut middle.client(),
        "> HSET h f v\n(integer) 1\n> HEXPIRE h 100 FIELDS 1 f\n1) (integer) 1",
    );
    check(&mut top.client(), "> SET a 1\nOK\n> SET a 2\nOK");
    let mut client = below.client();
    eventually("it follows", || ask(&mut client, "GET a") == "\"2\"");
    assert_eq!(middle.client().info("sync_full"), "1");
    assert!(!middle.log().contains("cannot hold"), "{}", middle.log());
}

/// The gates are asked with all locks in hand, whatever was waited for.
#[test]
fn a_flush_of_memcached_that_waited_empties_no_replica() {
    let port = free_port();
    let further = ["--busy-reply-threshold", "60000", "--memcached-port", &port.to_string()];
    let below = Server::start(&[ARGUMENTS, &further].concat());
    let top = Server::start(ARGUMENTS);
    check(&mut top.client(), "> MSET a 1 b 2\nOK");
    let (mut script, mut role, mut flush) = (below.client(), below.client(), Connection::to(port));
    assert_eq!(flush.line("version\r\n").split(' ').next(), Some("VERSION"));
    const HOLD: &str = "repeat until string.find(redis.call('INFO', 'clients'), 'maxclients:4321')";
    script.send(&["EVAL", HOLD, "1", "held"]);
    let mut admin = below.client();
    eventually("it runs", || ask(&mut admin, "CLIENT LIST").contains("cmd=eval "));
    role.send(&["REPLICAOF", "127.0.0.1", &top.port().to_string()]);
    eventually("it waits", || ask(&mut admin, "CLIENT LIST").contains("cmd=replicaof "));
    std::thread::sleep(Duration::from_millis(100));
    flush.send(b"flush_all\r\n");
    assert_eq!(ask(&mut admin, "CONFIG SET maxclients 4321"), "OK");
    assert_eq!(render(&role.receive()), "OK");
    let told = flush.next_line();
    assert!(told.contains("READONLY") || told == "OK", "{told}");
    await_replica(&top, &below);
    check(&mut below.client(), "> MGET a b\n1) \"1\"\n2) \"2\"");
}
